//! Creates, with the rules and error messages of a real server.

use http::Method;
use kube_testserver::TestServer;
use kube_testserver::builders::{pod, secret};
use serde_json::{Value, json};

use super::{PODS, cart};
use crate::common::{get, send};

#[tokio::test(start_paused = true)]
async fn create_sets_the_server_owned_fields() {
    let server = TestServer::new();
    let mut body = cart();
    body["metadata"]["uid"] = json!("mine");
    body["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    body["status"] = json!({"phase": "Running"});

    let created = send(&server, Method::POST, PODS, &body).await;

    assert_eq!(created.status, 201);
    let pod = created.json();
    assert_eq!(
        (pod["kind"].as_str(), pod["apiVersion"].as_str()),
        (Some("Pod"), Some("v1"))
    );
    assert_eq!(pod["metadata"]["namespace"], "shop");
    assert_eq!(pod["metadata"]["resourceVersion"], "2");
    assert_eq!(pod["metadata"]["generation"], 1);
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'4'));
    assert!(
        pod["metadata"]["creationTimestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    assert!(pod["metadata"].get("deletionTimestamp").is_none());
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"}),
        "clients cannot set the status on create"
    );
    assert_eq!(pod["metadata"]["managedFields"][0]["operation"], "Update");
    assert_eq!(get(&server, &format!("{PODS}/cart")).await.json(), pod);
}

#[tokio::test(start_paused = true)]
async fn names_are_generated() {
    let server = TestServer::new();
    let body = json!({"metadata": {"generateName": "cart-"}});

    let first = send(&server, Method::POST, PODS, &body).await.json();
    let second = send(&server, Method::POST, PODS, &body).await.json();

    let name = first["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("cart-") && name.len() == 10, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["metadata"]["generateName"], "cart-");
}

#[tokio::test(start_paused = true)]
async fn creates_are_rejected_as_by_a_real_server() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let refused = async |path: &str, body: Value| send(&server, Method::POST, path, &body).await.error();
    let error = |code: u16, reason: &str, message: &str| (code, reason.to_owned(), message.to_owned());

    assert_eq!(
        refused(PODS, cart()).await,
        error(409, "AlreadyExists", "pods \"cart\" already exists")
    );
    assert_eq!(
        refused(PODS, json!({"metadata": {}})).await,
        error(
            422,
            "Invalid",
            "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required"
        )
    );
    assert_eq!(
        refused(PODS, json!({"metadata": {"name": "x", "namespace": "other"}})).await,
        error(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    );
    assert_eq!(
        refused(
            PODS,
            json!({"apiVersion": "apps/v1", "kind": "Pod", "metadata": {"name": "x"}})
        )
        .await,
        error(
            400,
            "BadRequest",
            "Pod in version \"v1\" cannot be handled as a Pod: no kind \"Pod\" is registered for version \"apps/v1\" in \
             scheme \"pkg/runtime/scheme.go:111\""
        )
    );
    assert_eq!(refused(PODS, json!([])).await.0, 400);
    assert_eq!(
        refused(PODS, json!({"metadata": {"name": "x", "resourceVersion": "7"}}))
            .await
            .0,
        500
    );
    assert_eq!(
        refused(PODS, json!({"metadata": {"name": "x", "labels": {"a b": "c"}}}))
            .await
            .0,
        422
    );
    assert_eq!(refused("/api/v1/pods", cart()).await.0, 405);
    assert_eq!(refused("/api/v1/namespaces/shop/pods/cart", cart()).await.0, 405);
}

#[tokio::test(start_paused = true)]
async fn namespaces_must_exist_only_if_enabled() {
    let strict = TestServer::builder().require_namespaces().build();

    let refused = send(&strict, Method::POST, PODS, &cart()).await;
    assert_eq!(refused.error().2, "namespaces \"shop\" not found");

    let namespace = json!({"metadata": {"name": "shop"}});
    let created = send(&strict, Method::POST, "/api/v1/namespaces", &namespace)
        .await
        .json();
    assert_eq!(
        created["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "shop"
    );
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(send(&strict, Method::POST, PODS, &cart()).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn string_data_of_secrets_is_stored_encoded() {
    let server = TestServer::new();
    let body = json!({"metadata": {"name": "key"}, "stringData": {"password": "x"}});

    let created = send(&server, Method::POST, "/api/v1/namespaces/shop/secrets", &body)
        .await
        .json();

    assert_eq!(created["data"], json!({"password": "eA=="}));
    assert_eq!(created["type"], "Opaque");
    assert!(created.get("stringData").is_none());
    assert_eq!(
        server.create(secret("shop", "other")).type_.as_deref(),
        Some("Opaque")
    );
}
