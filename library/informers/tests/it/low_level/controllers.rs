//! A store with one handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::LowLevelInformer;
use kube_informers::source::{ListAnswer, WatchAnswer};
use kube_informers::{Event, Object};
use tokio_util::sync::CancellationToken;

use super::contents;
use crate::support::{Log, Recorded, api, list_first, pass, pod_at, seconds, settle, wait_for};

/// Runs an informer during a test, and stops it.
async fn while_running<T>(informer: LowLevelInformer<Pod>, test: impl AsyncFnOnce() -> T) -> T {
    let stop = CancellationToken::new();
    let testing = async {
        let result = test().await;
        stop.cancel();
        result
    };
    let ((), result) = tokio::join!(informer.run(stop.clone()), testing);
    result
}

#[tokio::test(start_paused = true)]
async fn handler_receives_each_change_after_the_store_has_it() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1"), pod_at("b", "2")], "2"));
    source.on_watch(
        WatchAnswer::new()
            .after(seconds(1))
            .added(pod_at("c", "3"))
            .deleted(pod_at("a", "4"))
            .after(seconds(1))
            .failure(api(410, "Expired")),
    );
    source.on_list(ListAnswer::page([pod_at("b", "8")], "9"));
    let events = Log::new();
    let (mut log, store) = (events.handler(), Arc::new(std::sync::OnceLock::new()));
    let seen = store.clone();
    let (pods, informer) = LowLevelInformer::with_handler(source, move |event: Event<Pod>| {
        let pods: &kube_informers::Store<Pod> = seen.get().unwrap();
        let is_deleted = matches!(event, Event::Deleted { .. });
        assert_eq!(pods.contains(&event.key()), !is_deleted, "{event}");
        log(event);
    });
    store.set(pods.clone()).unwrap();
    let by_letter = pods
        .add_index("letter", |pod: &Pod| [pod.object_name().to_owned()])
        .unwrap();
    let queue = informer.queue();

    while_running(informer.config(list_first()), async || {
        queue.synced().await.unwrap();
        assert_eq!(events.take(), ["added a (initial)", "added b (initial)"]);
        wait_for("the second list", || {
            pods.resource_version().as_deref() == Some("9")
        })
        .await;
        assert_eq!(
            events.take(),
            ["added c", "deleted a", "deleted c (missed)", "updated b"]
        );
        assert_eq!(contents(&pods), ["b@8"]);
        assert_eq!(by_letter.get("b").len(), 1);
    })
    .await;
    assert!(queue.is_closed());
}

#[tokio::test(start_paused = true)]
async fn panicking_handler_loses_one_event() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page(
        [pod_at("a", "1"), pod_at("b", "2"), pod_at("c", "3")],
        "3",
    ));
    let events = Log::new();
    let mut log = events.handler();
    let (pods, informer) = LowLevelInformer::with_handler(source, move |event: Event<Pod>| {
        assert_ne!(event.object().object_name(), "b");
        log(event);
    });
    let queue = informer.queue();

    while_running(informer.config(list_first()), async || {
        queue.synced().await.unwrap();
        assert_eq!(events.take(), ["added a (initial)", "added c (initial)"]);
        assert_eq!(pods.len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn resync_delivers_every_object_again_if_the_condition_holds() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1"), pod_at("b", "2")], "2"));
    let events = Log::new();
    let (_pods, informer) = LowLevelInformer::with_handler(source, events.handler());
    let queue = informer.queue();
    let wanted = Arc::new(AtomicBool::new(false));
    let evaluations = Arc::new(AtomicUsize::new(0));
    let (condition, counter) = (wanted.clone(), evaluations.clone());
    let informer = informer
        .config(list_first())
        .resync(seconds(10))
        .should_resync(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            condition.load(Ordering::Relaxed)
        });

    while_running(informer, async || {
        queue.synced().await.unwrap();
        events.take();
        pass(seconds(25)).await;
        assert_eq!(evaluations.load(Ordering::Relaxed), 2);
        assert_eq!(events.take(), [""; 0]);

        wanted.store(true, Ordering::Relaxed);
        pass(seconds(5)).await;
        settle().await;
        assert_eq!(events.take(), ["updated a (resync)", "updated b (resync)"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn panicking_resync_condition_skips_the_resync() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1")], "1"));
    let events = Log::new();
    let (_pods, informer) = LowLevelInformer::with_handler(source, events.handler());
    let handle = informer.handle();
    let informer = informer
        .config(list_first())
        .resync(seconds(10))
        .should_resync(|| panic!("undecided"));

    while_running(informer, async || {
        handle.synced().await.unwrap();
        settle().await;
        events.take();
        pass(seconds(60)).await;
        assert_eq!(events.take(), [""; 0]);
    })
    .await;
}
