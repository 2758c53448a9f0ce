//! `serve` during an outage: what it says about itself is true.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Node;
use kube_testserver::builders::{node, pod};
use kube_testserver::{Fault, RequestMatcher};

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

/// Waits until the program is not ready for these reasons. The informers notice an outage and its end one by one, so the
/// first reasons need not be all.
pub async fn becomes_unready(address: SocketAddr, what: &str, is_it: impl Fn(&str) -> bool) {
    within(what, async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
        while !is_it(&becomes(address, "/readyz", 503).await) {
            look.tick().await;
        }
    })
    .await;
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
    becomes_unready(address, "both are disconnected", |body| {
        body.matches("disconnected for").count() == 2 && body.contains("pods") && body.contains("nodes")
    })
    .await;
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

/// `serve` with pods and nodes, when both are live.
async fn live() -> (Cluster, crate::program::Program, SocketAddr) {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    cluster.server.create(node("node-1"));
    let (program, address) = crate::serve::synced(&cluster, &["pods,nodes"]).await;
    becomes(address, "/readyz", 200).await;
    (cluster, program, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_informer_without_contact_is_enough_to_be_disconnected() {
    let (cluster, _program, address) = live().await;
    let fault = cluster
        .server
        .fault(RequestMatcher::resource("nodes").forever(), Fault::status(503));
    cluster.server.break_watches();

    // That of pods resumes.
    becomes_unready(address, "only nodes are missing", |body| {
        body.contains("disconnected for") && body.contains("nodes") && !body.contains("pods")
    })
    .await;
    let status = get(address, "/api/v1/status").await.json();
    assert_eq!(status["health"], "disconnected");

    fault.clear();
    becomes(address, "/readyz", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_listed_again_is_catching_up() {
    let (cluster, _program, address) = live().await;
    let version = cluster.server.resource_version();
    for list in [RequestMatcher::list("nodes"), RequestMatcher::watch_list("nodes")] {
        cluster.server.fault(list.forever(), Fault::hang());
    }
    cluster.server.refuse_connections(true);
    cluster.server.break_watches();
    cluster.server.delete::<Node>(None, "node-1");
    cluster.server.compact_to(version + 1);
    cluster.server.refuse_connections(false);

    // Pods may be disconnected for longer than nodes, and then they decide.
    becomes_unready(address, "only nodes are being listed", |body| {
        body == "catching up: nodes\n"
    })
    .await;
    within("catching up", async {
        while get(address, "/api/v1/status").await.json()["health"] != "catching up" {
            becomes(address, "/readyz", 503).await;
        }
    })
    .await;
    assert_eq!(get(address, "/livez").await.code, 200);
}
