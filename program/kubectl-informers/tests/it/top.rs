//! `top` where there is no terminal: lines.

use kube_testserver::builders::{node, pod};

use crate::program::{Cluster, Home, within};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_it_prints_changes_and_summaries() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    cluster.server.create(node("node-1"));
    let mut program = cluster.start(&["top", "--every", "1"]);
    for kind in ["pods", "nodes", "deployments.apps", "events"] {
        let mut other = cluster.start(&["top", kind, "--every", "1"]);
        other.line_with(&format!("SYNCED  {kind}")).await;
    }

    // The first summaries may be printed before everything is watched.
    program.line_with("== 4 watches on the server, ").await;
    let watched = |pods: &str| pods.contains("watching") && pods.contains("1 objects");
    within("a summary of the pods", async {
        while !watched(&program.line_with("==   pods").await) {}
    })
    .await;
    cluster.server.create(pod("shop", "new"));
    program.line_with("ADDED   pod shop/new").await;
    assert!(
        !program.everything().contains("shop/cart"),
        "initial objects are not printed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_the_default_command() {
    let home = Home::new();
    let mut program = home.start(&[]);
    program.line_with("SYNCED").await;
    program.says("in memory").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_kind_is_reported_and_the_others_continue() {
    use kube_testserver::{Fault, RequestMatcher};
    let cluster = Cluster::new().await;
    cluster
        .server
        .fault(RequestMatcher::resource("nodes").forever(), Fault::status(403));
    let mut program = cluster.start(&["top", "--every", "1"]);
    program
        .line_with("kubectl create clusterrole informers-nodes")
        .await;
    program.line_with("==   nodes").await;
    cluster.server.create(pod("shop", "new"));
    program.line_with("ADDED   pod shop/new").await;
}
