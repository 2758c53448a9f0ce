//! The forms of a reconciler, and what a controller counts.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use kube_controller::{Action, Controller, Reconcile, RunFailure, retry_on_conflict};
use kube_informers::ObjectKey;
use kube_testserver::builders::{Build, config_map};
use kube_testserver::{ApiError, Fault, RequestMatcher, TestServer, Verb};
use parking_lot::Mutex;

use crate::support::*;

struct Logger(Mutex<Vec<String>>);

impl Reconcile<ObjectKey> for Logger {
    type Error = String;

    async fn reconcile(&self, key: ObjectKey) -> Result<Action, String> {
        self.0.lock().push(key.to_string());
        Ok(Action::Done)
    }
}

fn with_key() -> Controller {
    let controller = Controller::new("test");
    controller.queue().add(ObjectKey::namespaced("shop", "cart"));
    controller
}

#[tokio::test(start_paused = true)]
async fn arc_of_a_reconciler_is_a_reconciler() {
    let logger = Arc::new(Logger(Mutex::default()));

    let controller = with_key().start(logger.clone()).unwrap();
    settle().await;

    assert_eq!(*logger.0.lock(), ["shop/cart"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn async_closure_may_use_what_it_captures() {
    let (log, prefix) = (Arc::new(Mutex::new(Vec::new())), String::from("saw "));
    let seen = log.clone();

    let controller = with_key()
        .start(async move |key: ObjectKey| {
            settle().await;
            seen.lock().push(format!("{prefix}{key}"));
            Ok::<(), String>(())
        })
        .unwrap();
    pass(secs(1)).await;

    assert_eq!(*log.lock(), ["saw shop/cart"]);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn runs_failures_and_expensive_keys_are_counted_and_reported() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let (reported, runs) = (failures.clone(), Runs::new());
    let log = runs.clone();
    let controller = with_key().max_retries(2).on_failure(move |key, failure| {
        reported.lock().push(match failure {
            RunFailure::Error {
                error,
                retries,
                given_up,
            } => format!("{key} {error} {retries} {given_up}"),
            RunFailure::Panic { retries, .. } => format!("{key} panic {retries}"),
            _ => String::new(),
        });
    });
    controller.queue().add(ObjectKey::namespaced("shop", "fine"));

    let controller = controller
        .start(async move |key: ObjectKey| {
            drop(log.enter(&key));
            pass(ms(10)).await;
            match (key.name(), log.count()) {
                ("fine", _) => Ok(Action::RequeueAfter(secs(3600))),
                (_, 3) => panic!("on purpose"),
                _ => Err("no"),
            }
        })
        .unwrap();
    pass(secs(60)).await;

    assert_eq!(
        *failures.lock(),
        ["shop/cart no 0 false", "shop/cart panic 1", "shop/cart no 2 true"]
    );
    let counts = controller.run_counts();
    assert_eq!((counts.runs, counts.errors, counts.panics), (4, 2, 1));
    assert_eq!((counts.requeued, counts.exhausted, counts.stale), (1, 1, 0));
    let top = controller.most_expensive_keys(1);
    assert_eq!((top[0].key.name(), top[0].runs, top[0].failures), ("cart", 3, 3));
    assert!(top[0].busy >= ms(30));
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn delay_that_the_server_asks_for_is_respected() {
    let server = TestServer::new();
    server.fault(
        RequestMatcher::create("configmaps"),
        Fault::error(ApiError::too_many_requests(40)),
    );
    let (api, runs) = (Api::<ConfigMap>::namespaced(server.client(), "shop"), Runs::new());
    let log = runs.clone();

    let controller = with_key()
        .start(async move |key: ObjectKey| {
            drop(log.enter(&key));
            api.create(&PostParams::default(), &config_map("shop", "made"))
                .await
                .map(drop)
        })
        .unwrap();
    pass(secs(60)).await;

    assert_eq!(runs.gaps(), [secs(40)]);
    assert_eq!(server.count("configmaps"), 1);
    controller.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn conflict_is_retried_with_a_fresh_read_and_other_errors_are_not() {
    let server = TestServer::new();
    server.create(config_map("shop", "prices"));
    let api = Api::<ConfigMap>::namespaced(server.client(), "shop");
    let mut attempts = 0;

    retry_on_conflict(|| {
        attempts += 1;
        let (api, server, interferes) = (api.clone(), server.clone(), attempts < 3);
        async move {
            let map = api.get("prices").await?;
            if interferes {
                server.modify::<ConfigMap>("shop", "prices", |map| {
                    *map = map.clone().label("other", &fastrand::u64(..).to_string());
                });
            }
            api.replace("prices", &PostParams::default(), &map.label("mine", "yes"))
                .await
        }
    })
    .await
    .unwrap();
    assert_eq!(attempts, 3);

    let exists = retry_on_conflict(|| {
        let api = api.clone();
        async move {
            api.create(&PostParams::default(), &config_map("shop", "prices"))
                .await
        }
    });
    assert!(exists.await.is_err());
    assert_eq!(
        server.count_requests(Verb::Create, "configmaps"),
        1,
        "it exists, which no retry changes"
    );
}
