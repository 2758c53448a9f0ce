//! The lifetime of a factory's informers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_informers::handler::HandlerOptions;
use kube_informers::handler::OnPanic;
use kube_informers::source::ListerWatcher;
use kube_informers::source::{Known, ListRequest, ListStream, WatchRequest, WatchStream};
use kube_informers::{Event, Informer};
use kube_testserver::TestServer;
use kube_testserver::builders::{config_map, pod};

use super::factory;
use crate::support::{Log, Tasks, names, pass, secs, settle, wait_for};

fn panics(_: Event<Pod>) {
    panic!("on purpose");
}

#[tokio::test(start_paused = true)]
async fn handler_added_before_the_start_works_without_a_handle() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = factory(&server);
    let log = Log::new();

    drop(
        factory
            .informer::<Pod>()
            .add_event_handler(log.handler())
            .unwrap(),
    );
    settle().await;
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    server.create(pod("shop", "db"));

    wait_for("it is delivered", || log.len() == 2).await;
    assert_eq!(log.all(), ["added shop/cart (initial)", "added shop/db"]);
    pass(secs(600)).await;
    assert_eq!(server.open_watches(), 1, "a handler keeps it alive");
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn unused_informer_stops_at_the_start() {
    let server = TestServer::new();
    let factory = factory(&server);

    drop(factory.informer::<Pod>());
    assert_eq!(factory.informers(), 1, "held until the start");
    factory.start();
    settle().await;

    assert_eq!(factory.informers(), 0);
    assert_eq!(server.open_watches(), 0);
    factory.wait_for_sync_within(secs(1)).await.unwrap();
}

/// The handles of an informer that keep it alive.
#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_of_any_type_stops_it() {
    type Handle = Box<dyn std::any::Any>;
    type Take = fn(Informer<Pod>) -> Handle;
    let takes: [(&str, Take); 6] = [
        ("informer", |informer| Box::new(informer)),
        ("lister", |informer| Box::new(informer.lister())),
        ("store", |informer| Box::new(informer.store())),
        ("index", |informer| Box::new(informer.store().index("namespace"))),
        ("subscription", |informer| Box::new(informer.subscribe())),
        ("registration", |informer| {
            Box::new(informer.add_event_handler(|_: Event<Pod>| ()).unwrap())
        }),
    ];
    for (what, take) in takes {
        let server = TestServer::new();
        let factory = factory(&server);
        let handle = take(factory.informer::<Pod>());
        factory.start();
        factory.wait_for_sync_within(secs(30)).await.unwrap();
        pass(secs(60)).await;
        assert_eq!(server.open_watches(), 1, "{what} keeps it alive");

        drop(handle);
        if what == "registration" {
            // The handler is still registered.
            pass(secs(60)).await;
            assert_eq!(server.open_watches(), 1, "its handler keeps it alive");
            factory.shutdown().await;
        }
        settle().await;
        assert_eq!(server.open_watches(), 0, "{what} was the last");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_or_ended_keeps_nothing_alive() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = factory(&server);

    let removed = factory
        .informer::<Pod>()
        .add_event_handler(|_: Event<Pod>| ())
        .unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    removed.remove().await;
    drop(removed);
    settle().await;
    assert_eq!(server.open_watches(), 0, "removed");

    let ended = HandlerOptions::default().on_panic(OnPanic::End);
    let registration = factory
        .informer::<Pod>()
        .add_event_handler_with(ended, panics)
        .unwrap();
    factory.start();
    wait_for("it has ended", || registration.ended().is_some()).await;
    drop(registration);
    settle().await;
    assert_eq!(server.open_watches(), 0, "its panic ended it");
}

