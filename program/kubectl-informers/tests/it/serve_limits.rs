//! `serve` with clients that do not read their responses.

use std::net::SocketAddr;
use std::time::Duration;

use kube_testserver::builders::{Build, pod};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::get;
use crate::program::{Cluster, Program, within};

const PODS: usize = 1500;
const STALLED: usize = 60;
const ALL_PODS: &str = "/api/v1/kinds/pods/objects?limit=10000";

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_of_large_lists_cost_bounded_memory_and_health_checks_succeed() {
    let cluster = Cluster::new().await;
    let (program, address) = serving(&cluster, &[]).await;
    let list = get(address, ALL_PODS).await;
    let size = list.body.len() as u64;
    assert_eq!(list.json()["items"].as_array().unwrap().len(), PODS);
    assert_eq!(list.json()["truncated"], false);
    assert!(size > 15_000_000, "{size}");

    let before = program.peak_memory();
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        stalled.push(stall(address).await);
    }
    // The first responses have begun, so the lists are in memory.
    for socket in stalled.iter().take(8) {
        within("a response", socket.readable()).await.unwrap();
    }

    assert_eq!(get(address, "/healthz").await.code, 200);
    assert_eq!(get(address, "/readyz").await.code, 200);
    let grown = program.peak_memory().saturating_sub(before);
    assert!(
        grown < 20 * size,
        "{STALLED} stalled readers of {size} bytes cost {grown} bytes"
    );
}

/// A program that serves `PODS` large pods, and its address.
async fn serving(cluster: &Cluster, options: &[&str]) -> (Program, SocketAddr) {
    let note = "x".repeat(10_000);
    for number in 0..PODS {
        cluster
            .server
            .create(pod("shop", &format!("pod-{number}")).annotation("note", &note));
    }
    let mut arguments = vec!["serve", "pods", "--port", "0"];
    arguments.extend(options);
    let mut program = cluster.start(&arguments);
    let line = program.line_with("Serving http://").await;
    let address = line.trim_start_matches("Serving http://").trim_end_matches('/');
    let address: SocketAddr = address.parse().unwrap();
    let mut look = tokio::time::interval(Duration::from_millis(50));
    within("a synced cache", async {
        while get(address, "/readyz").await.code != 200 {
            look.tick().await;
        }
    })
    .await;
    (program, address)
}

/// Sends a request for all pods and reads nothing of the response.
async fn stall(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {ALL_PODS} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// The value of a counter in `/metrics`.
async fn counter(address: SocketAddr, name: &str) -> u64 {
    let metrics = get(address, "/metrics").await.body;
    let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
    let value: f64 = line.split(' ').next_back().unwrap().parse().unwrap();
    value as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_stalled_readers_are_closed_counted_and_make_room_for_others() {
    let cluster = Cluster::new().await;
    let (_program, address) = serving(&cluster, &["--write-timeout", "2s"]).await;
    // As many as there are large responses at a time.
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(stall(address).await);
    }
    for socket in &stalled {
        within("a response", socket.readable()).await.unwrap();
    }

    // Waits for one of them to be closed.
    let list = get(address, ALL_PODS).await;

    assert_eq!(list.code, 200);
    assert_eq!(list.json()["items"].as_array().unwrap().len(), PODS);
    let size = list.body.len();
    let mut look = tokio::time::interval(Duration::from_millis(50));
    within("all of them are counted", async {
        while counter(address, "kubectl_informers_write_timeouts_total").await < 8 {
            look.tick().await;
        }
    })
    .await;
    for socket in &mut stalled {
        let mut rest = Vec::new();
        // Reset or closed: in either case the response is not complete.
        within("the end", socket.read_to_end(&mut rest)).await.ok();
        assert!(rest.len() < size, "{} of {size} bytes", rest.len());
    }
    assert_eq!(
        counter(address, "kubectl_informers_rejected_responses_total").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_ends_at_the_byte_budget_and_says_so() {
    let cluster = Cluster::new().await;
    let (_program, address) = serving(&cluster, &["--max-response", "1Mi"]).await;

    let list = get(address, ALL_PODS).await;

    let items = list.json()["items"].as_array().unwrap().len();
    assert_eq!(list.json()["truncated"], true);
    assert_eq!(list.json()["total"], PODS);
    assert!((50..=105).contains(&items), "{items} items of 10 kB");
    assert!(list.body.len() < 1_100_000, "{}", list.body.len());
}
