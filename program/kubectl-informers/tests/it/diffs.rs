//! Diffs that show the change: names instead of numbers, the changed part of long texts, what matters first, no noise.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::{Build, deployment, node, pod};
use serde_json::json;

use crate::program::Cluster;
use crate::watch::set_status;

#[tokio::test(flavor = "multi_thread")]
async fn list_elements_are_named_and_the_pointer_stays_in_json() {
    let cluster = Cluster::new().await;
    cluster
        .server
        .create(pod("shop", "cart").annotation("example.com/a", "1"));
    set_status(&cluster, "Pending", "False");
    let mut text = cluster.start(&["watch", "pods", "-A"]);
    let mut json_lines = cluster.start(&["watch", "pods", "-A", "-o", "json"]);
    text.says("watching for changes").await;
    json_lines.event_of("synced").await;

    set_status(&cluster, "Running", "True");
    text.line_with("~ status.conditions[Ready].status  False → True")
        .await;
    text.line_with("~ status.phase  Pending → Running").await;
    let updated = json_lines.event_of("updated").await;
    let fields: Vec<(&str, &str)> = updated["diff"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            (
                change["path"].as_str().unwrap(),
                change["field"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        fields,
        [
            ("/status/conditions/0/status", "status.conditions[Ready].status"),
            ("/status/phase", "status.phase"),
        ]
    );
    cluster.server.modify("shop", "cart", |pod: &mut Pod| {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert("example.com/a".to_owned(), "2".to_owned());
    });
    text.line_with("~ metadata.annotations[\"example.com/a\"]  1 → 2")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_users_set_comes_first_and_times_come_last() {
    let cluster = Cluster::new().await;
    cluster.server.create(deployment("shop", "web"));
    let change = |round: i32| {
        cluster.server.modify("shop", "web", |web: &mut Deployment| {
            let number = round.to_string();
            web.metadata
                .labels
                .get_or_insert_default()
                .insert("round".to_owned(), number.clone());
            web.spec.replicas = Some(round);
            let status = json!({ "replicas": round, "conditions": [{
                "type": "Available", "status": if round == 1 { "False" } else { "True" },
                "lastTransitionTime": format!("2026-01-02T03:04:0{round}Z"),
            }] });
            web.status = serde_json::from_value(status).unwrap();
        });
    };
    change(1);
    let mut text = cluster.start(&["watch", "deploy", "-A"]);
    let mut json_lines = cluster.start(&["watch", "deploy", "-A", "-o", "json"]);
    text.says("watching for changes").await;
    json_lines.event_of("synced").await;

    change(2);

    let expected = [
        "spec.replicas",
        "metadata.labels.round",
        "status.conditions[Available].status",
        "status.replicas",
        "status.conditions[Available].lastTransitionTime",
    ];
    let updated = json_lines.event_of("updated").await;
    let fields: Vec<&str> = updated["diff"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|change| change["field"].as_str())
        // The server counts changes of the specification.
        .filter(|field| *field != "metadata.generation")
        .collect();
    assert_eq!(fields, expected);
    for field in expected {
        text.line_with(&format!("~ {field}  ")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_line_of_a_long_text_is_shown_and_not_the_text() {
    let cluster = Cluster::new().await;
    let text = |port: u32| -> String {
        let lines: Vec<String> = (1..200).map(|line| format!("setting-{line} = {line}")).collect();
        lines
            .join("\n")
            .replace("setting-77 = 77", &format!("listen = {port}"))
    };
    cluster.server.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web", "namespace": "default" },
        "data": { "nginx.conf": text(80) },
    }));
    let mut program = cluster.start(&["watch", "cm"]);
    program.says("watching for changes").await;
    cluster.server.modify(
        "default",
        "web",
        |map: &mut k8s_openapi::api::core::v1::ConfigMap| {
            map.data
                .get_or_insert_default()
                .insert("nginx.conf".to_owned(), text(8080));
        },
    );
    program.line_with("~ data[\"nginx.conf\"]").await;
    assert_eq!(program.line().await.trim(), "line 76");
    assert_eq!(program.line().await.trim(), "setting-76 = 76");
    assert_eq!(program.line().await.trim(), "- listen = 80");
    assert_eq!(program.line().await.trim(), "+ listen = 8080");
    assert_eq!(program.line().await.trim(), "setting-78 = 78");

    // A long line: only the part around the change.
    let line = |word: &str| format!("{}{word}{}", "a".repeat(3000), "z".repeat(3000));
    let set = |word: &str| {
        cluster.server.modify(
            "default",
            "web",
            |map: &mut k8s_openapi::api::core::v1::ConfigMap| {
                map.data
                    .get_or_insert_default()
                    .insert("long".to_owned(), line(word));
            },
        );
    };
    set("old");
    program.line_with("data.long").await;
    set("new");
    let shown = program.line_with("~ data.long").await;
    assert!(shown.contains("old") && shown.contains("new"), "{shown}");
    assert!(shown.chars().count() < 400, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_is_left_out_and_can_be_extended_in_the_configuration_file() {
    let cluster = Cluster::new().await;
    cluster.server.create(node("node-1"));
    cluster.home().write(
        ".config/kubectl-informers/config.yaml",
        "noise:\n  nodes: [metadata.labels.beat]\n",
    );
    let mut program = cluster.start(&["watch", "nodes"]);
    let mut noisy = cluster.start(&["watch", "nodes", "--show-noise"]);
    program.says("watching for changes").await;
    noisy.says("watching for changes").await;
    for (label, value) in [("beat", "1"), ("beat", "2"), ("zone", "a")] {
        cluster
            .server
            .modify(None, "node-1", |node: &mut k8s_openapi::api::core::v1::Node| {
                node.metadata
                    .labels
                    .get_or_insert_with(|| [("beat".to_owned(), String::new())].into())
                    .insert(label.to_owned(), value.to_owned());
            });
    }
    noisy.line_with("metadata.labels.beat  1 → 2").await;
    // The heartbeat is noise without any configuration.
    let heartbeat = |time: &str| {
        cluster
            .server
            .modify(None, "node-1", |node: &mut k8s_openapi::api::core::v1::Node| {
                let status = json!({ "conditions": [
                    { "type": "Ready", "status": "True", "lastHeartbeatTime": time },
                ] });
                node.status = serde_json::from_value(status).unwrap();
            });
    };
    heartbeat("2026-01-02T03:04:05Z");
    heartbeat("2026-01-02T03:04:15Z");
    noisy
        .line_with(
            "~ status.conditions[Ready].lastHeartbeatTime  2026-01-02T03:04:05Z → 2026-01-02T03:04:15Z",
        )
        .await;
    cluster
        .server
        .modify(None, "node-1", |node: &mut k8s_openapi::api::core::v1::Node| {
            node.spec.get_or_insert_default().unschedulable = Some(true);
        });
    program.line_with("+ metadata.labels.zone  a").await;
    program.line_with("unschedulable").await;
    assert!(
        !program.everything().contains("lastHeartbeatTime  "),
        "{}",
        program.everything()
    );
    assert!(
        !program.everything().contains("labels.beat  "),
        "{}",
        program.everything()
    );

    let path = cluster.home().write("broken.yaml", "nois: {}\n");
    let ended = cluster
        .run(&["watch", "nodes", "--config", path.to_str().unwrap()])
        .await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("broken.yaml is not valid"), "{}", ended.err);
}
