//! `serve` during an outage: what it says about itself is true.

use std::net::SocketAddr;

use kube_testserver::builders::{node, pod};

use crate::http::get;
use crate::program::{Cluster, within};

/// Waits until the path is answered with this code.
pub async fn becomes(address: SocketAddr, path: &str, code: u16) -> String {
    within(&format!("{code} from {path}"), async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            let answer = get(address, path).await;
            if answer.code == code {
                return answer.body;
            }
            look.tick().await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_worst_informer_and_liveness_the_process() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    cluster.server.create(node("node-1"));
    let mut program = cluster.start(&["serve", "pods,nodes", "--port", "0"]);
    let line = program.line_with("Serving http://").await;
    let address: SocketAddr = line
        .trim_start_matches("Serving http://")
        .trim_end_matches('/')
        .parse()
        .unwrap();
    becomes(address, "/readyz", 200).await;
    let status = get(address, "/api/v1/status").await.json();
    assert_eq!(
        (&status["health"], &status["disconnectedSeconds"]),
        (&"live".into(), &().into())
    );

    cluster.server.refuse_connections(true);
    cluster.server.break_watches();
    let body = becomes(address, "/readyz", 503).await;
    assert!(
        body.contains("disconnected for") && body.contains("pods"),
        "{body}"
    );
    assert_eq!(get(address, "/livez").await.code, 200);
    assert_eq!(get(address, "/healthz").await.code, 200);
    let status = get(address, "/api/v1/status").await.json();
    assert_eq!(status["health"], "disconnected");
    assert!(status["disconnectedSeconds"].as_f64().is_some(), "{status}");
    assert_eq!(status["synced"], true, "the caches are still there");
    let metrics = get(address, "/metrics").await.body;
    assert!(
        metrics
            .contains("kube_informers_live{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\"} 0.0\n"),
        "{metrics}"
    );

    cluster.server.refuse_connections(false);
    becomes(address, "/readyz", 200).await;
    assert_eq!(get(address, "/api/v1/status").await.json()["health"], "live");
    program.says("again after").await;
    assert_eq!(
        program.err().matches("interrupted: ").count(),
        1,
        "{}",
        program.err()
    );
}
