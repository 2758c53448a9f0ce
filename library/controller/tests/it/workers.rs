//! Concurrency: a limited number of runs, never two of one key.

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{Action, Controller, Watch};
use kube_informers::ObjectKey;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn concurrency_limit_is_reached_and_never_exceeded() {
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

    runs.wait_for_count(40).await;

    assert_eq!(runs.most(), 4);
    controller.shutdown().await.unwrap();
    assert_eq!((runs.finished(), runs.inside()), (40, 0));
}

#[tokio::test(start_paused = true)]
async fn one_key_never_has_two_concurrent_runs() {
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
    runs.wait_for_count(1).await;

    for change in 0..500 {
        let name = format!("cart-{}", change % 3);
        server.modify::<Pod>("shop", &name, |pod| {
            *pod = pod.clone().label("change", &change.to_string());
        });
        pass(ms(10)).await;
    }
    let last = controller.stats();
    assert!(last.running > 0, "keys are added until the end");
    soon("the queue is empty", async {
        while controller.stats().depth > 0 {
            settle().await;
        }
    })
    .await;
    controller.shutdown().await.unwrap();

    assert!(!runs.twice());
    assert_eq!(runs.most(), 3, "different keys run concurrently");
    assert!(runs.count() > 100, "{} runs", runs.count());
    assert_eq!(runs.finished(), runs.count());
}

#[tokio::test(start_paused = true)]
async fn change_during_a_run_causes_exactly_one_more() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let (pods, runs) = (pods(&server), Runs::new());
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .workers(2)
        .start(runs.taking(secs(10)))
        .unwrap();
    runs.wait_for_count(1).await;

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
async fn run_can_request_a_later_run() {
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
async fn zero_workers_mean_one_worker() {
    let runs = Runs::new();
    let controller = Controller::new("test").workers(0);
    controller.queue().add(ObjectKey::cluster("a"));
    let controller = controller.start(runs.reconciler()).unwrap();
    settle().await;

    assert_eq!(runs.take(), ["a"]);
    controller.shutdown().await.unwrap();
}
