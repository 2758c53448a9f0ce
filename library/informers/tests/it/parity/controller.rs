//! controller_test.go: how lists, updates and transforms are delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::HandlerOptions;
use kube_informers::source::{Fetched, ListAnswer, ListItem, ListRequest, WatchAnswer};
use kube_informers::source::{ListerWatcher, Script};
use kube_informers::{Event, Informer, Object};

use crate::support::{
    Delivered, Recorded, Tasks, api, list_first, not_within, pod, pod_at, seconds, text_of, within,
};

fn phase(name: &str, phase: &str) -> Pod {
    let mut pod = pod(name);
    pod.metadata.labels = Some([("phase".to_owned(), phase.to_owned())].into());
    pod
}

fn phase_of(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().map_or("", |labels| &labels["phase"])
}

/// The names in a source, by key.
async fn collection(script: &Script<Pod>) -> Vec<String> {
    let items: Vec<_> = script.list(ListRequest::default(), None).collect().await;
    let pods = items.into_iter().filter_map(|item| match item {
        Ok(ListItem::Object(Fetched::New(pod))) => Some(text_of(&pod)),
        _ => None,
    });
    let mut pods: Vec<String> = pods.collect();
    pods.sort();
    pods
}

fn stored(informer: &Informer<Pod>) -> Vec<String> {
    let mut pods: Vec<String> = informer.store().list().iter().map(|pod| text_of(pod)).collect();
    pods.sort();
    pods
}

/// Upstream: TestHammerController
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hammered_source_and_cache_end_up_equal() {
    let tasks = Tasks::now();
    let script = Script::new();
    script.add(pod("first"));
    let (informer, task) = Informer::from_source(script.clone()).build();
    assert!(!informer.has_synced());
    let mut workers = tokio::task::JoinSet::new();
    workers.spawn(async move { task.run().await.unwrap() });
    within(seconds(60), informer.synced()).await.unwrap();
    let mut hammers = tokio::task::JoinSet::new();
    for hammer in 0..3_u32 {
        let script = script.clone();
        hammers.spawn(async move {
            for n in 0..100_u32 {
                let random = (n * 3 + hammer).wrapping_mul(2_654_435_761) >> 16;
                let name = format!("pod-{}", random % 10);
                match random / 10 % 3 {
                    0 => script.add(pod(&name)),
                    1 => script.modify(pod(&name)),
                    _ => script.delete(pod(&name)),
                };
                tokio::task::yield_now().await;
            }
        });
    }
    hammers.join_all().await;
    let version = script.add(pod("last"));

    informer
        .wait_for_within(&version.to_string(), seconds(60))
        .await
        .unwrap();

    assert!(informer.has_synced());
    assert_eq!(stored(&informer), collection(&script).await);
    informer.shutdown().await;
    workers.join_all().await;
    tasks.gone().await;
}

/// Upstream: TestUpdate
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_go_forward_only_and_every_deletion_arrives() {
    let script = Script::new();
    script.add(phase("other", "FROM"));
    let informer = Informer::from_source(script.clone()).start();
    let log = Delivered::new();
    let handler = log.handler_of(|event| match event {
        Event::Updated { old, new, .. } => format!("{} -> {}", phase_of(old), phase_of(new)),
        Event::Deleted { object, .. } => format!("deleted {}", object.object_name()),
        Event::Added { .. } => "added".to_owned(),
    });
    informer
        .add_event_handler(handler)
        .unwrap()
        .synced()
        .await
        .unwrap();
    let mut tests = tokio::task::JoinSet::new();
    for n in 0..3 {
        let script = script.clone();
        tests.spawn(async move {
            let name = format!("pod-{n}");
            script.add(phase(&name, "FROM"));
            tokio::task::yield_now().await;
            script.modify(phase(&name, "TO"));
            tokio::task::yield_now().await;
            script.delete(phase(&name, "TO"));
        });
    }
    tests.join_all().await;

    let mut lines = within(seconds(60), log.take(10)).await;

    lines.sort();
    assert_eq!(lines[..3], ["FROM -> TO"; 3]);
    assert_eq!(lines[7..], ["deleted pod-0", "deleted pod-1", "deleted pod-2"]);
    informer.shutdown().await;
}

