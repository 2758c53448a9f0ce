//! `serve` with clients that do not read their responses.

use std::net::SocketAddr;

use kube_testserver::builders::{Build, pod};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http::get;
use crate::program::Cluster;

const PODS: usize = 1500;
const STALLED: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_of_large_lists_cost_bounded_memory_and_health_checks_succeed() {
    let cluster = Cluster::new().await;
    let note = "x".repeat(10_000);
    for number in 0..PODS {
        cluster
            .server
            .create(pod("shop", &format!("pod-{number}")).annotation("note", &note));
    }
    let mut program = cluster.start(&["serve", "pods", "--port", "0"]);
    let line = program.line_with("Serving http://").await;
    let address = line.trim_start_matches("Serving http://").trim_end_matches('/');
    let address: SocketAddr = address.parse().unwrap();
    let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
    crate::program::within("a synced cache", async {
        while get(address, "/readyz").await.code != 200 {
            look.tick().await;
        }
    })
    .await;
    let list = get(address, "/api/v1/kinds/pods/objects?limit=10000").await;
    let size = list.body.len() as u64;
    assert_eq!(list.json()["items"].as_array().unwrap().len(), PODS);
    assert_eq!(list.json()["truncated"], false);
    assert!(size > 15_000_000, "{size}");

    let before = program.peak_memory();
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request =
            format!("GET /api/v1/kinds/pods/objects?limit=10000 HTTP/1.1\r\nHost: {address}\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        stalled.push(socket);
    }
    // The first responses have begun, so the lists are in memory.
    for socket in stalled.iter().take(8) {
        crate::program::within("a response", socket.readable())
            .await
            .unwrap();
    }

    assert_eq!(get(address, "/healthz").await.code, 200);
    assert_eq!(get(address, "/readyz").await.code, 200);
    let grown = program.peak_memory().saturating_sub(before);
    assert!(
        grown < 20 * size,
        "{STALLED} stalled readers of {size} bytes cost {grown} bytes"
    );
}
