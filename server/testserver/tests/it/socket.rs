//! On a socket, in real time. Tests wait for named conditions and never sleep.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn raw(server: &TestServer, request: &str) -> String {
    let address = server.url().expect("it listens").replace("http://", "");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // The connection may be reset; bytes before the reset count.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn client_lists_creates_and_watches_over_the_socket() {
    let server = TestServer::start().await.expect("it listens");
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");

    pods.create(&PostParams::default(), &pod("shop", "cart"))
        .await
        .expect("created");
    let list = pods.list(&ListParams::default()).await.expect("listed");
    assert_eq!(list.items.len(), 1);

    let version = list.metadata.resource_version.unwrap_or_default();
    let mut events = Box::pin(
        pods.watch(&WatchParams::default(), &version)
            .await
            .expect("a watch"),
    );
    server.create(pod("shop", "till"));
    let event = events.try_next().await.expect("an event");
    assert!(matches!(event, Some(WatchEvent::Added(pod)) if pod.metadata.name.as_deref() == Some("till")));

    drop(events);
    server
        .wait_for("the watch is gone", |server| server.open_watches() == 0)
        .await;
}

#[tokio::test]
async fn close_watches_ends_watches_cleanly() {
    let server = TestServer::start().await.expect("it listens");
    let pods: Api<Pod> = Api::all(server.client());
    let version = server.resource_version().to_string();
    let mut events = Box::pin(
        pods.watch(&WatchParams::default(), &version)
            .await
            .expect("a watch"),
    );
    server
        .wait_for("the watch is open", |server| server.open_watches() == 1)
        .await;

    server.close_watches();

    assert!(events.try_next().await.expect("a clean end").is_none());
}

#[tokio::test]
async fn broken_body_breaks_the_connection() {
    let server = TestServer::start().await.expect("it listens");
    server.create(pod("shop", "cart"));
    server.fault(RequestMatcher::list("pods"), Fault::cut(100));

    let answer = raw(&server, "GET /api/v1/pods HTTP/1.1\r\nhost: x\r\n\r\n").await;

    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
    assert!(
        !answer.contains("\r\n0\r\n"),
        "the last chunk is never sent: {answer}"
    );
}

#[tokio::test]
async fn connections_are_refused_and_accepted_again() {
    let server = TestServer::start().await.expect("it listens");
    let pods: Api<Pod> = Api::all(server.client());

    server.refuse_connections(true);
    assert!(pods.list(&ListParams::default()).await.is_err());
    assert_eq!(server.count_requests(Verb::List, "pods"), 0);

    server.refuse_connections(false);
    assert!(pods.list(&ListParams::default()).await.is_ok());
}

#[tokio::test]
async fn kubeconfig_connects_to_the_server() {
    let server = TestServer::builder()
        .token("s3cret")
        .listen("127.0.0.1:0")
        .await
        .expect("it listens");
    let yaml = server.kubeconfig().expect("it listens");

    let parsed = Kubeconfig::from_yaml(&yaml).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    let pods: Api<Pod> = Api::all(Client::try_from(config).expect("a client"));
    assert!(pods.list(&ListParams::default()).await.is_ok());

    let refused = raw(
        &server,
        "GET /api HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(refused.starts_with("HTTP/1.1 401 Unauthorized"), "{refused}");
    let wrong = raw(
        &server,
        "GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer wrong\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(wrong.starts_with("HTTP/1.1 401 Unauthorized"), "{wrong}");
    assert!(TestServer::new().kubeconfig().is_none() && TestServer::new().url().is_none());
}

#[tokio::test]
async fn only_loopback_is_allowed_by_default() {
    let refused = TestServer::builder()
        .listen("0.0.0.0:0")
        .await
        .map(|_| ())
        .map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::PermissionDenied));

    let first = TestServer::start().await.expect("it listens");
    let address = first.url().expect("it listens").replace("http://", "");
    let busy = TestServer::builder()
        .listen(address.as_str())
        .await
        .map(|_| ())
        .expect_err("the port is taken");
    assert_eq!(busy.kind(), ErrorKind::AddrInUse);
    assert!(busy.to_string().contains(&address), "{busy}");
}

#[tokio::test]
async fn shutdown_closes_the_socket_and_all_connections() {
    let server = TestServer::start().await.expect("it listens");
    let pods: Api<Pod> = Api::all(server.client());
    let version = server.resource_version().to_string();
    let mut events = Box::pin(
        pods.watch(&WatchParams::default(), &version)
            .await
            .expect("a watch"),
    );
    server
        .wait_for("the watch is open", |server| server.open_watches() == 1)
        .await;

    server.shutdown().await;

    server.assert_nothing_open();
    let ended = events.try_next().await;
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    assert!(pods.list(&ListParams::default()).await.is_err());
}

#[tokio::test]
async fn servers_are_independent() {
    let mut servers = Vec::new();
    for number in 0..10 {
        let server = tokio::time::timeout(Duration::from_secs(5), TestServer::start())
            .await
            .expect("at once")
            .expect("it listens");
        for pods in 0..number {
            server.create(pod("shop", &format!("pod-{pods}")));
        }
        servers.push(server);
    }

    for (number, server) in servers.iter().enumerate() {
        let pods: Api<Pod> = Api::all(server.client());
        assert_eq!(
            pods.list(&ListParams::default())
                .await
                .expect("listed")
                .items
                .len(),
            number
        );
    }
}

#[tokio::test]
async fn garbage_on_the_socket_does_not_stop_the_server() {
    let server = TestServer::start().await.expect("it listens");

    for nonsense in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /%zz?%%%=&&=%ff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ] {
        let address = server.url().expect("it listens").replace("http://", "");
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(nonsense.as_bytes()).await.expect("sent");
        stream.shutdown().await.expect("ended");
        // Any response will do, as long as the server keeps running.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    let odd = raw(
        &server,
        "BREW /api/v1/pods HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(odd.starts_with("HTTP/1.1 405"), "{odd}");
    let version = raw(
        &server,
        "GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(version.contains("gitVersion"), "{version}");
}

#[tokio::test]
async fn server_starts_quickly() {
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let started = tokio::time::Instant::now();
        let server = TestServer::start().await.expect("it listens");
        fastest = fastest.min(started.elapsed());
        server.shutdown().await;
    }

    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}
