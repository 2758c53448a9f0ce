//! `trouble`: loops, fights, churn and stale watches.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube_testserver::builders::deployment;
use serde_json::{Value, json};

use crate::http::get;
use crate::program::{Cluster, Program, within};
use crate::serve::synced;

/// Two controllers that do not agree about a field.
async fn fight(cluster: &Cluster, rounds: usize) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.server.client(), "shop");
    for _ in 0..rounds {
        for (manager, replicas) in [("autoscaler", 5), ("operator", 3)] {
            let parameters = PatchParams {
                field_manager: Some(manager.to_owned()),
                ..PatchParams::default()
            };
            let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
            deployments.patch("web", &parameters, &patch).await.unwrap();
        }
    }
}

async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.server.create(deployment("shop", "web"));
    cluster
}

async fn ready(program: &mut Program) {
    program.says("observing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_that_overwrite_each_other_are_named_with_object_and_field() {
    let cluster = cluster().await;
    let mut program = cluster.start(&[
        "trouble",
        "deploy",
        "-o",
        "json",
        "--for",
        "3s",
        "--max-churn",
        "1",
    ]);
    ready(&mut program).await;
    fight(&cluster, 5).await;

    let found = program.event().await;
    assert_eq!(found["type"], "fight", "{found}");
    assert_eq!(found["kind"], "Deployment");
    assert_eq!(found["namespace"], "shop");
    assert_eq!(found["name"], "web");
    assert_eq!(found["field"], "spec.replicas");
    assert_eq!(found["managers"], json!(["autoscaler", "operator"]));

    let ended = program.end().await;
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["findings"], 1);
    let writers: Vec<&str> = summary["managers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|writer| writer["manager"].as_str())
        .collect();
    assert!(
        writers.contains(&"autoscaler") && writers.contains(&"operator"),
        "{summary}"
    );
    assert_eq!(summary["watches"][0]["state"], "live");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_trouble_the_exit_code_is_zero() {
    let cluster = cluster().await;
    let mut program = cluster.start(&["trouble", "deploy", "--for", "2s"]);
    ready(&mut program).await;
    fight(&cluster, 1).await;
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("no trouble found"), "{}", ended.out);
    assert!(ended.out.contains("autoscaler"), "who writes: {}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_decide_what_is_trouble() {
    let cluster = cluster().await;
    let mut program = cluster.start(&["trouble", "deploy", "--changes", "2", "--window", "10s"]);
    ready(&mut program).await;
    fight(&cluster, 2).await;
    let line = program.line_with("shop/web").await;
    assert!(line.contains("spec.replicas"), "{line}");
    program.signal("INT").await;
    assert_eq!(program.end().await.code, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_contact_is_stale() {
    let cluster = cluster().await;
    let mut program = cluster.start(&["trouble", "deploy", "-o", "json", "--stale", "1s"]);
    ready(&mut program).await;
    cluster.server.shutdown().await;
    let found = program.event().await;
    assert_eq!(found["type"], "stale", "{found}");
    assert_eq!(found["kind"], "Deployment");
    assert!(found["ageSeconds"].as_u64().unwrap() >= 1, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_loops_and_fights() {
    let cluster = cluster().await;
    let (_program, address) = synced(&cluster, &["deploy"]).await;
    fight(&cluster, 5).await;
    let counted = "kubectl_informers_findings_total{group=\"apps\",version=\"v1\",resource=\"deployments\",type=\"fight\"} 1";
    within("the fight", async {
        while !get(address, "/metrics").await.body.contains(counted) {}
    })
    .await;
}
