//! Informers by the name of a resource.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::GroupVersionResource;
use kube_informers::error::{ResourceError, ScopeError};
use kube_informers::{Object, Scope};
use kube_testserver::builders::{config_map, deployment, namespace, node};
use kube_testserver::{Fault, RequestMatcher, TestServer};

use super::custom::{definition, widget};
use super::{builder, factory};
use crate::support::{names, secs};

#[tokio::test(start_paused = true)]
async fn a_built_in_kind_with_its_version_needs_no_request() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    server.create(node("worker-1"));
    let factory = builder(&server).namespace("shop").build();

    let by_text = factory.for_resource("deployments.v1.apps").await.unwrap();
    let by_gvr = GroupVersionResource::gvr("apps", "v1", "deployments");
    let by_gvr = factory.for_resource(&by_gvr).await.unwrap();
    let nodes = factory.for_resource("v1/nodes").await.unwrap();
    assert_eq!(server.requests().len(), 0);
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    let cart = by_text.lister().namespace("shop").try_get("cart").unwrap();
    assert_eq!(cart.types.as_ref().unwrap().kind, "Deployment");
    assert_eq!(
        (names(&by_gvr), names(&nodes)),
        (vec!["cart".to_owned()], vec!["worker-1".to_owned()])
    );
    assert_eq!(factory.informers(), 2, "both names share one informer");
    let error = by_text.lister().namespace("shop").try_get("gone").unwrap_err();
    assert_eq!(
        error.to_string(),
        "deployments.apps \"shop/gone\" not found in the cache"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_is_found_by_discovery() {
    let server = TestServer::new();
    server.create(definition(&["v1"]));
    server.create(widget("v1", "wheel"));
    let factory = factory(&server);

    let pinned = factory.for_resource("widgets.v1.example.com").await.unwrap();
    let following = factory.for_resource("widgets.example.com").await.unwrap();
    let again = factory.for_resource("widgets.example.com").await.unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    for informer in [&pinned, &following, &again] {
        assert_eq!(names(informer), ["wheel"]);
        assert_eq!(informer.name(), "widgets.example.com in all namespaces");
    }
    assert_eq!(factory.informers(), 2);
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn without_a_version_the_server_chooses() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let factory = factory(&server);

    let deployments = factory.for_resource("deployments.apps").await.unwrap();
    let pods = factory.for_resource("pods").await.unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(
        deployments
            .lister()
            .namespace("shop")
            .get("cart")
            .unwrap()
            .object_name(),
        "cart"
    );
    assert!(pods.has_synced());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_resource_is_reported_with_similar_names() {
    let server = TestServer::new();
    server.create(definition(&["v1"]));
    let factory = factory(&server);
    let error = async |name: &str| factory.for_resource(name).await.unwrap_err().to_string();

    assert_eq!(
        error("widgts.example.com").await,
        "the server does not serve widgts.example.com; did you mean widgets.v1.example.com?"
    );
    assert_eq!(
        error("Deployment.apps").await,
        "the server does not serve Deployment.apps; did you mean deployments.v1.apps?"
    );
    assert_eq!(
        error("deployments").await,
        "the server does not serve deployments; did you mean deployments.v1.apps?"
    );
    assert_eq!(
        error("widgets.v2.example.com").await,
        "the server does not serve widgets.v2.example.com; did you mean widgets.v1.example.com?"
    );
    assert_eq!(
        error("trains.rail.example").await,
        "the server does not serve trains.rail.example; it does not serve the group either: is the definition \
         installed?"
    );
    assert_eq!(
        error("trains.apps").await,
        "the server does not serve trains.apps; its group has no such resource: use the plural name in \
         lower case"
    );
    assert!(
        error("").await.starts_with("the server does not serve"),
        "no name at all"
    );
    assert_eq!(factory.informers(), 0);
}

#[tokio::test(start_paused = true)]
async fn unwatchable_resource_is_rejected_with_the_reason() {
    let server = TestServer::new();
    let factory = factory(&server);

    let error = factory.for_resource("componentstatuses").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "componentstatuses cannot be watched: it can be listed but not watched, and is deprecated since Kubernetes \
         1.19"
    );
    let error = factory
        .for_resource("tokenreviews.authentication.k8s.io")
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenreviews.authentication.k8s.io cannot be watched: the server does not support list or watch for it"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_is_a_separate_error() {
    let server = TestServer::new();
    server.fault(RequestMatcher::path("/apis").forever(), Fault::status(403));
    let factory = factory(&server);
    let error = factory.for_resource("widgets.example.com").await.unwrap_err();
    assert!(matches!(error, ResourceError::Discovery { .. }), "{error}");
    server.clear_faults();

    server.fault(RequestMatcher::any().forever(), Fault::hang());
    let error = factory.for_resource("widgets.example.com").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot discover whether the server serves widgets.example.com: no response within 30s"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_namespace_is_reported_by_check_namespaces() {
    let server = TestServer::new();
    server.create(namespace("shop"));
    server.create(config_map("shop", "settings"));
    let factory = builder(&server).namespaces(["shop", "shpo"]).build();

    let error = factory.check_namespaces().await.unwrap_err();
    assert_eq!(error, ScopeError::NotFound(vec!["shpo".to_owned()]));
    assert_eq!(
        error.to_string(),
        "no namespace \"shpo\": nothing is cached for it until it is created; correct the name or create it"
    );
    factory
        .scoped(Scope::namespace("shop"))
        .check_namespaces()
        .await
        .unwrap();
    factory.scoped(Scope::all()).check_namespaces().await.unwrap();

    // It is not an error for an informer, which sees the namespace once it is created.
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    server.create(namespace("shpo"));
    server.create(config_map("shpo", "late"));
    crate::support::wait_for("it is seen", || names(&maps) == ["late", "settings"]).await;
    factory.shutdown().await;
}
