//! The accessors, such as `factory.core().v1().pods()`.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;
use kube_informers::{Informer, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{deployment, node, pod};

use super::factory;
use crate::support::{Log, names, secs, wait_for};

#[tokio::test(start_paused = true)]
async fn accessor_returns_the_informer_of_its_type() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(deployment("shop", "cart"));
    server.create(node("worker-1"));
    let factory = factory(&server);
    let log = Log::new();

    let pods: Informer<Pod> = factory.core().v1().pods();
    let deployments: Informer<Deployment> = factory.apps().v1().deployments();
    let same = factory.informer::<Pod>();
    let elsewhere = factory.scoped(Scope::namespace("blog")).core().v1().pods();
    factory
        .core()
        .v1()
        .nodes()
        .add_event_handler(log.handler())
        .unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(
        (names(&pods), names(&same)),
        (vec!["cart".to_owned()], vec!["cart".to_owned()])
    );
    assert_eq!(names(&deployments), ["cart"]);
    assert_eq!(names(&elsewhere), [""; 0]);
    wait_for("the handler is called", || log.len() == 1).await;
    assert_eq!(factory.informers(), 4);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_without_types_is_dynamic() {
    let server = TestServer::new();
    let factory = factory(&server);

    let ingresses: Informer<DynamicObject> = factory.extensions().v1beta1().ingresses();
    let old: Informer<DynamicObject> = factory.policy().v1beta1().pod_disruption_budgets();
    factory.start();
    let error = factory
        .wait_for_sync_within(secs(20))
        .await
        .unwrap_err()
        .to_string();

    assert_eq!(ingresses.name(), "ingresses.extensions in all namespaces");
    assert_eq!(old.name(), "poddisruptionbudgets.policy in all namespaces");
    assert!(
        error.contains("the server does not serve this resource: is its definition installed?"),
        "{error}"
    );
    factory.shutdown().await;
}
