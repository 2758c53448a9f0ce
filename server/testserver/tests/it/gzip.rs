//! Compressed responses.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube_testserver::builders::config_map;
use kube_testserver::{TestBody, TestServer};
use serde_json::Value;

use crate::common::{call, get};

const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// A server with this many ConfigMaps of 10 kB.
fn server(count: usize) -> TestServer {
    let server = TestServer::new();
    for index in 0..count {
        let mut object = config_map("shop", &format!("c{index:03}"));
        object.data = Some([("text".to_owned(), "x".repeat(10_000))].into());
        server.create(object);
    }
    server
}

async fn compressed(server: &TestServer, path: &str, accept: &str) -> Response<TestBody> {
    let request = Request::get(path)
        .header("accept-encoding", "gzip")
        .header("accept", accept)
        .body(Full::default())
        .expect("a request");
    call(&server.service(), request).await.expect("a response")
}

async fn bytes(response: Response<TestBody>) -> Bytes {
    response.into_body().collect().await.expect("a body").to_bytes()
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut out).expect("gzip");
    out
}

fn header<'a>(response: &'a Response<TestBody>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

#[tokio::test(start_paused = true)]
async fn large_list_is_compressed_for_clients_that_accept_it() {
    let server = server(40);
    let plain = get(&server, CONFIG_MAPS).await;

    let response = compressed(&server, CONFIG_MAPS, "application/json").await;

    assert_eq!(header(&response, "content-encoding"), Some("gzip"));
    assert_eq!(header(&response, "vary"), Some("Accept-Encoding"));
    assert_eq!(header(&response, "content-type"), Some("application/json"));
    let body = bytes(response).await;
    assert!(body.len() < plain.text.len() / 4, "{} bytes", body.len());
    assert_eq!(unpacked(&body), plain.text.as_bytes());
    assert!(
        !plain.headers.contains_key("content-encoding"),
        "not without the header"
    );
}

#[tokio::test(start_paused = true)]
async fn protobuf_and_single_objects_are_compressed_as_well() {
    let server = server(1);
    let mut large = config_map("shop", "large");
    large.data = Some([("text".to_owned(), "x".repeat(200_000))].into());
    server.create(large);

    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let path = format!("{CONFIG_MAPS}/large");
        let response = compressed(&server, &path, accept).await;
        assert_eq!(header(&response, "content-encoding"), Some("gzip"), "{accept}");
        assert!(unpacked(&bytes(response).await).len() > 200_000);
    }
}

#[tokio::test(start_paused = true)]
async fn small_responses_and_plain_watches_are_not_compressed() {
    let server = server(3);
    let list = compressed(&server, CONFIG_MAPS, "application/json").await;
    assert_eq!(header(&list, "content-encoding"), None);
    let list: Value = serde_json::from_slice(&bytes(list).await).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));

    let path =
        format!("{CONFIG_MAPS}?watch=true&resourceVersion=1&timeoutSeconds=1&allowWatchBookmarks=true");
    let watch = compressed(&server, &path, "application/json").await;
    assert_eq!(header(&watch, "content-encoding"), None);
    assert!(bytes(watch).await.starts_with(b"{\"type\":\"ADDED\""));
}

#[tokio::test(start_paused = true)]
async fn watch_list_is_a_sequence_of_gzip_members() {
    let server = server(40);
    let path = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
         &timeoutSeconds=30"
    );
    let response = compressed(&server, &path, "application/json").await;
    assert_eq!(header(&response, "content-encoding"), Some("gzip"));
    assert_eq!(header(&response, "vary"), Some("Accept-Encoding"));

    let mut body = response.into_body();
    let mut text = String::new();
    while !text.contains("k8s.io/initial-events-end") {
        let member = body
            .frame()
            .await
            .expect("more")
            .expect("a frame")
            .into_data()
            .expect("data");
        text.push_str(std::str::from_utf8(&unpacked(&member)).expect("text"));
    }
    assert_eq!(text.matches("\"type\":\"ADDED\"").count(), 40);

    // What follows can be read at once, too.
    server.create(config_map("shop", "later"));
    let member = body
        .frame()
        .await
        .expect("more")
        .expect("a frame")
        .into_data()
        .expect("data");
    let event: Value = serde_json::from_slice(&unpacked(&member)).expect("an event");
    assert_eq!(event["object"]["metadata"]["name"], "later");
}
