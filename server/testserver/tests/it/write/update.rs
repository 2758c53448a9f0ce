//! Updates: versions, the status and other subresources, dry runs.

use http::Method;
use kube_testserver::TestServer;
use kube_testserver::builders::{deployment, pod};
use serde_json::{Value, json};

use super::{PODS, cart};
use crate::common::{get, send, version};

#[tokio::test(start_paused = true)]
async fn update_requires_the_current_version() {
    let server = TestServer::new();
    let created = send(&server, Method::POST, PODS, &cart()).await.json();
    let mut newer = created.clone();
    newer["metadata"]["labels"] = json!({"app": "cart"});

    let updated = send(&server, Method::PUT, &format!("{PODS}/cart"), &newer).await;
    let stale = send(&server, Method::PUT, &format!("{PODS}/cart"), &newer).await;

    assert_eq!(version(&updated.json()), 3);
    assert_eq!(
        stale.error(),
        (
            409,
            "Conflict".to_owned(),
            "Operation cannot be fulfilled on pods \"cart\": the object has been modified; please apply your changes \
             to the latest version and try again"
                .to_owned()
        )
    );
    assert_eq!(stale.json()["details"], json!({"name": "cart", "kind": "pods"}));
}

#[tokio::test(start_paused = true)]
async fn update_keeps_server_owned_fields() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let mut body = get(&server, &format!("{PODS}/cart")).await.json();
    let before = body.clone();
    body["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    body["metadata"]["generation"] = json!(77);
    body["status"]["phase"] = json!("Running");
    body["spec"]["activeDeadlineSeconds"] = json!(5);
    body["spec"]["nodeName"] = json!("worker-1");

    let updated = send(&server, Method::PUT, &format!("{PODS}/cart"), &body)
        .await
        .json();

    assert_eq!(
        updated["metadata"]["creationTimestamp"],
        before["metadata"]["creationTimestamp"]
    );
    assert_eq!(updated["metadata"]["generation"], 2, "the spec changed once");
    assert_eq!(
        updated["status"]["phase"], "Pending",
        "the status is a subresource"
    );

    body["metadata"]["uid"] = json!("another");
    body["metadata"]["resourceVersion"] = updated["metadata"]["resourceVersion"].clone();
    let other = send(&server, Method::PUT, &format!("{PODS}/cart"), &body)
        .await
        .error();
    assert_eq!(other.0, 409);
    assert!(
        other
            .2
            .contains("Precondition failed: UID in precondition: another"),
        "{}",
        other.2
    );
}

#[tokio::test(start_paused = true)]
async fn status_is_written_through_its_subresource() {
    let server = TestServer::new();
    server.create(deployment("shop", "web"));
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    let mut body = get(&server, path).await.json();
    body["status"] = json!({"replicas": 3});
    body["spec"]["replicas"] = json!(9);
    body["metadata"]["labels"] = json!({"not": "here"});

    let updated = send(&server, Method::PUT, &format!("{path}/status"), &body)
        .await
        .json();

    assert_eq!(updated["status"]["replicas"], 3);
    assert_eq!(updated["spec"]["replicas"], 1);
    assert_eq!(updated["metadata"]["generation"], 1);
    assert!(updated["metadata"].get("labels").is_none());
    assert_eq!(get(&server, &format!("{path}/status")).await.json(), updated);
    let config_map = "/api/v1/namespaces/shop/configmaps/x/status";
    assert_eq!(
        get(&server, config_map).await.status,
        404,
        "config maps have no status"
    );
}

#[tokio::test(start_paused = true)]
async fn no_op_write_keeps_the_version() {
    let server = TestServer::new();
    let created = send(&server, Method::POST, PODS, &cart()).await.json();

    let updated = send(&server, Method::PUT, &format!("{PODS}/cart"), &created)
        .await
        .json();

    assert_eq!(updated, created);
    assert_eq!(server.resource_version(), 2);
}

#[tokio::test(start_paused = true)]
async fn dry_run_stores_nothing() {
    let server = TestServer::new();

    let tried = send(&server, Method::POST, &format!("{PODS}?dryRun=All"), &cart()).await;

    assert_eq!(tried.status, 201);
    assert!(tried.json()["metadata"]["uid"].is_string());
    assert_eq!((server.count("pods"), server.resource_version()), (0, 1));
    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}?dryRun=Some"), &cart())
            .await
            .status,
        422
    );
    server.create(pod("shop", "cart"));
    assert_eq!(
        send(
            &server,
            Method::DELETE,
            &format!("{PODS}/cart?dryRun=All"),
            &Value::Null
        )
        .await
        .status,
        200
    );
    assert_eq!(server.count("pods"), 1);
}

/// A client tries an update, and then performs it with the object that it got.
#[tokio::test(start_paused = true)]
async fn dry_run_of_an_update_returns_the_version_of_the_object() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let path = format!("{PODS}/cart");
    let mut cart = get(&server, &path).await.json();
    server.create(pod("shop", "other"));
    cart["metadata"]["labels"]["a"] = json!("b");

    let tried = send(&server, Method::PUT, &format!("{path}?dryRun=All"), &cart).await;

    assert_eq!(
        tried.json()["metadata"]["resourceVersion"],
        cart["metadata"]["resourceVersion"]
    );
    assert_eq!(send(&server, Method::PUT, &path, &tried.json()).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn scale_is_read_and_written() {
    let server = TestServer::new();
    server.create(deployment("shop", "web"));
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";

    let mut scale = get(&server, &format!("{path}/scale")).await.json();
    assert_eq!(
        (scale["kind"].as_str(), scale["spec"]["replicas"].as_i64()),
        (Some("Scale"), Some(1))
    );
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = json!(5);
    let scaled = send(&server, Method::PUT, &format!("{path}/scale"), &scale).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 5);
    let deployment = get(&server, path).await.json();
    assert_eq!(
        (
            deployment["spec"]["replicas"].as_i64(),
            deployment["metadata"]["generation"].as_i64()
        ),
        (Some(5), Some(2))
    );

    let stale = send(&server, Method::PUT, &format!("{path}/scale"), &scale).await;
    assert_eq!(stale.status, 409);
    scale["metadata"] = json!({"name": "web"});
    scale["spec"]["replicas"] = json!(-1);
    assert_eq!(
        send(&server, Method::PUT, &format!("{path}/scale"), &scale)
            .await
            .status,
        422
    );
    assert_eq!(get(&server, &format!("{PODS}/x/scale")).await.status, 404);
}