/// The transform of the informer: upper-case labels.
fn shout(pod: &mut Pod) {
    let labels = pod.metadata.labels.get_or_insert_default();
    let phase = labels.get("phase").cloned().unwrap_or_default();
    assert_eq!(phase, phase.to_lowercase(), "an object is transformed once");
    labels.insert("phase".to_owned(), phase.to_uppercase());
}

/// Upstream: TestTransformingInformer
#[tokio::test(start_paused = true)]
async fn every_event_and_the_store_show_transformed_objects() {
    let script = Script::new();
    script.add(phase("pod1", "one"));
    script.modify(phase("pod1", "two"));
    let informer = Informer::from_source(script.clone()).transform(shout).start();
    let log = Delivered::new();
    let store = informer.store();
    let handler = log.handler_of(move |event| {
        let stored = store.get(&event.key());
        let stored = stored.as_deref().map_or("nothing", phase_of);
        match event {
            Event::Added { object, initial } => {
                format!("added {} {initial}, {stored} in store", phase_of(object))
            }
            Event::Updated { old, new, .. } => {
                format!("{} -> {}, {stored} in store", phase_of(old), phase_of(new))
            }
            Event::Deleted { object, .. } => format!("deleted {}, {stored} in store", phase_of(object)),
        }
    });
    informer.add_event_handler(handler).unwrap();

    assert_eq!(log.take(1).await, ["added TWO true, TWO in store"]);
    script.add(phase("pod2", "one"));
    assert_eq!(log.take(1).await, ["added ONE false, ONE in store"]);
    script.add(phase("pod3", "three"));
    assert_eq!(log.take(1).await, ["added THREE false, THREE in store"]);
    script.modify(phase("pod2", "two"));
    assert_eq!(log.take(1).await, ["ONE -> TWO, TWO in store"]);
    script.delete(phase("pod1", "two"));
    assert_eq!(log.take(1).await, ["deleted TWO, nothing in store"]);
    assert_eq!(informer.store().len(), 2);
    informer.shutdown().await;
}

/// Upstream: TestTransformingInformerRace
#[tokio::test(start_paused = true)]
async fn resyncs_and_relists_never_transform_an_object_again() {
    let script = Script::new();
    for n in 0..5 {
        script.add(phase(&format!("pod-{n}"), "one"));
    }
    let informer = Informer::from_source(script.clone())
        .config(list_first())
        .transform(shout)
        .start();
    let resyncs = Arc::new(AtomicUsize::new(0));
    let count = resyncs.clone();
    let handler = move |event: Event<Pod>| {
        assert_eq!(phase_of(event.object()), "ONE");
        count.fetch_add(usize::from(event.is_resync()), Ordering::SeqCst);
    };
    let options = HandlerOptions::default().resync(seconds(1));
    let registration = informer.add_event_handler_with(options, handler).unwrap();
    informer.synced().await.unwrap();

    for n in 0..60 {
        if n % 10 == 0 {
            script.reset_watch();
        }
        not_within(seconds(1), std::future::pending::<()>()).await;
        assert!(informer.store().list().iter().all(|pod| phase_of(pod) == "ONE"));
    }

    assert_eq!(registration.panics(), 0);
    assert!(resyncs.load(Ordering::SeqCst) >= 250);
    assert!(informer.quarantine().is_empty());
    informer.shutdown().await;
}

