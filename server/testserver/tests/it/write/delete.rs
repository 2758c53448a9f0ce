//! Deletion: responses, preconditions, finalizers, grace periods.

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, deployment, pod};
use serde_json::{Value, json};

use super::PODS;
use crate::common::{Watch, get, send};

#[tokio::test(start_paused = true)]
async fn delete_returns_the_object_or_a_status() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let web = server.create(deployment("shop", "web"));

    let pod = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null).await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    let status = send(
        &server,
        Method::DELETE,
        path,
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    )
    .await;

    assert_eq!((pod.status, pod.json()["kind"].as_str()), (200, Some("Pod")));
    assert_eq!(
        status.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
               "details": {"name": "web", "group": "apps", "kind": "deployments", "uid": web.metadata.uid}})
    );
    assert_eq!(
        send(&server, Method::DELETE, path, &Value::Null).await.error().2,
        "deployments.apps \"web\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn delete_preconditions_are_checked() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let delete = async |preconditions: Value| {
        let body = json!({"preconditions": preconditions});
        send(&server, Method::DELETE, &format!("{PODS}/cart"), &body).await
    };

    let other = delete(json!({"uid": "another"})).await.error();
    assert_eq!((other.0, other.1.as_str()), (409, "Conflict"));
    assert!(
        other.2.starts_with(
            "Operation cannot be fulfilled on Pod \"cart\": the UID in the precondition (another)"
        )
    );
    assert_eq!(delete(json!({"resourceVersion": "1"})).await.status, 409);
    assert_eq!(delete(json!({"resourceVersion": "2"})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn object_stays_until_its_last_finalizer_is_removed() {
    let server = TestServer::new();
    server.create(pod("shop", "cart").finalizer("example.com/hold"));
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=2").await;

    let marked = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null)
        .await
        .json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    let again = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null)
        .await
        .json();
    assert_eq!(again, marked, "a second deletion changes nothing");

    let mut more = marked.clone();
    more["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    assert_eq!(
        send(&server, Method::PUT, &format!("{PODS}/cart"), &more)
            .await
            .status,
        422
    );

    let mut released = marked.clone();
    released["metadata"]["finalizers"] = json!([]);
    assert_eq!(
        send(&server, Method::PUT, &format!("{PODS}/cart"), &released)
            .await
            .status,
        200
    );
    assert_eq!(server.count("pods"), 0);
    assert_eq!(
        watch.ready().await,
        ["MODIFIED shop/cart@3", "DELETED shop/cart@4"]
    );
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector() {
    let server = TestServer::new();
    server.create(pod("shop", "a").label("app", "web"));
    server.create(pod("shop", "b").label("app", "db"));
    server.create(pod("shop", "c").label("app", "web"));
    server.create(pod("other", "d").label("app", "web"));

    let deleted = send(
        &server,
        Method::DELETE,
        &format!("{PODS}?labelSelector=app%3Dweb"),
        &Value::Null,
    )
    .await;

    assert_eq!(deleted.names(), ["shop/a", "shop/c"]);
    assert_eq!(get(&server, "/api/v1/pods").await.names(), ["other/d", "shop/b"]);
    assert_eq!(
        send(&server, Method::DELETE, "/api/v1/namespaces", &Value::Null)
            .await
            .status,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn bound_pods_have_a_grace_period_if_enabled() {
    let server = TestServer::builder().graceful_pods().build();
    server.create(pod("shop", "cart"));
    server.modify::<Pod>("shop", "cart", |pod| {
        pod.spec.as_mut().expect("a spec").node_name = Some("worker-1".to_owned());
    });

    let marked = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null)
        .await
        .json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(server.count("pods"), 1);

    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(
        send(&server, Method::DELETE, &format!("{PODS}/cart"), &now)
            .await
            .status,
        200
    );
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_and_evicted() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "cart"}, "target": {"name": "worker-1"}});

    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}/cart/binding"), &binding)
            .await
            .status,
        201
    );
    let bound = get(&server, "/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1").await;
    assert_eq!(bound.names(), ["shop/cart"]);
    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}/cart/binding"), &binding)
            .await
            .status,
        409
    );

    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "cart"}});
    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}/cart/eviction"), &eviction)
            .await
            .status,
        201
    );
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn only_its_subresource_changes_what_a_namespace_waits_for() {
    const SHOP: &str = "/api/v1/namespaces/shop";
    let server = TestServer::new();
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let created = send(&server, Method::POST, "/api/v1/namespaces", &namespace)
        .await
        .json();
    assert_eq!(created["spec"], json!({"finalizers": ["kubernetes"]}));

    namespace["spec"] = json!({"finalizers": []});
    let updated = send(&server, Method::PUT, SHOP, &namespace).await.json();
    assert_eq!(updated["spec"], created["spec"]);

    let finalized = send(&server, Method::PUT, &format!("{SHOP}/finalize"), &namespace)
        .await
        .json();
    assert_ne!(finalized["spec"], created["spec"]);

    let deleted = send(&server, Method::DELETE, SHOP, &Value::Null).await.json();
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert_eq!(deleted["metadata"].get("finalizers"), None);
    assert_eq!(get(&server, SHOP).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_again_does_not_wait_for_its_contents_again() {
    let server = TestServer::new();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "old", "finalizers": ["example.com/hold"]},
        "status": {"phase": "Active", "conditions": [{"type": "Example", "status": "True"}]},
    });
    server.create(namespace);
    let path = "/api/v1/namespaces/old";

    let marked = send(&server, Method::DELETE, path, &Value::Null).await.json();
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["status"]["conditions"][0]["type"], "Example");
    let empty = get(&server, path).await.json();
    assert_eq!(empty["spec"]["finalizers"], Value::Null);

    for policy in ["Orphan", "Foreground"] {
        let body = json!({"propagationPolicy": policy});
        let again = send(&server, Method::DELETE, path, &body).await;
        assert_eq!(again.status, 200, "{}", again.text);
        assert_eq!(again.json()["spec"]["finalizers"], Value::Null);
        assert_eq!(again.json()["status"], empty["status"]);
    }
    let mut free = get(&server, path).await.json();
    free["metadata"]["finalizers"] = json!([]);
    send(&server, Method::PUT, path, &free).await;
    assert_eq!(get(&server, path).await.status, 404);
}
