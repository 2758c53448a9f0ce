//! Waiting for a factory: which informers are not synced, and why.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_informers::Scope;
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};

use super::{builder, factory};
use crate::support::{secs, settle, wait_for};

#[tokio::test(start_paused = true)]
async fn unsynced_informers_are_reported_with_reason_and_hint() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.fault(RequestMatcher::resource("secrets").forever(), Fault::status(403));
    let factory = factory(&server);
    let _pods = factory.informer::<Pod>();
    let _secrets = factory.informer::<Secret>();
    factory.start();

    let error = factory.wait_for_sync_within(secs(20)).await.unwrap_err();

    assert!(
        error.to_string().starts_with("1 of 2 informers are not synced"),
        "{error}"
    );
    assert_eq!(error.missing().len(), 1);
    assert_eq!(error.missing()[0].name(), "secrets in all namespaces");
    assert!(error.missing()[0].attempts() > 2, "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("1 of 2 informers are not synced: the informer of secrets"),
        "{text}"
    );
    assert!(text.contains("403"), "{text}");
    assert!(
        text.contains("grant the verbs list and watch on secrets in all namespaces to this user"),
        "{text}"
    );
    server.clear_faults();
    factory.wait_for_sync_within(secs(120)).await.unwrap();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_was_not_started_is_an_error_at_once() {
    let server = TestServer::new();
    let factory = factory(&server);
    let _pods = factory.informer::<Pod>();
    factory.start();
    let _maps = factory.scoped(Scope::namespace("shop")).informer::<ConfigMap>();

    let error = factory.wait_for_sync().await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "not started: configmaps in shop; call `start` after requesting informers"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sync_waits_through_errors_and_ends_with_a_shutdown() {
    let server = TestServer::new();
    server.refuse_connections(true);
    let factory = factory(&server);
    let pods = factory.informer::<Pod>();
    factory.start();

    let error = factory
        .wait_for_sync_within(secs(60))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("is the server running"), "{error}");
    let stopped = async {
        tokio::time::sleep(secs(600)).await;
        factory.shutdown().await;
    };
    let (waited, ()) = tokio::join!(factory.wait_for_sync(), stopped);

    assert!(waited.unwrap_err().is_stopped());
    assert!(!pods.has_synced());
}

#[tokio::test(start_paused = true)]
async fn unused_informers_are_not_waited_for() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("secrets").forever(), Fault::hang());
    let factory = factory(&server);
    let pods = factory.informer::<Pod>();
    let secrets = factory.informer::<Secret>();
    factory.start();
    let let_go = async {
        wait_for("pods are synced", || pods.has_synced()).await;
        settle().await;
        drop(secrets);
    };

    let (waited, ()) = tokio::join!(factory.wait_for_sync(), let_go);

    waited.unwrap();
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn informer_that_was_shut_down_is_reported() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("pods").forever(), Fault::hang());
    let factory = factory(&server);
    let pods = factory.informer::<Pod>();
    factory.start();
    let by_hand = async {
        settle().await;
        pods.shutdown().await;
    };

    let (waited, ()) = tokio::join!(factory.wait_for_sync(), by_hand);

    let error = waited.unwrap_err().to_string();
    assert!(error.contains("1 of 1 informers are not synced"), "{error}");
    assert!(
        factory.informer::<Pod>().add_event_handler(|_| ()).is_ok(),
        "a new informer"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_a_namespace_is_named_in_the_error() {
    let server = TestServer::new();
    let factory = builder(&server).namespace("Not A Name").build();
    let _pods = factory.informer::<Pod>();
    factory.start();

    let error = factory
        .wait_for_sync_within(secs(5))
        .await
        .unwrap_err()
        .to_string();

    assert!(
        error.contains("\"Not A Name\" cannot be the name of a namespace: use lower-case letters"),
        "{error}"
    );
    factory.shutdown().await;
}