#[tokio::test(start_paused = true)]
async fn request_after_the_last_handle_was_dropped_builds_a_new_informer() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = factory(&server);
    let first = factory.informer::<Pod>();
    factory.start();
    first.synced_within(secs(30)).await.unwrap();
    drop(first);
    settle().await;
    server.create(pod("shop", "db"));

    let second = factory.informer::<Pod>();
    assert!(!second.has_started() && !second.has_synced());
    factory.start();
    second.synced_within(secs(30)).await.unwrap();

    assert_eq!(names(&second), ["cart", "db"]);
    assert_eq!(factory.informers(), 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn start_is_idempotent_and_picks_up_later_requests() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(config_map("shop", "settings"));
    let factory = factory(&server);

    let pods = factory.informer::<Pod>();
    factory.start();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    let maps = factory.informer::<ConfigMap>();
    pass(secs(60)).await;
    assert!(!maps.has_started());
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!((names(&pods).len(), names(&maps).len()), (1, 1));
    assert_eq!(server.open_watches(), 2);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_leaves_nothing_behind_and_may_be_called_again() {
    let server = TestServer::new();
    let factory = factory(&server);
    settle().await;
    let tasks = Tasks::now();
    let pods = factory.informer::<Pod>();
    let maps = factory.informer::<ConfigMap>();
    pods.add_event_handler(|_: Event<Pod>| ()).unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    let never_started = factory.informer::<k8s_openapi::api::core::v1::Secret>();

    let clone = factory.clone();
    tokio::join!(factory.shutdown(), clone.shutdown());
    factory.shutdown().await;

    assert!(pods.is_stopped() && maps.is_stopped() && never_started.is_stopped());
    server.assert_nothing_open();
    settle().await;
    tasks.assert_gone();
}

#[tokio::test(start_paused = true)]
async fn everything_reports_the_shutdown() {
    let server = TestServer::new();
    let factory = factory(&server);
    let before = factory.informer::<Pod>();
    factory.start();
    factory.shutdown().await;

    let error = before
        .add_event_handler(|_: Event<Pod>| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the informer of pods in all namespaces has stopped; build a new one"),
        "{error}"
    );
    let after = factory.informer::<Pod>();
    factory.start();
    assert!(after.is_stopped());
    let error = after
        .add_event_handler(|_: Event<Pod>| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("pods in all namespaces (its factory was shut down)"),
        "{error}"
    );
    let error = after.synced().await.unwrap_err().to_string();
    assert!(
        error.contains("(its factory was shut down) has stopped"),
        "{error}"
    );
    let error = factory.wait_for_sync().await.unwrap_err();
    assert!(error.is_stopped());
    assert_eq!(error.to_string(), "the factory was shut down; create a new one");
    assert_eq!(factory.informers(), 0);
}

#[tokio::test(start_paused = true)]
async fn informer_outlives_its_factory() {
    let server = TestServer::new();
    let factory = factory(&server);
    let pods = factory.informer::<Pod>();
    let unstarted = factory.informer::<ConfigMap>();
    let running = pods.clone();
    factory.start();
    let late = factory.informer::<k8s_openapi::api::core::v1::Secret>();
    drop((factory, pods));

    running.synced_within(secs(30)).await.unwrap();
    unstarted.synced_within(secs(30)).await.unwrap();
    server.create(pod("shop", "cart"));
    wait_for("it is cached", || names(&running) == ["cart"]).await;

    assert!(late.synced().await.is_err(), "it can no longer be started");
}

#[tokio::test(start_paused = true)]
async fn run_until_ends_with_the_signal() {
    let server = TestServer::new();
    let factory = factory(&server);
    let pods = factory.informer::<Pod>();

    let outcome = factory.run_until(tokio::time::sleep(secs(60))).await;

    assert_eq!(outcome, Ok(()));
    assert!(pods.is_stopped() && pods.has_synced());
    server.assert_nothing_open();
}

/// A source with a bug that the library must detect.
struct Broken;

impl ListerWatcher<ConfigMap> for Broken {
    fn list(&self, _: ListRequest, _: Known<ConfigMap>) -> ListStream<ConfigMap> {
        panic!("on purpose")
    }

    fn watch(&self, _: WatchRequest, _: Known<ConfigMap>) -> WatchStream<ConfigMap> {
        panic!("on purpose")
    }
}

#[tokio::test(start_paused = true)]
async fn run_until_fails_when_a_task_panics_and_stops_the_others() {
    let server = TestServer::new();
    let factory = factory(&server);
    let pods = factory.informer::<Pod>();
    let broken = factory.informer_for::<ConfigMap>(|_| Informer::from_source(Broken).name("broken maps"));

    let run = factory.run_until(std::future::pending());
    let died = tokio::time::timeout(Duration::from_secs(60), run)
        .await
        .expect("it ends by itself")
        .unwrap_err();

    assert!(died.to_string().contains("broken maps"), "{died}");
    assert!(pods.is_stopped() && broken.is_stopped());
    server.assert_nothing_open();
}
