//! `trouble`: loops, fights, churn and stale watches.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube_testserver::builders::{deployment, node};
use kube_testserver::{Controllers, TestServer};
use serde_json::{Value, json};

use crate::http::get;
use crate::program::{Cluster, Program, within};
use crate::serve::synced;

/// Two controllers that do not agree about a field.
pub async fn fight(cluster: &Cluster, rounds: usize) {
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
        "8s",
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
    let mut program = cluster.start(&["trouble", "deploy", "--for", "8s"]);
    ready(&mut program).await;
    fight(&cluster, 1).await;
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("no trouble found"), "{}", ended.out);
    assert!(ended.out.contains("autoscaler"), "who writes: {}", ended.out);
}

/// The status of a Deployment changes with every pod of a rollout.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_no_trouble() {
    let cluster = Cluster::with(TestServer::builder().controllers(Controllers::all())).await;
    cluster.server.create(node("node-1"));
    let mut web = deployment("shop", "web");
    web.spec.replicas = Some(8);
    cluster.server.create(web);
    let deployments: Api<Deployment> = Api::namespaced(cluster.server.client(), "shop");
    updated(&deployments, 8).await;

    let mut program = cluster.start(&["trouble", "deploy,rs", "-o", "json"]);
    ready(&mut program).await;
    let patch =
        Patch::Merge(json!({ "spec": { "template": { "metadata": { "labels": { "version": "2" } } } } }));
    deployments
        .patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    updated(&deployments, 8).await;
    program.signal("INT").await;
    let ended = program.end().await;
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    let changes = summary["managers"].as_array().unwrap().iter();
    let most = changes.filter_map(|writer| writer["changes"].as_u64()).max();
    assert!(most >= Some(6), "enough for a loop: {summary}");
    assert_eq!(summary["findings"], 0, "{}", ended.out);
}

/// Waits until the rollout of the current generation is complete.
async fn updated(deployments: &Api<Deployment>, replicas: i32) {
    within("the rollout", async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            let web = deployments.get("web").await.unwrap();
            let status = web.status.unwrap_or_default();
            if status.observed_generation >= web.metadata.generation
                && (status.updated_replicas, status.replicas) == (Some(replicas), Some(replicas))
                && status.available_replicas == Some(replicas)
            {
                break;
            }
            look.tick().await;
        }
    })
    .await;
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
    let counted = "kubectl_informers_findings_total{name=\"deployments.apps\",group=\"apps\",version=\"v1\",\
                   resource=\"deployments\",type=\"fight\"} 1.0";
    within("the fight", async {
        while !get(address, "/metrics").await.body.contains(counted) {}
    })
    .await;
}

/// A controller that writes the same two values again and again.
async fn rewrite(cluster: &Cluster, rounds: usize) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.server.client(), "shop");
    let parameters = PatchParams {
        field_manager: Some("operator".to_owned()),
        ..PatchParams::default()
    };
    for replicas in [5, 3].into_iter().cycle().take(rounds) {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        deployments.patch("web", &parameters, &patch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_one_manager_rewrites_is_a_loop() {
    let cluster = cluster().await;
    let mut program = cluster.start(&["trouble", "deploy", "-o", "json", "--for", "8s"]);
    ready(&mut program).await;
    rewrite(&cluster, 10).await;

    let found = program.event().await;

    assert_eq!(found["type"], "loop", "{found}");
    assert_eq!(
        (&found["namespace"], &found["name"], &found["field"]),
        (&json!("shop"), &json!("web"), &json!("spec.replicas"))
    );
    assert_eq!(found["managers"], json!(["operator"]));
    assert_eq!(program.end().await.code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_writes_more_than_allowed_is_churn() {
    let cluster = cluster().await;
    let limits = ["--max-churn", "3", "--changes", "1000"];
    let mut program = cluster.start(&[&["trouble", "deploy", "-o", "json"][..], &limits].concat());
    ready(&mut program).await;
    rewrite(&cluster, 40).await;

    let found = program.event().await;

    assert_eq!(found["type"], "churn", "{found}");
    assert_eq!(found["managers"], json!(["operator"]));
    assert_eq!(found["kind"], "Deployment");
    assert!(found["perMinute"].as_f64() > Some(3.0), "{found}");
}
