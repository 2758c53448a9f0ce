//! Shutdown and drain with handlers that do not return.
//!
//! Real time and worker threads: a synchronous handler that blocks occupies one.

use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::source::{ListAnswer, Script};
use kube_informers::{Event, HandlerOptions, Informer, SharedInformerFactory, blocking};
use kube_testserver::{TestServer, builders};
use tokio::time::{Instant, timeout};

use crate::support::{list_first, pod_at};

/// Much more than a shutdown needs on a busy machine.
const HANGS: Duration = Duration::from_secs(60);

/// A handler that does not return before the sender is dropped, with a channel that reports its call.
fn stuck() -> (
    mpsc::Sender<()>,
    mpsc::Receiver<()>,
    impl FnMut(Event<Pod>) + Send + 'static,
) {
    let (release, released) = mpsc::channel::<()>();
    let (called, calls) = mpsc::channel();
    let handler = move |_: Event<Pod>| {
        called.send(()).ok();
        released.recv().ok();
    };
    (release, calls, handler)
}

fn one_pod() -> Script<Pod> {
    let script = Script::new();
    script.on_list(ListAnswer::page([pod_at("a", "1")], "1"));
    script
}

/// Waits on a thread of the blocking pool, so that no worker thread of the runtime is occupied.
async fn called(calls: mpsc::Receiver<()>) {
    tokio::task::spawn_blocking(move || calls.recv().unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn shutdown_names_the_handlers_that_do_not_return() {
    let informer = Informer::from_source(one_pod()).config(list_first()).start();
    let (release, calls, handler) = stuck();
    let named = |name: &str| HandlerOptions::default().name(name);
    informer.add_event_handler_with(named("stuck"), handler).unwrap();
    informer
        .add_event_handler_with(named("fine"), |_: Event<Pod>| {})
        .unwrap();
    called(calls).await;

    let report = timeout(HANGS, informer.shutdown()).await.expect("shutdown hangs");

    assert_eq!(report.left_behind.len(), 1, "{report}");
    assert_eq!(&*report.left_behind[0], "stuck");
    assert_eq!(report.to_string(), "these handlers have not returned: stuck");
    assert!(informer.is_stopped());
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn shutdown_names_a_blocking_handler_that_does_not_return() {
    let informer = Informer::from_source(one_pod()).config(list_first()).start();
    let (release, calls, handler) = stuck();
    let options = HandlerOptions::default().name("stuck thread");
    informer
        .add_event_handler_with(options, blocking(handler))
        .unwrap();
    called(calls).await;

    let report = timeout(HANGS, informer.shutdown()).await.expect("shutdown hangs");

    assert_eq!(
        report.to_string(),
        "these handlers have not returned: stuck thread"
    );
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn drain_returns_by_its_deadline_although_a_handler_does_not_return() {
    let informer = Informer::from_source(one_pod()).config(list_first()).start();
    let (release, calls, handler) = stuck();
    let options = HandlerOptions::default().name("stuck");
    informer.add_event_handler_with(options, handler).unwrap();
    called(calls).await;

    let report = timeout(HANGS, informer.drain_within(Duration::from_millis(300)))
        .await
        .expect("drain hangs");

    assert_eq!(report.to_string(), "these handlers have not returned: stuck");
    drop(release);
}

/// The task that the user runs ends too.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_task_of_an_informer_ends_although_a_handler_does_not_return() {
    let (informer, task) = Informer::from_source(one_pod()).config(list_first()).build();
    let (release, calls, handler) = stuck();
    informer.add_event_handler(handler).unwrap();
    let stop = async {
        called(calls).await;
        informer.shutdown().await
    };

    let (ran, report) = timeout(HANGS, async { tokio::join!(task.run(), stop) })
        .await
        .expect("the task hangs");

    ran.unwrap();
    assert!(!report.is_clean());
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_shutdown_of_a_factory_names_the_handlers_of_all_informers() {
    let server = TestServer::new();
    server.create(builders::pod("shop", "a"));
    let factory = SharedInformerFactory::new(server.client());
    let (release, calls, handler) = stuck();
    let options = HandlerOptions::default().name("stuck");
    let pods = factory.informer::<Pod>();
    pods.add_event_handler_with(options, handler).unwrap();
    factory.start();
    called(calls).await;

    let report = timeout(HANGS, factory.shutdown()).await.expect("shutdown hangs");

    assert_eq!(report.to_string(), "these handlers have not returned: stuck");
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_without_calls_in_flight_is_clean_and_takes_no_time() {
    let informer = Informer::from_source(one_pod()).config(list_first()).start();
    informer.add_event_handler(|_: Event<Pod>| {}).unwrap();
    informer
        .add_event_handler(|_: Event<Pod>| std::future::pending())
        .unwrap();
    informer.synced().await.unwrap();

    let start = Instant::now();
    let report = informer.shutdown().await;

    assert!(report.is_clean(), "{report}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}
