//! The limits of fetching a collection: bytes, objects, throughput, time. `verify/hostile` has the same over HTTP.

use kube_informers::reflector::StreamEnd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::delta::Delta;
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::reflector::{ReflectorConfig, Resume};
use kube_informers::source::{
    Known, LimitExceeded, ListAnswer, ListItem, ListMeta, ListRequest, ListStream, ListerWatcher, Script,
    SourceError, WatchAnswer, WatchItem, WatchRequest, WatchStream,
};
use kube_informers::store::QuarantineChanges;
use kube_informers::{Informer, ObjectKey};

use crate::support::*;

/// Runs an informer over scripted lists until the first end with an error, and returns the error and what follows.
async fn first_failure(
    source: &Recorded,
    config: ReflectorConfig,
    limits: fn(&mut ReflectorConfig),
) -> (String, Option<LimitExceeded>, Resume) {
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let hook = move |end: &StreamEnd<'_>| {
        if let Some(error) = end.error {
            let limit = match error {
                SourceError::Limit(limit) => Some(*limit),
                _ => None,
            };
            failed.send((error.to_string(), limit, end.resume)).ok();
        }
    };
    let informer = Informer::from_source(source.clone())
        .config(ReflectorConfig {
            on_stream_end: Some(Arc::new(hook)),
            ..config
        })
        .configure(limits)
        .start();
    let first = within(seconds(3 * 3600), failures.recv()).await.unwrap();
    assert!(first.2 == Resume::ListInstead || !informer.has_synced());
    let errors = informer.stats().members[0].reflector.errors.clone();
    assert_eq!(errors.contains_key("limit"), first.1.is_some(), "{errors:?}");
    informer.shutdown().await;
    first
}

fn chunk(bytes: usize) -> ListItem<Pod> {
    ListItem::Progress { bytes }
}

fn bad(name: Option<&str>, size: usize) -> BadObject {
    BadObject {
        key: name.map(ObjectKey::cluster),
        uid: None,
        resource_version: Some("1".to_owned()),
        problem: Problem::Decode("spec: wrong type".to_owned()),
        size,
    }
}

