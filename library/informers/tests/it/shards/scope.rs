//! An informer with a fixed shard, and how the server handles the selector.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_informers::reflector::ShardSupport;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::source::Script;
use kube_informers::source::{ListAnswer, WatchAnswer};
use kube_informers::{Informer, Object, Scope, SharedInformerFactory};
use kube_testserver::{ApiError, Fault, Poison, RequestMatcher, TestServer};

use super::support::*;
use crate::support::{cached, force_relist, minutes, pass, secs, settle, stored, synced, wait_for};

fn support<K: Object>(informer: &Informer<K>) -> ShardSupport {
    informer.stats().members[0].reflector.shard_support
}

/// The cache equals the shard after creations, changes, deletions and a relist.
async fn holds_its_shard<K: Object>(server: &TestServer, informer: &Informer<K>, shard: &Shard) {
    assert_eq!(cached(informer), stored_in(server, shard));
    assert!(!cached(informer).is_empty(), "the shard is not empty");
    for round in 0..3 {
        for number in 0..10 {
            let name = format!("r{round}-{number}");
            server.create(kube_testserver::builders::pod("a", &name));
        }
        server.modify::<Pod>("a", "p0", |pod| {
            pod.metadata
                .annotations
                .get_or_insert_default()
                .insert("round".into(), round.to_string());
        });
        server.delete::<Pod>("a", &format!("r{round}-0"));
        if round == 1 {
            force_relist(server);
        }
        let wanted = stored_in(server, shard);
        wait_for("the cache follows", || cached(informer) == wanted).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_does_not_depend_on_shard_support_of_the_server() {
    let shard = eighths(2..4);
    let mut bytes = Vec::new();
    for honours in [true, false] {
        for watch_list in [true, false] {
            let server = server(honours, 200);
            let builder = Informer::<Pod>::scoped(server.client(), Scope::all().shard(shard.clone()))
                .configure(|config| config.watch_list = watch_list);
            let informer = synced(builder).await;
            bytes.push(informer.stats().members[0].reflector.bytes);
            holds_its_shard(&server, &informer, &shard).await;

            let outside = informer.stats().members[0].reflector.outside;
            assert_eq!(outside > 0, !honours, "{outside}");
            let sent = server.requests();
            let selector = shard.selector();
            assert!(
                sent.iter()
                    .all(|request| request.param("shardSelector") == selector.as_deref())
            );
            assert_eq!(informer.stats().members[0].shard.as_ref(), Some(&shard));
        }
    }
    assert!(
        bytes[0] * 3 < bytes[2] && bytes[1] * 3 < bytes[3],
        "a quarter transfers fewer bytes: {bytes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn shards_by_namespace_keep_namespaces_together() {
    let whole = ShardRange::ALL.split(2);
    for honours in [true, false] {
        let server = server(honours, 20);
        let mut seen = Vec::new();
        for half in &whole {
            let shard = Shard::new(ShardField::Namespace, [*half]);
            let scope = Scope::all().shard(shard.clone());
            let informer = synced(Informer::<Pod>::scoped(server.client(), scope)).await;
            assert_eq!(cached(&informer), stored_in(&server, &shard));
            seen.extend(cached(&informer));
        }
        seen.sort();
        assert_eq!(seen, stored(&server, "pods"), "each is in exactly one half");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_of_several_namespaces_can_be_sharded() {
    for honours in [true, false] {
        let server = server(honours, 60);
        let shard = eighths(0..4);
        let scope = Scope::namespaces(["a", "b"]).shard(shard.clone());
        let informer = synced(Informer::<Pod>::scoped(server.client(), scope)).await;
        assert_eq!(informer.stats().members.len(), 2);
        assert_eq!(cached(&informer), stored_in(&server, &shard));

        informer.set_shard(eighths(2..6)).unwrap();
        assert!(!informer.has_settled());
        informer.settled().await.unwrap();
        assert_eq!(cached(&informer), stored_in(&server, &eighths(2..6)));
    }
}

#[tokio::test(start_paused = true)]
async fn stats_report_the_shard_support_of_the_server() {
    for (honours, expected) in [(true, ShardSupport::Honoured), (false, ShardSupport::Ignored)] {
        let server = server(honours, 40);
        let scope = Scope::all().shard(eighths(0..4));
        let builder = Informer::<Pod>::scoped(server.client(), scope.clone())
            .configure(|config| config.watch_list = false);
        let informer = synced(builder).await;
        assert_eq!(support(&informer), expected, "a list of whole objects shows it");

        // A watch-list has no echo; only an object outside the shard shows that the selector was ignored.
        let streamed = synced(Informer::<Pod>::scoped(server.client(), scope)).await;
        let seen = if honours {
            ShardSupport::Unknown
        } else {
            ShardSupport::Ignored
        };
        assert_eq!(support(&streamed), seen);
    }
    let server = server(true, 10);
    let whole = synced(Informer::<Pod>::all(server.client())).await;
    assert_eq!(support(&whole), ShardSupport::Unknown, "no selector was sent");
    assert_eq!(whole.stats().members[0].shard, None);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_without_echo_shows_that_the_selector_was_ignored() {
    let server = server(false, 0);
    let builder = Informer::<Pod>::scoped(server.client(), Scope::all().shard(eighths(0..4)))
        .configure(|config| config.watch_list = false);
    let informer = synced(builder).await;
    assert_eq!(support(&informer), ShardSupport::Ignored);
}

#[tokio::test(start_paused = true)]
async fn metadata_and_dynamic_objects_can_be_sharded() {
    let shard = eighths(3..5);
    let scope = Scope::all().shard(shard.clone());
    for honours in [true, false] {
        let server = server(honours, 80);
        let metadata = Informer::<PartialObjectMeta<Pod>>::scoped(server.client(), scope.clone())
            .configure(|config| config.watch_list = false);
        let metadata = synced(metadata).await;
        // Such a list has no echo, so support is known only from the objects.
        let seen = if honours {
            ShardSupport::Unknown
        } else {
            ShardSupport::Ignored
        };
        assert_eq!(support(&metadata), seen);
        holds_its_shard(&server, &metadata, &shard).await;
        metadata.set_shard(eighths(4..8)).unwrap();
        metadata.settled().await.unwrap();
        assert_eq!(cached(&metadata), stored_in(&server, &eighths(4..8)));

        let resource = ApiResource::erase::<Pod>(&());
        let dynamic = Informer::<DynamicObject>::dynamic(server.client(), &resource, scope.clone());
        let dynamic = synced(dynamic).await;
        assert_eq!(cached(&dynamic), stored_in(&server, &shard));
        dynamic.set_shard(eighths(4..8)).unwrap();
        dynamic.settled().await.unwrap();
        assert_eq!(cached(&dynamic), stored_in(&server, &eighths(4..8)));
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_objects_are_quarantined_only_inside_the_shard() {
    let shard = eighths(0..4);
    let server = server(false, 0);
    create_in(&server, &shard, "inside");
    create_in(&server, &eighths(4..8), "outside");
    for name in ["inside", "outside"] {
        server.poison("pods", &format!("a/{name}"), Poison::WrongType);
    }
    let builder = Informer::<Pod>::scoped(server.client(), Scope::all().shard(shard.clone()));
    let informer = synced(builder).await;
    let quarantined = |informer: &Informer<Pod>| {
        let keys = informer.quarantine().into_iter().map(|bad| bad.key.to_string());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(quarantined(&informer), ["a/inside"]);

    // The same for a watch event.
    for name in ["inside", "outside"] {
        server.modify::<Pod>("a", name, |pod| {
            pod.metadata
                .annotations
                .get_or_insert_default()
                .insert("x".into(), "y".into());
        });
    }
    pass(secs(2)).await;
    assert_eq!(quarantined(&informer), ["a/inside"]);

    // It is evicted with its range.
    informer.set_shard(eighths(4..8)).unwrap();
    assert_eq!(quarantined(&informer), [""; 0]);
    informer.settled().await.unwrap();
    assert_eq!(quarantined(&informer), ["a/outside"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_the_selector_is_requested_without_it() {
    let shard = eighths(0..4);
    let selector = shard.selector().unwrap();
    let refusal = "invalid shard selector: unsupported field path";
    for (error, watch_list) in [
        (ApiError::new(500, "", refusal), true),
        (ApiError::new(500, "", refusal), false),
        (ApiError::bad_request(refusal), true),
        (ApiError::bad_request(refusal), false),
    ] {
        let server = server(false, 40);
        let on = RequestMatcher::resource("pods")
            .param("shardSelector", &selector)
            .forever();
        let fault = server.fault(on, Fault::error(error));
        let builder = Informer::<Pod>::scoped(server.client(), Scope::all().shard(shard.clone()))
            .configure(|config| config.watch_list = watch_list);
        let informer = synced(builder).await;

        assert_eq!(cached(&informer), stored_in(&server, &shard));
        assert_eq!(support(&informer), ShardSupport::Ignored);
        assert_eq!(fault.struck(), 1, "asked once");
        holds_its_shard(&server, &informer, &shard).await;
        assert_eq!(fault.struck(), 1);
        pass(minutes(11)).await;
        server.close_watches();
        settle().await;
        assert!(fault.struck() > 1, "the selector is tried again later");
        let wanted = stored_in(&server, &shard);
        wait_for("the cache recovers", || cached(&informer) == wanted).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_names_a_rejected_selector() {
    let server = server(false, 4);
    let error = ApiError::new(500, "", "invalid shard selector: unexpected expression kind");
    server.fault(RequestMatcher::resource("pods").forever(), Fault::error(error));
    let informer = Informer::<Pod>::scoped(server.client(), Scope::all().shard(eighths(0..4))).start();

    let error = informer.synced_within(secs(5)).await.unwrap_err().to_string();
    assert!(error.contains("invalid shard selector"), "{error}");
    assert!(
        error.contains("objects outside the shard are filtered by the client"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_outside_the_shard_advances_the_version() {
    let server = server(false, 10);
    let shard = eighths(0..4);
    let informer = synced(Informer::<Pod>::scoped(
        server.client(),
        Scope::all().shard(shard.clone()),
    ))
    .await;

    let written = create_in(&server, &eighths(4..8), "other")
        .metadata
        .resource_version
        .unwrap();
    informer
        .wait_for_within(&written, secs(1))
        .await
        .expect("before the next bookmark");

    assert_eq!(informer.store().resource_version(), Some(written));
    assert_eq!(cached(&informer), stored_in(&server, &shard));
}

#[tokio::test(start_paused = true)]
async fn a_source_without_shard_support_is_filtered() {
    let object = |name: &str, uid: &str, version: &str| {
        let mut pod = kube_testserver::builders::pod("a", name);
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.resource_version = Some(version.to_owned());
        pod
    };
    let halves = ShardRange::ALL.split(2);
    let uid = |half: usize| {
        let mut numbers = (0..1000).map(|number| format!("{number:08x}-5f1c-4b7e-9d3a-c0ffee123456"));
        let inside = numbers.find(|uid| halves[half].contains(kube_informers::shard::shard_hash(uid)));
        inside.expect("a pod inside the shard")
    };
    let script = Script::new();
    script.on_list(ListAnswer::page(
        [object("in", &uid(0), "1"), object("out", &uid(1), "2")],
        "5",
    ));
    script.on_watch(
        WatchAnswer::new()
            .added(object("also-out", &uid(1), "6"))
            .modified(object("in", &uid(0), "7")),
    );
    let informer = Informer::from_source(script)
        .shard(Shard::new(ShardField::Uid, [halves[0]]))
        .configure(|config| config.watch_list = false)
        .start();
    informer.synced().await.unwrap();
    wait_for("the watch is read", || {
        informer.store().resource_version().as_deref() == Some("7")
    })
    .await;

    assert_eq!(cached(&informer), ["a/in@7"]);
    assert_eq!(informer.stats().totals.outside, 2);
}

/// A projection of a pod to its name.
#[derive(serde::Deserialize)]
struct Nameplate {
    metadata: Meta,
}

#[derive(serde::Deserialize)]
struct Meta {
    name: String,
    namespace: Option<String>,
}

impl Object for Nameplate {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }
    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }
    fn object_uid(&self) -> Option<&str> {
        None
    }
    fn object_version(&self) -> Option<&str> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_uid_is_quarantined_in_a_shard_by_uid() {
    let server = server(false, 20);
    let resource = ApiResource::erase::<Pod>(&());
    let of = |shard: Shard| {
        Informer::<Nameplate>::projected(server.client(), &resource, Scope::all().shard(shard))
    };
    let informer = synced(of(eighths(0..4))).await;
    assert!(informer.store().is_empty());
    let problem = informer.quarantine()[0].object.to_string();
    assert!(
        problem.contains("has no UID") && problem.contains("use shards by namespace"),
        "{problem}"
    );

    let half = Shard::new(ShardField::Namespace, [ShardRange::ALL.split(2)[0]]);
    let informer = synced(of(half.clone())).await;
    assert_eq!(informer.store().len(), stored_in(&server, &half).len());
}

#[tokio::test(start_paused = true)]
async fn a_factory_shares_informers_by_shard_and_their_shard_cannot_be_moved() {
    let server = server(true, 40);
    let factory = SharedInformerFactory::new(server.client());
    let low = factory.scoped(Scope::all().shard(eighths(0..4)));
    let high = factory.scoped(Scope::all().shard(eighths(4..8)));
    let pods = low.informer::<Pod>();
    let again = low.informer::<Pod>();
    let others = high.informer::<Pod>();
    // An informer whose shard moves needs its own name.
    let moving = low.informer_named::<Pod>("mine", |factory| factory.default_builder());
    factory.start();
    factory.wait_for_sync().await.unwrap();
    assert_eq!(factory.informers(), 3);

    assert_eq!(cached(&pods), stored_in(&server, &eighths(0..4)));
    assert_eq!(cached(&again), cached(&pods));
    assert_eq!(cached(&others), stored_in(&server, &eighths(4..8)));
    let refused = pods.set_shard(eighths(0..1)).unwrap_err().to_string();
    assert!(refused.contains("informer_named"), "{refused}");
    assert_eq!(cached(&pods), stored_in(&server, &eighths(0..4)));
    moving.set_shard(eighths(0..1)).unwrap();
    assert_eq!(cached(&moving), stored_in(&server, &eighths(0..1)));

    // The same for a resource known only by name.
    let named = low.for_resource("pods").await.unwrap();
    factory.start();
    named.synced_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(cached(&named), stored_in(&server, &eighths(0..4)));
    factory.shutdown().await;
}
