//! Snapshots, forks, and the resource versions of restarted servers.

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_testserver::builders::{config_map, pod};
use kube_testserver::{Snapshot, TestServer};
use serde_json::json;

use crate::common::{get, send};

#[tokio::test(start_paused = true)]
async fn snapshot_restores_objects_kinds_and_versions() {
    let server = TestServer::new();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&server, Method::POST, path, &definition).await.status, 201);
    server.create(pod("shop", "cart"));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    send(
        &server,
        Method::POST,
        "/apis/example.com/v1/namespaces/shop/widgets",
        &widget,
    )
    .await;
    let before = get(&server, "/api/v1/pods").await.items();

    let file = std::env::temp_dir().join(format!("kube-testserver-{}.jsonl", std::process::id()));
    server.snapshot().save(&file).expect("the snapshot is written");
    let loaded = Snapshot::load(&file);
    std::fs::remove_file(&file).expect("the file exists");
    let restored = TestServer::builder().restore(loaded.expect("a snapshot")).build();

    assert_eq!(get(&restored, "/api/v1/pods").await.items(), before);
    assert_eq!(
        get(&restored, "/apis/example.com/v1/widgets").await.names(),
        ["shop/w"]
    );
    assert_eq!(restored.resource_version(), server.resource_version());
    restored.create(pod("shop", "desk"));
    assert_eq!(restored.resource_version(), server.resource_version() + 1);
}

#[tokio::test(start_paused = true)]
async fn damaged_snapshot_is_rejected_with_the_line() {
    let file = std::env::temp_dir().join(format!("kube-testserver-damaged-{}.jsonl", std::process::id()));
    std::fs::write(
        &file,
        "{\"kubeTestserverSnapshot\":1,\"resourceVersion\":5}\n{\"half\":",
    )
    .expect("a file");
    let damaged = Snapshot::load(&file)
        .map(|_| ())
        .expect_err("an error")
        .to_string();
    std::fs::write(&file, "{}\n").expect("a file");
    let foreign = Snapshot::load(&file)
        .map(|_| ())
        .expect_err("an error")
        .to_string();
    std::fs::remove_file(&file).expect("the file exists");

    assert!(damaged.starts_with("line 2 "), "{damaged}");
    assert!(foreign.starts_with("line 1 "), "{foreign}");
}

#[tokio::test(start_paused = true)]
async fn fork_and_original_change_independently() {
    let server = TestServer::new();
    server.create(config_map("shop", "both"));

    let fork = server.fork();
    server.create(config_map("shop", "original"));
    fork.create(config_map("shop", "fork"));

    let names = async |server: &TestServer| get(server, "/api/v1/configmaps").await.names();
    assert_eq!(names(&server).await, ["shop/both", "shop/original"]);
    assert_eq!(names(&fork).await, ["shop/both", "shop/fork"]);
    assert!(fork.get::<ConfigMap>("shop", "original").is_none());
}

#[tokio::test]
async fn restarted_server_refuses_versions_of_the_earlier_run() {
    let first = TestServer::start().await.expect("it listens");
    first.create(pod("shop", "cart"));
    let version = first.resource_version();
    let second = TestServer::start().await.expect("it listens");

    assert!(second.resource_version() > version);
    let watch = format!("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion={version}");
    let refused = get(&second, &watch).await;
    assert!(
        refused.text.contains("too old resource version"),
        "{}",
        refused.text
    );
    assert!(second.get::<Pod>("shop", "cart").is_none());
}

#[tokio::test]
async fn versions_can_be_reused_as_a_fault() {
    let server = TestServer::builder()
        .first_version(1)
        .listen("127.0.0.1:0")
        .await
        .expect("it listens");

    server.create(pod("shop", "cart"));

    assert_eq!(server.resource_version(), 2);
}
