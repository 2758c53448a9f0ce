//! An unexpected end is reported.

use std::future::pending;

use kube_controller::{Controller, RunError, Watch};
use kube_informers::ObjectKey;
use kube_testserver::TestServer;
use kube_testserver::builders::pod;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn stopped_informer_ends_the_controller_after_runs_in_flight() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let (pods, maps, runs) = (pods(&server), maps(&server), Runs::new());
    let mut controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .watches(Watch::object(&maps))
        .start(runs.taking(secs(30)))
        .unwrap();
    runs.wait_for_count(1).await;

    maps.shutdown().await;
    let error = soon("it ends", controller.wait_for_end()).await.unwrap_err();

    assert!(matches!(error, RunError::InformerStopped { .. }), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("test/configmaps"), "{cause}");
    assert_eq!(runs.finished(), 1);
    assert_eq!(
        pods.stats().handlers.len(),
        0,
        "its handler at the other informer is removed"
    );
    // Further calls return the same result.
    assert!(controller.wait_for_end().await.is_err());
    assert!(controller.shutdown().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn informer_stopped_before_sync_ends_the_controller() {
    let server = TestServer::new();
    server.fault(
        kube_testserver::RequestMatcher::resource("pods").forever(),
        kube_testserver::Fault::status(503),
    );
    let (pods, runs) = (pods(&server), Runs::new());
    let running = Controller::new("test")
        .watches(Watch::object(&pods))
        .run_until(pending(), runs.reconciler());

    let stopping = async {
        pass(secs(10)).await;
        pods.shutdown().await;
    };
    let (outcome, ()) = soon("it ends", async { tokio::join!(running, stopping) }).await;

    assert!(
        matches!(outcome, Err(RunError::InformerStopped { .. })),
        "{outcome:?}"
    );
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn controller_that_cannot_start_names_the_innermost_cause_and_keeps_the_chain() {
    let server = TestServer::new();
    server.refuse_connections(true);
    let (pods, runs) = (pods(&server), Runs::new());

    let outcome = Controller::new("test")
        .watches(Watch::object(&pods))
        .sync_within(secs(10))
        .run_until(pending(), runs.reconciler())
        .await;

    let error = outcome.unwrap_err();
    assert!(matches!(error, RunError::NotSynced { .. }), "{error}");
    let text = error.to_string().to_lowercase();
    assert!(
        text.contains("pods") && text.contains("connection refused"),
        "{text}"
    );
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let innermost = innermost.to_string();
    assert!(
        innermost.starts_with("connection refused"),
        "it is the error of the transport: {innermost}"
    );
}

#[tokio::test(start_paused = true)]
async fn queue_shut_down_elsewhere_ends_the_controller_when_empty() {
    let runs = Runs::new();
    let controller = Controller::new("test");
    for name in ["a", "b", "c"] {
        controller.queue().add(ObjectKey::cluster(name));
    }
    let mut controller = controller.start(runs.taking(secs(10))).unwrap();
    runs.wait_for_count(1).await;

    controller.queue().shutdown();
    soon("it ends", controller.wait_for_end()).await.unwrap();

    assert_eq!(runs.take(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_clone_of_a_key_is_reported_as_an_error() {
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct Bad;
    impl Clone for Bad {
        fn clone(&self) -> Self {
            panic!("on purpose")
        }
    }
    let controller = Controller::new("test");
    controller.queue().add(Bad);
    let mut controller = controller.start(|_: Bad| async { Ok::<(), String>(()) }).unwrap();

    let error = soon("it ends", controller.wait_for_end()).await.unwrap_err();

    assert!(matches!(error, RunError::Died { .. }), "{error}");
}
