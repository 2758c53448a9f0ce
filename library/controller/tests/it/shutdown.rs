//! Shutdown: runs in flight finish, queued keys do not start, and nothing is left behind.

use std::sync::Arc;

use kube_controller::{Controller, RunError, Watch};
use kube_informers::ObjectKey;
use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::support::*;

fn with_pods(count: usize) -> TestServer {
    let server = TestServer::new();
    for number in 0..count {
        server.create(pod("shop", &format!("cart-{number}")));
    }
    server
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_runs_in_flight_and_starts_none() {
    let server = with_pods(10);
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .workers(2)
        .start(runs.taking(secs(60)))
        .unwrap();
    runs.wait_for_count(2).await;
    pass(secs(10)).await;

    let began = Instant::now();
    let queue = controller.queue().clone();
    controller.shutdown().await.unwrap();

    assert_eq!((runs.count(), runs.finished(), runs.inside()), (2, 2, 0));
    assert!(began.elapsed() > secs(40) && began.elapsed() < secs(60));
    assert_eq!(queue.stats().discarded, 8);
    assert_eq!(pods.stats().handlers.len(), 0, "its handler is removed");

    // The informer does not belong to the controller and keeps running.
    server.create(pod("shop", "late"));
    settle().await;
    assert_eq!(pods.store().len(), 11);
    assert_eq!(runs.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn failure_during_shutdown_is_not_retried() {
    let runs = Runs::new();
    let log = runs.clone();
    let controller = Controller::new("test");
    controller.queue().add(ObjectKey::cluster("a"));
    let controller = controller
        .start(move |key: ObjectKey| {
            let log = log.clone();
            async move {
                let _inside = log.enter(&key);
                pass(secs(5)).await;
                Err::<(), _>("failed")
            }
        })
        .unwrap();
    runs.wait_for_count(1).await;

    soon("it ends", controller.shutdown()).await.unwrap();
    pass(secs(600)).await;

    assert_eq!(runs.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_within_cancels_longer_runs() {
    let server = with_pods(3);
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .workers(3)
        .start(runs.taking(secs(3600)))
        .unwrap();
    runs.wait_for_count(3).await;

    let began = Instant::now();
    let error = controller.shutdown_within(secs(20)).await.unwrap_err();

    assert_eq!(began.elapsed(), secs(20));
    assert_eq!((runs.finished(), runs.inside()), (0, 0), "they were cancelled");
    let RunError::Aborted { running, grace, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*running, *grace), (3, secs(20)));
    assert!(
        error
            .to_string()
            .starts_with("controller test ended and cancelled 3 reconciles")
    );
}

/// On threads and the real clock: code that does not await cannot be cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_run_does_not_delay_shutdown_within() {
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(parking_lot::Mutex::new(released));
    let controller = Controller::new("test");
    controller.queue().add(ObjectKey::cluster("a"));
    let controller = controller
        .start(move |_: ObjectKey| {
            begun.send(()).unwrap();
            released.lock().recv().ok();
            async { Ok::<(), String>(()) }
        })
        .unwrap();
    soon("it runs", has_begun.recv()).await.unwrap();

    let error = soon("it ends", controller.shutdown_within(ms(10)))
        .await
        .unwrap_err();

    assert!(matches!(error, RunError::Aborted { running: 1, .. }), "{error}");
    release.send(()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn runs_that_end_within_the_timeout_are_no_error() {
    let server = with_pods(1);
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .grace(secs(60))
        .start(runs.taking(secs(30)))
        .unwrap();
    runs.wait_for_count(1).await;

    controller.shutdown().await.unwrap();

    assert_eq!(runs.finished(), 1);
}

#[tokio::test(start_paused = true)]
async fn signal_shuts_the_controller_down() {
    let server = with_pods(1);
    let (pods, runs) = (pods(&server), Runs::new());
    let (signal, signalled) = oneshot::channel::<()>();
    let running = Controller::new("test")
        .watches(Watch::object(&pods))
        .run_until(async { signalled.await.unwrap_or(()) }, runs.taking(secs(30)));

    let signalling = async {
        runs.wait_for_count(1).await;
        signal.send(()).unwrap();
    };
    let (outcome, ()) = soon("it ends", async { tokio::join!(running, signalling) }).await;

    outcome.unwrap();
    assert_eq!((runs.finished(), runs.inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn configured_grace_applies_to_a_signal() {
    let server = with_pods(1);
    let (pods, runs) = (pods(&server), Runs::new());
    let outcome = Controller::new("test")
        .watches(Watch::object(&pods))
        .grace(secs(5))
        .run_until(pass(secs(60)), runs.taking(secs(3600)))
        .await;

    assert!(
        matches!(outcome, Err(RunError::Aborted { running: 1, .. })),
        "{outcome:?}"
    );
    assert_eq!(runs.inside(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_removes_handlers_and_tasks() {
    let server = with_pods(4);
    let (pods, runs) = (pods(&server), Runs::new());
    soon("synced", pods.synced()).await.unwrap();
    let tasks = Handle::current().metrics().num_alive_tasks();

    let controller = Controller::new("test").watches(Watch::object(&pods)).workers(2);
    let queue = controller.queue().clone();
    let running = controller.run_until(std::future::pending(), runs.taking(secs(3600)));
    assert!(tokio::time::timeout(secs(10), running).await.is_err());
    assert_eq!(runs.count(), 2);
    settle().await;

    assert_eq!(runs.inside(), 0);
    assert_eq!(pods.stats().handlers.len(), 0);
    assert!(queue.is_shutting_down());
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_ends_the_controller_after_runs_in_flight() {
    let server = with_pods(4);
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.taking(secs(30)))
        .unwrap();
    runs.wait_for_count(1).await;
    let tasks = Handle::current().metrics().num_alive_tasks();

    drop(controller);
    pass(secs(60)).await;

    assert_eq!((runs.count(), runs.finished()), (1, 1));
    assert_eq!(pods.stats().handlers.len(), 0);
    assert!(Handle::current().metrics().num_alive_tasks() < tasks);
}
