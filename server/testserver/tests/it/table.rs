//! Tables, as requested by kubectl.

use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use serde_json::{Value, json};

use crate::common::{Watch, get_as};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test(start_paused = true)]
async fn list_is_returned_as_a_table() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(pod("shop", "till"));

    let table = get_as(&server, "/api/v1/pods?limit=1", TABLE).await.json();

    assert_eq!(
        (table["kind"].as_str(), table["apiVersion"].as_str()),
        (Some("Table"), Some("meta.k8s.io/v1"))
    );
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(table["rows"][0]["cells"][0], "cart");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert!(table["metadata"]["continue"].is_string());
    let whole = get_as(&server, "/api/v1/pods?includeObject=Object", TABLE)
        .await
        .json();
    assert_eq!(whole["rows"][0]["object"]["kind"], "Pod");
    assert_eq!(
        get_as(&server, "/api/v1/pods?includeObject=Odd", TABLE)
            .await
            .status,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn object_and_watch_are_returned_as_tables() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));

    let one = get_as(&server, "/api/v1/namespaces/shop/pods/cart", TABLE)
        .await
        .json();
    assert_eq!(
        (one["kind"].as_str(), one["rows"][0]["cells"][0].as_str()),
        (Some("Table"), Some("cart"))
    );

    let mut watch = Watch::open_as(&server.service(), "/api/v1/pods?watch=true", TABLE).await;
    server.create(pod("shop", "till"));
    let columns = |frame: &Value| frame["object"]["columnDefinitions"].as_array().map(Vec::len);
    let first = watch.frame().await.expect("whole").expect("a frame");
    let second = watch.frame().await.expect("whole").expect("a frame");
    assert!(columns(&first).is_some_and(|count| count > 3));
    assert_eq!(columns(&second), None, "the column definitions are sent once");
    assert_eq!(second["object"]["rows"][0]["cells"][0], "till");
}

#[tokio::test(start_paused = true)]
async fn lists_and_objects_are_returned_as_yaml() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));

    let list = get_as(&server, "/api/v1/pods", "application/yaml").await;
    let one = get_as(&server, "/api/v1/namespaces/shop/pods/cart", "application/yaml").await;

    assert_eq!(list.headers["content-type"], "application/yaml");
    assert!(
        list.text.contains("kind: PodList") && one.text.contains("kind: Pod"),
        "{}",
        one.text
    );
    let soup = get_as(&server, "/api/v1/pods", "application/soup").await;
    assert_eq!(soup.error().1, "NotAcceptable");
    assert_eq!(soup.json()["details"], json!({}));
}
