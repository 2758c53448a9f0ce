//! A store with one handler.

use kube_informers::reflector::ReflectorConfig;
use kube_informers::reflector::StreamEnd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::source::{ListAnswer, WatchAnswer};
use kube_informers::{Event, Object};
use kube_informers_classic::{Controller, DeltaFifo};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Log, Recorded, api, broken, list_first, pass, pod_at, seconds, settle, text_of, wait_for, within,
};

/// `name@version` of everything in a store, sorted.
fn contents(store: &kube_informers::Store<Pod>) -> Vec<String> {
    let mut pods: Vec<String> = store.list().iter().map(|pod| text_of(pod)).collect();
    pods.sort();
    pods
}

/// Runs a controller during a test, and stops it.
async fn while_running<T>(controller: Controller<Pod>, test: impl AsyncFnOnce() -> T) -> T {
    let stop = CancellationToken::new();
    let testing = async {
        let result = test().await;
        stop.cancel();
        result
    };
    let ((), result) = tokio::join!(controller.run(stop.clone()), testing);
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
    let (pods, controller) = Controller::with_handler(source, move |event: Event<Pod>| {
        let pods: &kube_informers::Store<Pod> = seen.get().unwrap();
        let is_deleted = matches!(event, Event::Deleted { .. });
        assert_eq!(pods.contains(&event.key()), !is_deleted, "{event}");
        log(event);
    });
    store.set(pods.clone()).unwrap();
    let by_letter = pods
        .add_index("letter", |pod: &Pod| [pod.object_name().to_owned()])
        .unwrap();
    let queue = controller.queue();

    while_running(
        controller.reflector(|reflector| reflector.config(list_first())),
        async || {
            queue.synced().await.unwrap();
            assert_eq!(events.take(), ["added a (initial)", "added b (initial)"]);
            wait_for("the second list", || {
                pods.resource_version().as_deref() == Some("9")
            })
            .await;
            assert_eq!(
                events.take(),
                ["added c", "deleted a", "updated b", "deleted c (missed)"]
            );
            assert_eq!(contents(&pods), ["b@8"]);
            assert_eq!(by_letter.get("b").len(), 1);
        },
    )
    .await;
    assert!(queue.is_closed());
}

#[tokio::test(start_paused = true)]
async fn repeated_events_of_a_watch_change_nothing() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1")], "1"));
    source.on_watch(WatchAnswer::new().modified(pod_at("a", "4")).broken(broken()));
    source.on_watch(
        WatchAnswer::new()
            .after(seconds(1))
            .modified(pod_at("a", "3"))
            .after(seconds(1))
            .modified(pod_at("a", "4"))
            .deleted(pod_at("a", "2"))
            .after(seconds(1))
            .modified(pod_at("a", "5"))
            .hang(),
    );
    let events = Log::new();
    let (pods, controller) = Controller::with_handler(source, events.handler());

    while_running(
        controller.reflector(|reflector| reflector.config(list_first())),
        async || {
            wait_for("the first event", || contents(&pods) == ["a@4"]).await;
            pass(seconds(2)).await;
            settle().await;
            assert_eq!(contents(&pods), ["a@4"]);
            wait_for("the last event", || contents(&pods) == ["a@5"]).await;
            settle().await;
            assert_eq!(events.take(), ["added a (initial)", "updated a", "updated a"]);
        },
    )
    .await;
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
    let (pods, controller) = Controller::with_handler(source, move |event: Event<Pod>| {
        assert_ne!(event.object().object_name(), "b");
        log(event);
    });
    let queue = controller.queue();

    while_running(
        controller.reflector(|reflector| reflector.config(list_first())),
        async || {
            queue.synced().await.unwrap();
            assert_eq!(events.take(), ["added a (initial)", "added c (initial)"]);
            assert_eq!(pods.len(), 3);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn resync_delivers_every_object_again_if_the_condition_holds() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("a", "1"), pod_at("b", "2")], "2"));
    let events = Log::new();
    let (_pods, controller) = Controller::with_handler(source, events.handler());
    let queue = controller.queue();
    let wanted = Arc::new(AtomicBool::new(false));
    let evaluations = Arc::new(AtomicUsize::new(0));
    let (condition, counter) = (wanted.clone(), evaluations.clone());
    let controller = controller.reflector(|reflector| {
        let reflector = reflector.config(ReflectorConfig {
            resync: Some(seconds(10)),
            ..list_first()
        });
        reflector.should_resync(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            condition.load(Ordering::Relaxed)
        })
    });

    while_running(controller, async || {
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
    let (_pods, controller) = Controller::with_handler(source, events.handler());
    let handle = controller.handle();
    let controller = controller.reflector(|reflector| {
        let reflector = reflector.config(ReflectorConfig {
            resync: Some(seconds(10)),
            ..list_first()
        });
        reflector.should_resync(|| panic!("undecided"))
    });

    while_running(controller, async || {
        handle.synced().await.unwrap();
        settle().await;
        events.take();
        pass(seconds(60)).await;
        assert_eq!(events.take(), [""; 0]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_calls_the_stream_end_hook() {
    let source = Recorded::new();
    source.on_list(ListAnswer::error(api(403, "Forbidden")));
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let log = ends.clone();
    let controller =
        Controller::new(source, Arc::new(DeltaFifo::new()), |_, _| Ok(())).reflector(|reflector| {
            reflector.config(ReflectorConfig {
                on_stream_end: Some(Arc::new(move |end: &StreamEnd<'_>| {
                    log.lock().unwrap().push(end.to_string());
                    stopping.cancel();
                })),
                ..list_first()
            })
        });

    within(seconds(60), controller.run(stop)).await;

    assert_eq!(
        *ends.lock().unwrap(),
        ["list of pods ended: the server returned 403 Forbidden; trying again in 0.8 s"]
    );
}