/// The pods of a list, those of the next list, and the events a handler receives.
type Replacing = (
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

/// Upstream: TestReplaceEvents
#[tokio::test(start_paused = true)]
async fn list_is_delivered_as_deletes_then_changes_after_the_store_is_updated() {
    let list = |pods: &[(&str, &str)], version| {
        ListAnswer::page(pods.iter().map(|(name, version)| pod_at(name, version)), version)
    };
    let cases: [Replacing; 3] = [
        (&[], &[("pod-1", "1")], &["added pod-1, pod-1@1 in store"]),
        (
            &[("pod-1", "1"), ("pod-2", "2")],
            &[],
            &[
                "deleted pod-1 (missed), nothing in store",
                "deleted pod-2 (missed), nothing in store",
            ],
        ),
        (
            &[("pod-1", "1"), ("pod-2", "2"), ("pod-3", "3")],
            &[("pod-1", "4"), ("pod-2", "5"), ("pod-4", "6")],
            &[
                "deleted pod-3 (missed), nothing in store",
                "updated pod-1 1 -> 4, pod-1@4 in store",
                "updated pod-2 2 -> 5, pod-2@5 in store",
                "added pod-4, pod-4@6 in store",
            ],
        ),
    ];
    for (before, after, expected) in cases {
        let source = Recorded::new();
        source.on_list(list(before, "3"));
        source.on_watch(WatchAnswer::new().after(seconds(1)).failure(api(410, "Expired")));
        source.on_list(list(after, "6"));
        let informer = Informer::from_source(source).config(list_first()).start();
        informer.synced().await.unwrap();
        let log = Delivered::new();
        let store = informer.store();
        let handler = log.handler_of(move |event| {
            let stored = store
                .get(&event.key())
                .map_or("nothing".to_owned(), |pod| text_of(&pod));
            format!("{event}, {stored} in store")
        });
        let registration = informer.add_event_handler(handler).unwrap();
        registration.synced().await.unwrap();
        log.take(before.len()).await;

        let events = log.take(expected.len()).await;

        assert_eq!(events, expected);
        let mut left: Vec<String> = after
            .iter()
            .map(|(name, version)| format!("{name}@{version}"))
            .collect();
        left.sort();
        assert_eq!(stored(&informer), left);
        informer.shutdown().await;
    }
}

/// Upstream: TestResetWatch
#[tokio::test(start_paused = true)]
async fn events_of_a_relist_are_not_initial() {
    let script = Script::new();
    script.add(pod("pod-1"));
    let informer = Informer::from_source(script.clone()).config(list_first()).start();
    let log = Delivered::new();
    informer.add_event_handler(log.handler()).unwrap();
    assert_eq!(log.take(1).await, ["added pod-1 (initial)"]);

    script.modify_drop_watch(pod("pod-1"));
    script.add_drop_watch(pod("pod-2"));
    script.reset_watch();

    assert_eq!(log.take(2).await, ["updated pod-1 1 -> 2", "added pod-2"]);
    not_within(seconds(3600), log.take(1)).await;
    informer.shutdown().await;
}

/// Upstream: TestStoreResourceVersion
#[tokio::test(start_paused = true)]
async fn the_store_reports_the_version_of_the_last_change() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("pod", "1")], "1"));
    source.on_watch(
        WatchAnswer::new()
            .modified(pod_at("pod", "2"))
            .after(seconds(1))
            .deleted(pod_at("pod", "3"))
            .after(seconds(1))
            .bookmark("7")
            .hang(),
    );
    let informer = Informer::from_source(source).config(list_first()).start();
    let log = Delivered::new();
    let store = informer.store();
    let handler = log.handler_of(move |event| {
        let version = store.resource_version();
        format!("{event}, store at {}", version.as_deref().unwrap_or("-"))
    });
    informer.add_event_handler(handler).unwrap();

    assert_eq!(
        log.take(3).await[1..],
        ["updated pod 1 -> 2, store at 2", "deleted pod, store at 3"]
    );
    informer.wait_for_within("7", seconds(60)).await.unwrap();
    assert_eq!(informer.store().resource_version().as_deref(), Some("7"));
    informer.shutdown().await;
}

/// Differs from client-go: a transform keeps the type. It may remove the version, though.
///
/// Upstream: TestStoreResourceVersionWithNonMetaTransform
#[tokio::test(start_paused = true)]
async fn objects_without_a_version_leave_the_version_of_the_store_alone() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("pod", "1")], "1"));
    source.on_watch(
        WatchAnswer::new()
            .after(seconds(1))
            .modified(pod_at("pod", "2"))
            .after(seconds(1))
            .failure(api(410, "Expired")),
    );
    source.on_list(ListAnswer::page([pod_at("pod", "2")], "3"));
    let informer = Informer::from_source(source.clone())
        .config(list_first())
        .transform(|pod: &mut Pod| pod.metadata.resource_version = None)
        .start();
    let log = Delivered::new();
    informer.add_event_handler(log.handler()).unwrap();
    let version = || informer.store().resource_version();

    assert_eq!(log.take(1).await, ["added pod (initial)"]);
    assert_eq!(version().as_deref(), Some("1"));
    assert_eq!(log.take(1).await, ["updated pod ? -> ?"]);
    assert_eq!(version().as_deref(), Some("1"));
    // The position of the watch does not depend on the result of the transform.
    assert_eq!(source.seen(3).await[2], "list rv=2+");
    source.seen(4).await;
    informer.wait_for_within("3", seconds(60)).await.unwrap();
    assert_eq!(version().as_deref(), Some("3"));
    informer.shutdown().await;
}
