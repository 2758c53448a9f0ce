//! Shutdown and drain with handlers that do not return.
//!
//! Real time and worker threads: a synchronous handler that blocks occupies one.

use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::{HandlerOptions, blocking};
use kube_informers::source::{ListAnswer, Script};
use kube_informers::{Event, Informer, SharedInformerFactory};
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

/// A stuck handler costs one worker thread, not the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_handlers_informers_and_tasks_go_on_while_a_handler_does_not_return() {
    let server = TestServer::new();
    server.create(builders::pod("shop", "a"));
    let informer = Informer::<Pod>::all(server.client()).start();
    let other = Informer::<Pod>::namespaced(server.client(), "shop").start();
    let (release, calls, mut handler) = stuck();
    let (to_task, mut at_task) = tokio::sync::mpsc::unbounded_channel();
    let options = HandlerOptions::default().name("stuck");
    informer
        .add_event_handler_with(options, move |event: Event<Pod>| {
            // Wakes a task, which the worker thread of the handler would run next.
            to_task.send(()).ok();
            handler(event);
        })
        .unwrap();
    let (delivered, mut deliveries) = tokio::sync::mpsc::unbounded_channel();
    for observed in [&informer, &other] {
        let delivered = delivered.clone();
        observed
            .add_event_handler(move |event: Event<Pod>| {
                delivered.send(event.key().name().to_owned()).ok();
            })
            .unwrap();
    }
    called(calls).await;

    timeout(HANGS, at_task.recv()).await.expect("a task does not run");
    server.create(builders::pod("shop", "b"));
    let mut names = Vec::new();
    while names.len() < 4 {
        let name = timeout(HANGS, deliveries.recv()).await;
        names.push(name.expect("a handler waits for the stuck one").unwrap());
    }
    names.sort();
    assert_eq!(names, ["a", "a", "b", "b"], "both informers, both handlers");
    let report = timeout(HANGS, informer.shutdown()).await.expect("shutdown hangs");
    assert_eq!(report.to_string(), "these handlers have not returned: stuck");
    assert!(other.shutdown().await.is_clean());
    drop(release);
}

/// Dropping the runtime would wait for the call.
#[test]
fn a_runtime_with_a_stuck_handler_ends_by_its_shutdown_timeout() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (release, calls, handler) = stuck();
    let report = runtime.block_on(async {
        let informer = Informer::from_source(one_pod()).config(list_first()).start();
        informer.add_event_handler(handler).unwrap();
        called(calls).await;
        timeout(HANGS, informer.shutdown()).await.expect("shutdown hangs")
    });
    assert!(!report.is_clean());

    runtime.shutdown_timeout(Duration::from_millis(100));

    drop(release);
}

/// On a current-thread runtime only `blocking` keeps a handler from stopping everything else.
#[tokio::test]
async fn a_blocking_handler_that_does_not_return_leaves_a_current_thread_runtime_alone() {
    let server = TestServer::new();
    server.create(builders::pod("shop", "a"));
    let informer = Informer::<Pod>::all(server.client()).start();
    let (release, calls, handler) = stuck();
    let options = HandlerOptions::default().name("stuck thread");
    informer
        .add_event_handler_with(options, blocking(handler))
        .unwrap();
    let (delivered, mut deliveries) = tokio::sync::mpsc::unbounded_channel();
    informer
        .add_event_handler(move |event: Event<Pod>| {
            delivered.send(event.key().name().to_owned()).ok();
        })
        .unwrap();
    called(calls).await;

    server.create(builders::pod("shop", "b"));
    for name in ["a", "b"] {
        let delivery = timeout(HANGS, deliveries.recv()).await.expect("a handler waits");
        assert_eq!(delivery.as_deref(), Some(name));
    }
    let report = timeout(HANGS, informer.shutdown()).await.expect("shutdown hangs");
    assert_eq!(
        report.to_string(),
        "these handlers have not returned: stuck thread"
    );
    drop(release);
}
