//! The server handle: direct writes, recorded requests, open watches.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube_testserver::builders::{Build, config_map, pod};
use kube_testserver::{TestServer, Verb};
use serde_json::{Value, json};

use crate::common::get;

#[tokio::test(start_paused = true)]
async fn kube_client_lists_and_gets() {
    let server = TestServer::new();
    server.create(pod("shop", "cart").label("app", "cart"));
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");

    let list = pods
        .list(&ListParams::default().labels("app=cart"))
        .await
        .expect("a list");

    assert_eq!(list.items.len(), 1);
    let cart = pods.get("cart").await.expect("the pod");
    assert_eq!(Some(&cart), list.items.first());
    assert!(cart.metadata.uid.is_some() && cart.metadata.creation_timestamp.is_some());
    server.assert_nothing_open();
}

#[test]
fn objects_are_written_without_http_and_without_a_runtime() {
    let server = TestServer::new();

    let created: Pod = server.create(pod("shop", "cart"));
    let dynamic: Value = server.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "settings"}, "data": {"a": "1"},
    }));
    let updated = server.update(created.clone().label("app", "cart"));

    assert_eq!(created.metadata.resource_version.as_deref(), Some("2"));
    assert_eq!(dynamic["metadata"]["resourceVersion"], "3");
    assert_eq!(updated.metadata.uid, created.metadata.uid);
    assert_eq!(server.get::<Pod>("shop", "cart"), Some(updated));
    assert_eq!(
        (
            server.resource_version(),
            server.count("pods"),
            server.count("configmaps")
        ),
        (4, 1, 1)
    );
    server.delete::<Pod>("shop", "cart");
    server.delete_key("configmaps", "shop/settings");
    assert_eq!(server.objects("pods"), Vec::<Value>::new());
    assert_eq!(server.resource_version(), 6);
}

#[test]
fn misuse_is_rejected_with_a_clear_error() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));

    let twice = server.try_create(pod("shop", "cart")).expect_err("it exists");
    assert_eq!(twice.message(), "pods \"cart\" already exists");
    let missing = server
        .try_update(pod("shop", "other"))
        .expect_err("it does not exist");
    assert_eq!(missing.message(), "pods \"other\" not found");
    let unknown = server
        .try_create(json!({"apiVersion": "example.com/v1", "kind": "Widget"}))
        .expect_err("unknown");
    assert!(unknown.message().contains("\"Widget\""), "{unknown}");
    let bad_name = server
        .try_create(config_map("shop", "Not_A_Name"))
        .expect_err("a bad name");
    assert_eq!(bad_name.code(), 422);
}

#[tokio::test(start_paused = true)]
async fn requests_are_recorded() {
    let server = TestServer::new();
    get(&server, "/api/v1/pods?limit=5").await;
    get(&server, "/api/v1/namespaces/shop/pods/x").await;
    get(&server, "/version").await;

    let seen = server.requests();

    let lines: Vec<String> = seen.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "GET /api/v1/pods?limit=5 -> 200",
            "GET /api/v1/namespaces/shop/pods/x -> 404",
            "GET /version -> 200"
        ]
    );
    assert_eq!(
        [seen[0].verb, seen[1].verb, seen[2].verb],
        [Verb::List, Verb::Get, Verb::Other]
    );
    assert_eq!(seen[0].param("limit"), Some("5"));
    assert_eq!(server.count_requests(Verb::List, "pods"), 1);
    server.clear_requests();
    assert!(server.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn token_is_required() {
    let server = TestServer::builder().token("secret").build();

    let refused = get(&server, "/api/v1/pods").await;

    assert_eq!(
        refused.error(),
        (401, "Unauthorized".to_owned(), "Unauthorized".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn wait_for_returns_once_the_condition_holds() {
    let server = TestServer::new();
    let (_, _) = tokio::join!(
        server.wait_for("a list was requested", |server| server
            .count_requests(Verb::List, "pods")
            == 1),
        get(&server, "/api/v1/pods"),
    );
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a second watch: still not true after 30s")]
async fn wait_for_panics_with_the_name_of_a_condition_that_never_holds() {
    TestServer::new().wait_for("a second watch", |_| false).await;
}

#[test]
fn debug_output_never_shows_secrets() {
    let server = TestServer::builder().token("t0ken").build();
    server.create(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "key"}, "data": {"a": "czNjcmV0"},
    }));

    let shown = format!(
        "{server:?} {:?} {:#?}",
        TestServer::builder().token("t0ken"),
        server.service()
    );

    assert!(!shown.contains("t0ken") && !shown.contains("czNjcmV0"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn behaviour_depends_on_the_seed_only() {
    let story = async |seed: u64| {
        let server = TestServer::builder().seed(seed).build();
        get(&server, "/api/v1/pods").await;
        let pod: Pod = server.create(pod("shop", "a"));
        let config_map: Value = server.create(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "generateName": "c-"},
        }));
        (pod.metadata.uid, config_map["metadata"]["name"].clone())
    };

    assert_eq!(story(1).await, story(1).await);
    assert_ne!(story(1).await, story(2).await);
}

#[tokio::test(start_paused = true)]
async fn wait_for_within_accepts_any_timeout_and_returns_once_the_condition_holds() {
    let server = TestServer::new();
    let writer = server.clone();

    let began = tokio::time::Instant::now();
    let waiting = server.wait_for_within(std::time::Duration::MAX, "a pod exists", |server| {
        server.count("pods") == 1
    });
    tokio::join!(waiting, async {
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        writer.create(pod("shop", "cart"));
    });

    assert_eq!(began.elapsed(), std::time::Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a pod exists: still not true after 2s")]
async fn wait_for_within_panics_after_its_timeout() {
    let timeout = std::time::Duration::from_secs(2);
    TestServer::new()
        .wait_for_within(timeout, "a pod exists", |server| server.count("pods") == 1)
        .await;
}
