//! Before the first run: caches are complete, and all initial objects are queued.

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{Controller, RunError, Watch};
use kube_informers::ObjectKey;
use kube_testserver::builders::{config_map, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_every_cache_is_complete() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(config_map("shop", "prices"));
    let down = server.fault(
        RequestMatcher::resource("configmaps").forever(),
        Fault::status(503),
    );
    let (pods, maps, runs) = (pods(&server), maps(&server), Runs::new());

    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .watches(Watch::object(&maps))
        .start(runs.reconciler())
        .unwrap();
    soon("the pods are synced", pods.synced()).await.unwrap();
    pass(secs(60)).await;

    assert_eq!(runs.count(), 0);
    assert_eq!(controller.stats().ready, 1, "it is queued and not started");
    assert!(!maps.has_synced());

    down.clear();
    runs.wait_for_count(2).await;
    assert!(maps.has_synced());
    assert_eq!(runs.take_set(), ["shop/cart", "shop/prices"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn first_run_sees_every_initial_object() {
    let server = TestServer::new();
    for number in 0..50 {
        server.create(pod("shop", &format!("cart-{number}")));
        server.create(config_map("shop", &format!("prices-{number}")));
    }
    let (pods, maps) = (pods(&server), maps(&server));
    let (stores, seen) = ((pods.store(), maps.store()), Runs::new());
    let reconciler = {
        let seen = seen.clone();
        move |key: ObjectKey| {
            let _inside = seen.enter(&key);
            let complete = (stores.0.len(), stores.1.len()) == (50, 50);
            async move {
                if complete {
                    Ok(())
                } else {
                    Err("a cache is not complete")
                }
            }
        }
    };

    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .watches(Watch::object(&maps))
        .start(reconciler)
        .unwrap();
    seen.wait_for_count(100).await;

    assert_eq!(controller.stats().retries, 0, "no run found an incomplete cache");
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cache_sync_timeout_reports_the_cause() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("pods").forever(), Fault::status(403));
    let (pods, runs) = (pods(&server), Runs::new());

    let running = Controller::new("test")
        .watches(Watch::object(&pods))
        .sync_within(secs(20))
        .run_until(std::future::pending(), runs.reconciler());
    let error = soon("it gives up", running).await.unwrap_err();

    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, RunError::NotSynced { .. }), "{error}");
    assert!(text.contains("grant the verbs list and watch on pods"), "{text}");
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn controller_can_be_shut_down_while_waiting_for_a_cache() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("pods").forever(), Fault::hang());
    let (pods, runs) = (pods(&server), Runs::new());

    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();
    pass(secs(1)).await;

    soon("it ends", controller.shutdown()).await.unwrap();
    assert_eq!(pods.stats().handlers.len(), 0, "its handler is removed");
}

#[tokio::test(start_paused = true)]
async fn informer_can_be_started_after_the_controller() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = kube_informers::SharedInformerFactory::new(server.client());
    let (pods, runs) = (factory.informer::<Pod>(), Runs::new());

    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();
    drop(pods);
    pass(secs(1)).await;
    assert_eq!(runs.count(), 0);

    factory.start();
    runs.wait_for_count(1).await;
    controller.shutdown().await.unwrap();
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn fresh_changes_precede_initial_list_and_resyncs() {
    let server = TestServer::new();
    for number in 0..5 {
        server.create(pod("shop", &format!("old-{number}")));
    }
    let (pods, runs) = (pods(&server), Runs::new());
    soon("synced", pods.synced()).await.unwrap();

    let controller = Controller::new("test")
        .watches(Watch::object(&pods).resync(secs(600)))
        .start(runs.taking(secs(10)))
        .unwrap();
    runs.wait_for_count(1).await;
    server.create(pod("shop", "fresh"));
    runs.wait_for_count(6).await;
    assert_eq!(runs.take()[1], "shop/fresh");

    // The resync adds all of them once more, and again a change goes first.
    pass(secs(500)).await;
    assert_eq!(runs.count(), 0);
    runs.wait_for_count(1).await;
    server.create(pod("shop", "fresher"));
    runs.wait_for_count(3).await;
    let order = runs.take();
    assert_eq!(order[1], "shop/fresher", "{order:?}");
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_is_rejected_at_the_start() {
    let server = TestServer::new();
    let (pods, maps, runs) = (pods(&server), maps(&server), Runs::new());
    pods.shutdown().await;

    let refused = Controller::new("test")
        .watches(Watch::object(&maps))
        .watches(Watch::object(&pods))
        .start(runs.reconciler());

    let error = refused.unwrap_err();
    assert!(matches!(error, RunError::NotAdded { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "controller test cannot start: one of its informers has stopped"
    );
    assert_eq!(
        maps.stats().handlers.len(),
        0,
        "its handler at the other informer is removed"
    );
}

#[tokio::test(start_paused = true)]
async fn forgotten_start_of_a_factory_is_logged() {
    let (logged, _guard) = CapturedLogs::of_this_thread(tracing::Level::INFO);
    let server = TestServer::new();
    let factory = kube_informers::SharedInformerFactory::new(server.client());
    let (pods, runs) = (factory.informer::<Pod>(), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();

    pass(secs(4)).await;
    assert!(!logged.text().contains("waits for a cache"), "{}", logged.text());
    pass(secs(2)).await;

    let text = logged.text();
    let line = text
        .lines()
        .find(|line| line.contains("waits for a cache"))
        .expect("a line");
    assert!(line.contains("pods") && line.contains("not started"), "{line}");
    assert!(line.contains("`start` of its factory"), "{line}");
    pass(secs(120)).await;
    assert_eq!(
        logged.text().matches("waits for a cache").count(),
        3,
        "once a minute"
    );
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_logged_while_waiting() {
    let (logged, _guard) = CapturedLogs::of_this_thread(tracing::Level::INFO);
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("pods").forever(), Fault::status(403));
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(runs.reconciler())
        .unwrap();

    pass(secs(6)).await;

    let text = logged.text();
    let line = text
        .lines()
        .find(|line| line.contains("waits for a cache"))
        .expect("a line");
    assert!(line.contains("grant the verbs list and watch on pods"), "{line}");
    controller.shutdown().await.unwrap();
}
