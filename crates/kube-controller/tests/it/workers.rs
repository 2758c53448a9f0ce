//! How keys are worked off: so many at a time, one never twice.

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{Action, Controller, Watch};
use kube_informers::ObjectKey;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_limit_is_reached_and_never_exceeded() {
    let server = TestServer::new();
    for number in 0..40 {
        server.create(pod("shop", &format!("cart-{number}")));
    }
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .workers(4)
        .start(runs.taking(secs(1)))
        .unwrap();

    runs.until_count(40).await;

    assert_eq!(runs.most(), 4);
    controller.shutdown().await.unwrap();
    assert_eq!((runs.finished(), runs.inside()), (40, 0));
}

#[tokio::test(start_paused = true)]
async fn one_key_never_runs_twice_at_a_time_in_a_storm() {
    let server = TestServer::new();
    for number in 0..3 {
        server.create(pod("shop", &format!("cart-{number}")));
    }
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .workers(16)
        .start(runs.taking(ms(70)))
        .unwrap();
    runs.until_count(1).await;

    for change in 0..500 {
        let name = format!("cart-{}", change % 3);
        server.modify::<Pod>("shop", &name, |pod| {
            *pod = pod.clone().label("change", &change.to_string());
        });
        pass(ms(10)).await;
    }
    let last = controller.stats();
    assert!(last.running > 0, "the storm lasts to the end");
    soon("all is worked off", async {
        while controller.stats().depth > 0 {
            settle().await;
        }
    })
    .await;
    controller.shutdown().await.unwrap();

    assert!(!runs.twice());
    assert_eq!(runs.most(), 3, "different keys do run at a time");
    assert!(runs.count() > 100, "{} runs", runs.count());
    assert_eq!(runs.finished(), runs.count());
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_run_brings_exactly_one_more() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .workers(2)
        .start(runs.taking(secs(10)))
        .unwrap();
    runs.until_count(1).await;

    for change in 0..5 {
        server.modify::<Pod>("shop", "cart", |pod| {
            *pod = pod.clone().label("change", &change.to_string());
        });
        pass(secs(1)).await;
    }
    pass(secs(100)).await;

    assert_eq!(runs.take(), ["shop/cart", "shop/cart"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_may_ask_for_another_one_later() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let (pods, runs) = (pods(&server), Runs::new());
    let log = runs.clone();
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(move |key: ObjectKey| {
            drop(log.enter(&key));
            let action = match log.count() {
                3 => Action::Done,
                _ => Action::RequeueAfter(secs(30)),
            };
            async move { Ok::<_, String>(action) }
        })
        .unwrap();

    pass(secs(600)).await;

    assert_eq!(runs.gaps(), [secs(30), secs(30)]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_workers_are_one_worker() {
    let runs = Runs::new();
    let controller = Controller::new("test").workers(0);
    controller.queue().add(ObjectKey::cluster("a"));
    let controller = controller.start(runs.reconciler()).unwrap();
    settle().await;

    assert_eq!(runs.take(), ["a"]);
    controller.shutdown().await.unwrap();
}
