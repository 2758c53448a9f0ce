//! Corrupted objects: in lists, in watches and alone.

use bytes::Bytes;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, Poison, RequestMatcher, TestServer};
use serde_json::{Value, json};

use crate::common::{Watch, call, get};

fn shop() -> TestServer {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create(pod("shop", name));
    }
    server
}

async fn raw(server: &TestServer, path: &str) -> Bytes {
    let request = http::Request::get(path)
        .body(http_body_util::Full::default())
        .expect("a request");
    let response = call(&server.service(), request).await.expect("a response");
    response.into_body().collect().await.expect("whole").to_bytes()
}

fn item(list: &Value, number: usize) -> &Value {
    &list["items"][number]
}

#[tokio::test(start_paused = true)]
async fn f13_one_object_of_a_list_is_corrupted_and_no_other() {
    let server = shop();

    for (poison, spoiled) in [
        (Poison::WrongType, "/spec"),
        (Poison::BadEnum, "/status/phase"),
        (Poison::BadVersion, "/metadata/resourceVersion"),
    ] {
        let good = get(&server, "/api/v1/pods").await.json();
        server.fault(RequestMatcher::list("pods"), Fault::poison("shop/b", poison));
        let bad = get(&server, "/api/v1/pods").await.json();

        assert_eq!((item(&bad, 0), item(&bad, 2)), (item(&good, 0), item(&good, 2)));
        assert_ne!(
            item(&bad, 1).pointer(spoiled),
            item(&good, 1).pointer(spoiled),
            "{spoiled}"
        );
        assert!(
            serde_json::from_value::<Pod>(item(&bad, 1).clone()).is_err() || spoiled.ends_with("Version")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn f13_parts_of_an_object_are_missing() {
    let server = shop();
    let spoiled = async |poison: Poison| {
        server.poison("pods", "shop/b", poison);
        get(&server, "/api/v1/pods").await.json()["items"][1].clone()
    };

    assert!(spoiled(Poison::MissingMetadata).await.get("metadata").is_none());
    assert!(
        spoiled(Poison::MissingName).await["metadata"]
            .get("name")
            .is_none()
    );
    assert!(
        spoiled(Poison::MissingVersion).await["metadata"]
            .get("resourceVersion")
            .is_none()
    );
    assert_eq!(spoiled(Poison::Null).await, Value::Null);
    assert_eq!(spoiled(Poison::StatusObject).await["kind"], "Status");
    let other = spoiled(Poison::OtherKind("v1".to_owned(), "Secret".to_owned())).await;
    assert_eq!(
        (other["apiVersion"].as_str(), other["kind"].as_str()),
        (Some("v1"), Some("Secret"))
    );
    let edited = spoiled(Poison::edit(|pod| pod["spec"]["nodeName"] = json!(true))).await;
    assert_eq!(edited["spec"]["nodeName"], true);
    assert!(server.cure("pods", "shop/b"));
    assert!(get(&server, "/api/v1/pods").await.json()["items"][1]["metadata"]["name"] == "b");
}

#[tokio::test(start_paused = true)]
async fn f39_bytes_are_not_json() {
    let server = shop();

    server.poison("pods", "shop/b", Poison::InvalidUtf8);
    assert!(std::str::from_utf8(&raw(&server, "/api/v1/pods").await).is_err());

    server.poison("pods", "shop/b", Poison::TooDeep(300));
    let deep = raw(&server, "/api/v1/pods").await;
    let error = serde_json::from_slice::<Value>(&deep).expect_err("too deep");
    assert!(error.to_string().contains("recursion limit"), "{error}");

    server.poison("pods", "shop/b", Poison::Huge(1 << 20));
    assert!(raw(&server, "/api/v1/namespaces/shop/pods/b").await.len() > 1 << 20);

    server.poison("pods", "shop/b", Poison::GarbageAfter(Bytes::from_static(b"}}}")));
    assert!(serde_json::from_slice::<Value>(&raw(&server, "/api/v1/pods").await).is_err());

    server.clear_faults();
    assert!(serde_json::from_slice::<Value>(&raw(&server, "/api/v1/pods").await).is_ok());
}

#[tokio::test(start_paused = true)]
async fn f14_object_is_corrupted_in_an_open_watch() {
    let server = shop();
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=4").await;
    server.modify::<Pod>("shop", "b", |pod| *pod = pod.clone().label("n", "1"));
    assert_eq!(watch.ready().await, ["MODIFIED shop/b@5"]);

    server.poison("pods", "shop/b", Poison::MissingName);
    server.modify::<Pod>("shop", "b", |pod| *pod = pod.clone().label("n", "2"));
    server.delete::<Pod>("shop", "b");

    assert_eq!(watch.ready().await, ["MODIFIED shop/@6", "DELETED shop/@7"]);
}

#[tokio::test(start_paused = true)]
async fn f06_object_is_recreated_with_another_uid() {
    let server = shop();
    let before = server.get::<Pod>("shop", "b").and_then(|pod| pod.metadata.uid);
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=4").await;

    let after = server.recreate("pods", "shop/b");

    assert_ne!(after["metadata"]["uid"].as_str(), before.as_deref());
    assert_eq!(watch.ready().await, ["DELETED shop/b@5", "ADDED shop/b@6"]);
}
