//! A run sees what the previous run of its key wrote.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Resource, ResourceExt};
use kube_controller::{Controller, OwnWrites, Watch};
use kube_informers::{Event, Informer, Object, ObjectKey};
use kube_testserver::builders::{Build, config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb, Which};

use crate::support::*;

const WANTED: usize = 5;

fn child(set: &ConfigMap) -> Pod {
    let mut pod = pod("shop", "");
    pod.metadata.name = None;
    pod.metadata.generate_name = Some(format!("{}-", set.object_name()));
    owned(pod, set)
}

/// Every event of a pod is delayed.
fn slow_watch(server: &TestServer, delay: std::time::Duration) {
    server.fault(
        RequestMatcher::watch("pods").forever(),
        Fault::delay_events(Which::All, delay),
    );
}

/// Runs a controller that wants [`WANTED`] pods, wakes it repeatedly, and returns the numbers of pods created and deleted.
async fn run(waits: bool) -> (usize, usize) {
    let server = TestServer::new();
    server.create(config_map("shop", "cart"));
    slow_watch(&server, ms(300));
    let (sets, pods, client) = (maps(&server), pods(&server), server.client());
    let writes = OwnWrites::new();
    let mut controller = Controller::new("test")
        .watches(Watch::object(&sets))
        .watches(Watch::owner::<ConfigMap>(&pods));
    if waits {
        controller = controller.own_writes(&writes);
    }
    let (store, lister) = (sets.store(), pods.lister());
    let cache = pods.clone();
    let controller = controller
        .start(async move |key: ObjectKey| {
            let Some(set) = store.get(&key) else { return Ok(()) };
            let api = writes.api(&key, Api::<Pod>::namespaced(client.clone(), "shop"), &cache);
            let children = lister.controlled_by(&*set);
            for _ in children.len()..WANTED {
                api.create(&PostParams::default(), &child(&set)).await?;
            }
            for surplus in children.iter().skip(WANTED) {
                api.delete(surplus.object_name(), &DeleteParams::default())
                    .await?;
            }
            Ok::<(), kube::Error>(())
        })
        .unwrap();
    for touch in 0..20 {
        pass(ms(100)).await;
        server.modify::<ConfigMap>("shop", "cart", |set| {
            *set = set.clone().label("touched", &touch.to_string());
        });
    }
    pass(secs(10)).await;
    controller.shutdown().await.unwrap();
    (
        server.count_requests(Verb::Create, "pods"),
        server.count_requests(Verb::Delete, "pods"),
    )
}

#[tokio::test(start_paused = true)]
async fn delayed_watch_does_not_cause_too_many_children() {
    assert_eq!(run(true).await, (WANTED, 0));

    let (created, _) = run(false).await;
    assert!(
        created > WANTED,
        "the cache was not stale, so this proves nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn run_is_postponed_while_the_cache_does_not_catch_up() {
    let server = TestServer::new();
    let (pods, runs) = (pods(&server), Runs::new());
    soon("synced", pods.synced()).await.unwrap();
    server.fault(RequestMatcher::watch("pods").forever(), Fault::hang());
    server.break_watches();
    settle().await;
    let (writes, key) = (
        OwnWrites::with_timeout(secs(2)),
        ObjectKey::namespaced("shop", "cart"),
    );
    let written = server.create(pod("shop", "cart"));
    writes.record(&key, &pods, &written);

    let controller = Controller::new("test").own_writes(&writes);
    controller.queue().add(key.clone());
    let controller = controller.start(runs.reconciler()).unwrap();
    pass(secs(20)).await;

    assert_eq!(runs.count(), 0);
    assert!(
        controller.run_counts().stale >= 2,
        "{:?}",
        controller.run_counts()
    );
    let error = writes.wait_for_caches(&key).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cache does not hold this controller's last write of shop/cart after 2s"
    );
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deletion_and_writes_without_a_version_are_waited_for() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    slow_watch(&server, secs(1));
    let (pods, key) = (pods(&server), ObjectKey::namespaced("shop", "set"));
    soon("synced", pods.synced()).await.unwrap();
    let writes = OwnWrites::new();
    let api = writes.api(&key, Api::<Pod>::namespaced(server.client(), "shop"), &pods);

    api.delete("cart", &DeleteParams::default()).await.unwrap();
    assert!(pods.store().contains("shop/cart"), "the cache is stale");
    writes.wait_for_caches(&key).await.unwrap();
    let cached = pods.store().get("shop/cart");
    assert!(cached.is_none_or(|pod| pod.meta().deletion_timestamp.is_some()));

    server.create(pod("shop", "unbound"));
    let unbound = ObjectKey::namespaced("shop", "unbound");
    writes.expect(&key, &pods, &unbound, |pod: Option<&Pod>| {
        pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref()) == Some("n1")
    });
    server.modify::<Pod>("shop", "unbound", |pod| {
        pod.spec.get_or_insert_default().node_name = Some("n1".to_owned());
    });
    writes.wait_for_caches(&key).await.unwrap();
    assert!(
        pods.store()
            .get(&unbound)
            .is_some_and(|pod| pod.spec.as_ref().unwrap().node_name.is_some())
    );

    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry, &pod("shop", "dry")).await.unwrap();
    writes
        .wait_for_caches(&key)
        .await
        .expect("a dry run is not remembered");
}

/// Reads the events of own and foreign updates.
#[tokio::test(start_paused = true)]
async fn events_of_own_writes_can_be_ignored_also_after_a_relist() {
    let server = TestServer::new();
    server.create(config_map("shop", "prices"));
    let cache: Informer<ConfigMap> = maps(&server);
    let mut events = cache.subscribe();
    soon("synced", cache.synced()).await.unwrap();
    let (writes, key) = (OwnWrites::new(), ObjectKey::namespaced("shop", "prices"));
    let api = writes.api(
        &key,
        Api::<ConfigMap>::namespaced(server.client(), "shop"),
        &cache,
    );
    let mut foreign = writes.foreign::<ConfigMap>();
    assert!(foreign(&events.next().await.unwrap()), "the initial event");
    let write = async |label: &str| {
        let map = api.get("prices").await.unwrap().label("mine", label);
        api.replace("prices", &PostParams::default(), &map).await.unwrap()
    };

    write("1").await;
    let own = events.next().await.unwrap();
    assert!(matches!(own, Event::Updated { .. }) && !foreign(&own), "{own}");

    server.modify::<ConfigMap>("shop", "prices", |map| *map = map.clone().label("theirs", "1"));
    let theirs = events.next().await.unwrap();
    assert!(foreign(&theirs), "{theirs}");

    // Two own writes that arrive as one event, and then an own write on top of a foreign one.
    server.compact();
    let down = server.fault(RequestMatcher::watch("configmaps").forever(), Fault::status(503));
    server.break_watches();
    settle().await;
    write("2").await;
    write("3").await;
    server.compact();
    down.clear();
    let both = events.next().await.unwrap();
    assert_eq!(both.object().labels()["mine"], "3");
    assert!(!foreign(&both), "{both}");

    let down = server.fault(RequestMatcher::watch("configmaps").forever(), Fault::status(503));
    server.break_watches();
    settle().await;
    server.modify::<ConfigMap>("shop", "prices", |map| *map = map.clone().label("theirs", "2"));
    write("4").await;
    server.compact();
    down.clear();
    let mixed = events.next().await.unwrap();
    assert!(foreign(&mixed), "a foreign change is inside: {mixed}");
}