fn end(version: &str) -> ListMeta {
    ListMeta {
        resource_version: Some(version.to_owned()),
        ..ListMeta::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_with_more_objects_than_the_limit_is_discarded_and_retried_after_a_minute() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(
        ["a", "b", "c"].map(|name| pod_at(name, "1")),
        "1",
    ));
    source.on_list(ListAnswer::page([pod_at("a", "2")], "2"));

    let (text, limit, resume) =
        first_failure(&source, list_first(), |config| config.limits.objects = Some(2)).await;

    assert_eq!(limit, Some(LimitExceeded::Objects { limit: 2 }), "{text}");
    assert_eq!(resume, Resume::RetrySync);

    let informer = Informer::from_source(source.clone()).config(list_first()).start();
    within(seconds(1), informer.synced()).await.unwrap();
    assert_eq!(informer.store().len(), 1, "the limit is off by default");
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_exceeds_a_limit_keeps_the_cache_and_recovers() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1")], "1"));
    source.on_watch(WatchAnswer::new().failure(api(410, "Expired")));
    source.on_list(ListAnswer::page(
        ["a", "b", "c"].map(|name| pod_at(name, "5")),
        "5",
    ));
    source.on_list(ListAnswer::page(["a", "b"].map(|name| pod_at(name, "6")), "6"));
    let informer = Informer::from_source(source.clone())
        .config(list_first())
        .configure(|config| config.limits.objects = Some(2))
        .start();
    within(seconds(1), informer.synced()).await.unwrap();

    wait_for("the limit is exceeded", || {
        informer.stats().members[0].reflector.errors.contains_key("limit")
    })
    .await;
    assert_eq!(cached(&informer), ["a@1"]);

    wait_for("it lists again", || informer.store().len() == 2).await;
    let times = source.times();
    let gap = times[3] - times[2];
    assert!((seconds(60)..seconds(120)).contains(&gap), "{times:?}");
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_all_pages_count_together() {
    let source = Recorded::new();
    for page in 0..3 {
        let meta = ListMeta {
            continue_token: Some(format!("token{page}")),
            ..end("1")
        };
        let object = pod_at(&format!("p{page}"), "1");
        source.on_list(ListAnswer::new().item(chunk(1000)).objects([object]).end(meta));
    }

    let (text, limit, _) =
        first_failure(&source, list_first(), |config| config.limits.bytes = Some(2500)).await;

    assert_eq!(limit, Some(LimitExceeded::Bytes { limit: 2500 }), "{text}");
    assert_eq!(source.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_that_repeats_one_object_is_replaced_by_a_list() {
    let source = Recorded::with_watch_list();
    let mut watch = WatchAnswer::new();
    for version in 0..100 {
        watch = watch
            .item(WatchItem::Progress { bytes: 1000 })
            .modified(pod_at("a", &version.to_string()));
    }
    source.on_watch(watch.hang());
    source.on_list(ListAnswer::page([pod_at("a", "200")], "200"));

    let (text, limit, resume) = first_failure(&source, watch_list_first(), |config| {
        config.limits.wasted_bytes = 50_000;
    })
    .await;

    assert_eq!(
        limit,
        Some(LimitExceeded::WastedBytes { limit: 50_000 }),
        "{text}"
    );
    assert_eq!(resume, Resume::ListInstead);
    assert!(text.contains("`limits.wasted_bytes`"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn objects_outside_the_shard_do_not_count_as_waste() {
    let source = Recorded::new();
    let mut list = ListAnswer::new();
    for _ in 0..100 {
        list = list.item(chunk(1000)).item(ListItem::Outside);
    }
    source.on_list(list.item(chunk(10)).objects([pod_at("a", "1")]).end(end("1")));
    let informer = Informer::from_source(source)
        .config(list_first())
        .configure(|config| config.limits.wasted_bytes = 2000)
        .start();

    within(seconds(1), informer.synced()).await.unwrap();
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_single_named_object_is_a_failure() {
    let source = Recorded::new();
    let items = (0..1000).fold(ListAnswer::new(), |list, _| {
        list.item(ListItem::Unreadable(bad(None, 2)))
    });
    source.on_list(items.end(end("1")));

    let (text, _, resume) = first_failure(&source, list_first(), |_| {}).await;

    assert_eq!(
        text,
        "none of the 1000 items of the list is an object with a name; the first cannot be decoded: spec: wrong type"
    );
    assert_eq!(resume, Resume::RetrySync);
}

/// One tenant's object must not keep a controller from starting, so a list of quarantined objects is complete.
#[tokio::test(start_paused = true)]
async fn a_list_of_objects_that_are_quarantined_by_key_is_synced() {
    let source = Recorded::new();
    source.on_list(
        ListAnswer::new()
            .item(ListItem::Unreadable(bad(Some("only"), 2)))
            .end(end("1")),
    );
    let informer = Informer::from_source(source).config(list_first()).start();

    within(seconds(1), informer.synced()).await.unwrap();
    assert_eq!(informer.quarantine().len(), 1);
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_byte_every_29_seconds_is_ended() {
    let source = Recorded::new();
    let trickle = (0..10_000).fold(ListAnswer::new(), |list, _| {
        list.after(seconds(29)).item(chunk(1))
    });
    source.on_list(trickle);

    let (text, limit, _) = first_failure(&source, list_first(), |_| {}).await;

    assert!(matches!(limit, Some(LimitExceeded::Throughput { .. })), "{text}");
    assert_eq!(
        text,
        "the server sent 2 bytes within 60 s, less than 64 bytes per second (setting: `deadlines.min_throughput`)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_that_trickles_its_initial_events_is_replaced_by_a_list() {
    let source = Recorded::with_watch_list();
    let mut watch = WatchAnswer::new();
    for number in 0..1000 {
        watch = watch
            .after(seconds(4))
            .item(WatchItem::Progress { bytes: 200 })
            .added(pod_at(&format!("p{number}"), "1"));
    }
    source.on_watch(watch);
    source.on_list(ListAnswer::page([], "1"));

    let (text, limit, resume) = first_failure(&source, watch_list_first(), |_| {}).await;

    assert!(matches!(limit, Some(LimitExceeded::Throughput { .. })), "{text}");
    assert_eq!(resume, Resume::ListInstead);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_complete_is_ended_by_the_total_deadline() {
    let source = Recorded::new();
    let steady = (0..10_000).fold(ListAnswer::new(), |list, number| {
        list.after(seconds(10))
            .item(chunk(20_000))
            .objects([pod_at(&format!("p{number}"), "1")])
    });
    source.on_list(steady);

    let (text, limit, _) = first_failure(&source, list_first(), |_| {}).await;

    assert_eq!(
        limit,
        Some(LimitExceeded::Duration {
            limit: Duration::from_secs(7200)
        }),
        "{text}"
    );
}

/// 200,000 pods of 20 kB: 4 GB at 1.25 MB/s.
#[tokio::test(start_paused = true)]
async fn a_list_of_200_000_pods_over_10_megabits_per_second_passes() {
    let source = Recorded::new();
    let list = (0..3200).fold(ListAnswer::new(), |list, number| {
        list.after(seconds(1))
            .item(chunk(1_250_000))
            .objects([pod_at(&format!("p{number}"), "1")])
    });
    source.on_list(list.end(end("1")));
    let informer = Informer::from_source(source.clone()).config(list_first()).start();

    within(seconds(3300), informer.synced()).await.unwrap();
    assert_eq!(source.requests()[0], "list rv=- limit=500");
    assert_eq!(informer.store().len(), 3200);
    informer.shutdown().await;
}

/// A script in one namespace.
#[derive(Clone)]
struct InNamespace(Script<Pod>);

impl ListerWatcher<Pod> for InNamespace {
    fn list(&self, request: ListRequest, known: Known<Pod>) -> ListStream<Pod> {
        self.0.list(request, known)
    }

    fn watch(&self, request: WatchRequest, known: Known<Pod>) -> WatchStream<Pod> {
        self.0.watch(request, known)
    }

    fn namespace(&self) -> Option<String> {
        Some("shop".to_owned())
    }
}

fn pod_in(namespace: &str, name: &str, version: &str) -> Pod {
    let mut pod = pod_at(name, version);
    pod.metadata.namespace = Some(namespace.to_owned());
    pod
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_namespaces_are_ignored_and_counted() {
    let script = Script::new();
    script.on_list(ListAnswer::page(
        [pod_in("shop", "a", "1"), pod_in("kube-system", "b", "2")],
        "2",
    ));
    script.on_watch(
        WatchAnswer::new()
            .added(pod_in("kube-system", "c", "3"))
            .deleted(pod_in("other", "a", "4"))
            .added(pod_in("shop", "d", "5"))
            .added(pod_in("kube-system", "e", "6"))
            .hang(),
    );
    let log = Log::new();
    let informer = Informer::from_source(InNamespace(script))
        .config(list_first())
        .start();
    informer.add_event_handler(log.handler()).unwrap();

    wait_for("all events are applied", || {
        informer.store().resource_version().as_deref() == Some("6")
    })
    .await;

    assert_eq!(names(&informer), ["a", "d"]);
    assert_eq!(informer.stats().members[0].reflector.foreign, 4);
    settle().await;
    assert_eq!(log.len(), 2, "{:?}", log.all());
    informer.shutdown().await;
}

/// The target of a reflector used alone receives a bounded number of nameless items.
#[tokio::test(start_paused = true)]
async fn a_target_receives_a_bounded_number_of_nameless_items() {
    let source = Recorded::new();
    let items = (0..1000).fold(ListAnswer::new().objects([pod_at("a", "1")]), |list, _| {
        list.item(ListItem::Unreadable(bad(None, 2)))
    });
    source.on_list(items.end(end("1")));
    let received = Arc::new(Mutex::new(None));
    let seen = received.clone();
    let target = Counting(move |delta: &Delta<Pod>| {
        if let Delta::ReplacedAll(list) = delta {
            *seen.lock().unwrap() = Some(list.unreadable.len());
        }
    });
    let stop = tokio_util::sync::CancellationToken::new();
    let reflector = kube_informers::reflector::Reflector::new(source, target).config(list_first());
    let testing = async {
        wait_for("the list is complete", || received.lock().unwrap().is_some()).await;
        stop.cancel();
    };
    tokio::join!(reflector.run(stop.clone()), testing);

    assert!(received.lock().unwrap().is_some_and(|items| items < 20));
}

struct Counting<F>(F);

impl<F: Fn(&Delta<Pod>) + Send + Sync + 'static> kube_informers::target::Target<Pod> for Counting<F> {
    fn accept(&self, delta: Delta<Pod>) -> Result<(), kube_informers::target::TargetError> {
        (self.0)(&delta);
        Ok(())
    }
}

fn bad_event(name: &str, version: &str) -> WatchItem<Pod> {
    WatchItem::Unreadable {
        deleted: false,
        object: BadObject {
            resource_version: Some(version.to_owned()),
            ..bad(Some(name), 2)
        },
    }
}

#[tokio::test(start_paused = true)]
async fn the_changes_of_the_quarantine_since_a_position_can_be_read() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1")], "1"));
    source.on_watch(
        WatchAnswer::new()
            .item(bad_event("a", "2"))
            .item(bad_event("b", "3"))
            .after(seconds(10))
            .modified(pod_at("a", "4"))
            .item(bad_event("c", "5"))
            .hang(),
    );
    let informer = Informer::from_source(source).config(list_first()).start();
    let store = informer.store();
    let keys = |changes: &QuarantineChanges| -> Vec<String> {
        changes
            .quarantined
            .iter()
            .map(|bad| bad.key.to_string())
            .collect()
    };
    wait_for("two are quarantined", || store.quarantine_len() == 2).await;

    let first = store.quarantine_since(0);
    assert!(first.is_complete && first.released.is_empty());
    assert_eq!(keys(&first), ["a", "b"]);
    let unchanged = store.quarantine_since(first.position);
    assert_eq!(
        (unchanged.position, unchanged.is_complete),
        (first.position, false)
    );
    assert!(unchanged.quarantined.is_empty() && unchanged.released.is_empty());

    wait_for("all events are applied", || {
        store.resource_version().as_deref() == Some("5")
    })
    .await;
    let second = store.quarantine_since(first.position);
    assert!(!second.is_complete);
    assert_eq!(keys(&second), ["c"]);
    assert_eq!(second.released, [ObjectKey::cluster("a")]);
    assert!(
        store.quarantine_since(u64::MAX).is_complete,
        "a position of another store"
    );
    informer.shutdown().await;
}
