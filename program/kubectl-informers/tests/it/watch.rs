//! `watch`: every change, in text and as JSON lines.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::{Build, deployment, node, pod};
use serde_json::json;

use crate::program::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn json_lines_contain_additions_updates_and_deletions_with_diffs() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    let mut program = cluster.start(&["watch", "pods", "-n", "shop", "-o", "json"]);

    let initial = program.event().await;
    assert_eq!(initial["event"], "added");
    assert_eq!(initial["initial"], true);
    assert_eq!(
        (
            &initial["kind"],
            &initial["apiVersion"],
            &initial["namespace"],
            &initial["name"]
        ),
        (&json!("Pod"), &json!("v1"), &json!("shop"), &json!("cart"))
    );
    let synced = program.event().await;
    assert_eq!(synced["event"], "synced");
    assert_eq!(synced["objects"], 1);

    cluster.server.modify("shop", "cart", |pod: &mut Pod| {
        pod.metadata
            .labels
            .get_or_insert_default()
            .insert("a/b".to_owned(), "c".to_owned());
    });
    let updated = program.event().await;
    assert_eq!(updated["event"], "updated");
    assert_eq!(updated["oldResourceVersion"], initial["resourceVersion"]);
    assert_ne!(updated["resourceVersion"], initial["resourceVersion"]);
    assert_eq!(updated["uid"], initial["uid"]);
    assert_eq!(
        updated["diff"],
        json!([{ "path": "/metadata/labels", "field": "metadata.labels", "old": null, "new": { "a/b": "c" } }])
    );

    cluster.server.delete::<Pod>("shop", "cart");
    let deleted = program.event().await;
    assert_eq!(
        (&deleted["event"], &deleted["cause"]),
        (&json!("deleted"), &json!("observed"))
    );
    assert_eq!(deleted["uid"], initial["uid"]);

    cluster.server.create(pod("shop", "cart"));
    let again = program.event().await;
    assert_eq!(
        (&again["event"], &again["initial"]),
        (&json!("added"), &json!(false))
    );
    assert_ne!(again["uid"], initial["uid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_and_noise_are_included_on_request() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    let mut program = cluster.start(&["watch", "po", "-o", "json", "--with-object", "--show-noise"]);

    let initial = program.event().await;
    assert_eq!(initial["object"]["metadata"]["name"], "cart");
    assert_eq!(initial["object"]["kind"], "Pod");
    program.event_of("synced").await;

    cluster.server.modify("default", "cart", |pod: &mut Pod| {
        pod.metadata
            .annotations
            .get_or_insert_default()
            .insert("x".to_owned(), "1".to_owned());
    });
    let updated = program.event_of("updated").await;
    let paths: Vec<&str> = updated["diff"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|change| change["path"].as_str())
        .collect();
    assert!(paths.contains(&"/metadata/resourceVersion"), "{paths:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn since_sync_omits_initial_objects() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "old"));
    let mut program = cluster.start(&["watch", "pods", "-o", "json", "--since-sync"]);

    assert_eq!(program.event().await["event"], "synced");
    cluster.server.create(pod("default", "new"));

    let added = program.event().await;
    assert_eq!(
        (&added["name"], &added["initial"]),
        (&json!("new"), &json!(false))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_and_namespaces_select_objects() {
    let cluster = Cluster::new().await;
    for (namespace, name, app) in [
        ("shop", "a", "web"),
        ("shop", "b", "db"),
        ("other", "c", "web"),
        ("third", "d", "web"),
    ] {
        cluster.server.create(pod(namespace, name).label("app", app));
    }
    cluster.server.create(pod("default", "e").label("app", "web"));
    let cases: [(&[&str], &[&str]); 7] = [
        (&["-n", "shop"], &["a", "b"]),
        (&["-n", "shop,other"], &["a", "b", "c"]),
        (&["-A", "-l", "app=web"], &["a", "c", "d", "e"]),
        (&["-A", "-l", "app in (db), app"], &["b"]),
        (&["-A", "--field-selector", "metadata.name=c"], &["c"]),
        (&[], &["e"]),
        (&["-A", "-n", "shop"], &["a", "b", "c", "d", "e"]),
    ];
    for (options, names) in cases {
        let mut arguments = vec!["watch", "pods", "-o", "json"];
        arguments.extend_from_slice(options);
        let mut program = cluster.start(&arguments);

        let mut seen = Vec::new();
        loop {
            let event = program.event().await;
            if event["event"] == "synced" {
                break;
            }
            seen.push(event["name"].as_str().unwrap().to_owned());
        }
        seen.sort();

        assert_eq!(seen, names, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_no_longer_selected_is_printed_as_deleted() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart").label("app", "web"));
    let mut program = cluster.start(&["watch", "pods", "-l", "app=web", "-o", "json"]);
    program.event_of("synced").await;

    cluster.server.modify("default", "cart", |pod: &mut Pod| {
        pod.metadata
            .labels
            .get_or_insert_default()
            .insert("app".to_owned(), "db".to_owned());
    });

    assert_eq!(program.event().await["event"], "deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_is_selected_by_name() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    cluster.server.create(pod("default", "catalogue"));
    for arguments in [
        &["watch", "pods", "cart", "-o", "json"][..],
        &["watch", "po/cart", "-o", "json"],
    ] {
        let mut program = cluster.start(arguments);
        assert_eq!(program.event().await["name"], "cart");
        assert_eq!(program.event().await["objects"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_followed_by_changes_with_their_fields() {
    let cluster = Cluster::new().await;
    cluster.server.create(deployment("shop", "cart"));
    cluster.server.create(node("node-1"));
    let mut program = cluster.start(&["watch", "deploy,nodes", "-A", "-o", "wide"]);

    // The tables come in the order in which the lists arrive.
    program.line_with("node-1").await;
    program.says("1 deployments.apps").await;
    program.says("1 nodes").await;
    cluster
        .server
        .modify("shop", "cart", |deployment: &mut Deployment| {
            deployment.spec.replicas = Some(7);
        });
    let change = program.line_with("UPDATED").await;
    assert!(change.contains("UPDATED deployment.apps shop/cart"), "{change}");
    program.line_with("~ spec.replicas").await;

    let everything = program.everything();
    assert!(everything.contains("NAMESPACE   NAME   READY"), "{everything}");
    assert!(everything.contains("CONTAINERS"), "{everything}");
    assert!(everything.contains("→ 7"), "{everything}");
    assert!(
        !everything.contains('\u{1b}'),
        "no colours in a pipe: {everything}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_used_on_request() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    let mut program = cluster.start(&["watch", "pods", "--color", "always"]);
    program.says("1 pods").await;

    cluster.server.delete::<Pod>("default", "cart");

    let line = program.line_with("DELETED").await;
    assert!(line.contains("\u{1b}[31m"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_shows_progress() {
    use std::time::Duration;

    use kube_testserver::{Fault, RequestMatcher};
    let cluster = Cluster::new().await;
    for number in 0..300 {
        cluster.server.create(pod("default", &format!("pod-{number}")));
    }
    cluster.server.fault(
        RequestMatcher::watch_list("pods").forever(),
        Fault::refuse_watch_list(),
    );
    cluster.server.fault(
        RequestMatcher::list("pods"),
        Fault::trickle(4096, Duration::from_millis(100)),
    );
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);

    program.says("listing pods: ").await;
    program.says(" so far").await;
    assert_eq!(program.event_of("synced").await["objects"], 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_printed_with_reason_and_message() {
    let cluster = Cluster::new().await;
    let mut program = cluster.start(&["watch", "events"]);
    program.says("0 events").await;
    cluster.server.create(serde_json::json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "cart.1", "namespace": "default" },
        "involvedObject": { "kind": "Pod", "name": "cart", "namespace": "default" },
        "reason": "BackOff", "message": "Back-off restarting\nfailed container", "type": "Warning",
    }));
    let line = program.line_with("ADDED").await;
    assert!(
        line.contains("default/cart.1 BackOff: Back-off restarting⏎failed container"),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_form_one_history_without_gaps_under_churn() {
    use std::collections::HashMap;

    use kube_testserver::churn::Churn;
    use kube_testserver::{Controllers, TestServer};
    let cluster = Cluster::with(TestServer::builder().controllers(Controllers::all())).await;
    let mut churn = Churn::new(cluster.server.clone(), 3);
    churn.fill(&"pods=150,nodes=5".parse().unwrap()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(churn.run(400.0));
    let mut program = cluster.start(&["watch", "pods", "-A", "-o", "json"]);

    let mut synced = false;
    let mut known: HashMap<String, String> = HashMap::new();
    let (mut updates, mut deletions) = (0, 0);
    while updates < 300 || deletions < 10 {
        // Now and then the connection breaks.
        if updates % 100 == 50 {
            cluster.server.break_watches();
        }
        let event = program.event().await;
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap() {
            "synced" => {
                assert!(!synced);
                assert_eq!(event["objects"], known.len());
                synced = true;
            }
            "added" => {
                assert_eq!(event["initial"], !synced, "{event}");
                assert_eq!(
                    known.insert(text("uid"), text("resourceVersion")),
                    None,
                    "{event}"
                );
            }
            "updated" => {
                assert!(synced);
                let before = known.insert(text("uid"), text("resourceVersion"));
                assert_eq!(before, Some(text("oldResourceVersion")), "{event}");
                assert_ne!(event["diff"], json!([]), "{event}");
                updates += 1;
            }
            "deleted" => {
                assert!(synced);
                assert!(known.remove(&text("uid")).is_some(), "{event}");
                deletions += 1;
            }
            other => panic!("{other}"),
        }
    }
    let agents: Vec<Option<String>> = cluster
        .server
        .requests()
        .into_iter()
        .map(|seen| seen.user_agent)
        .collect();
    let agent = concat!("kubectl-informers/", env!("CARGO_PKG_VERSION"));
    assert!(
        agents.iter().all(|seen| seen.as_deref() == Some(agent)),
        "{agents:?}"
    );
}

pub fn set_status(cluster: &Cluster, phase: &str, ready: &str) {
    cluster.server.modify("shop", "cart", |pod: &mut Pod| {
        let status: k8s_openapi::api::core::v1::PodStatus = serde_json::from_value(json!({
            "phase": phase,
            "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-02T03:04:05Z" }],
        }))
        .unwrap();
        pod.status = Some(status);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn brief_prints_one_line_per_change_with_the_columns_that_changed() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    set_status(&cluster, "Pending", "False");
    let mut program = cluster.start(&["watch", "pods", "-A", "-o", "brief"]);
    program.says("watching for changes").await;
    set_status(&cluster, "Running", "True");
    let line = program.line().await;
    assert!(line.contains(" pod shop/cart  Pending → Running  by "), "{line}");
    cluster.server.modify("shop", "cart", |pod: &mut Pod| {
        pod.metadata
            .labels
            .get_or_insert_default()
            .insert("app".to_owned(), "cart".to_owned());
    });
    let line = program.line().await;
    assert!(line.contains(" pod shop/cart  metadata.labels ∅ → "), "{line}");
    cluster.server.create(pod("shop", "new"));
    let line = program.line().await;
    assert!(line.contains(" pod shop/new  added  0/1  "), "{line}");
    cluster.server.delete::<Pod>("shop", "cart");
    let line = program.line().await;
    assert!(line.contains(" pod shop/cart  deleted  0/1  Running"), "{line}");
    assert!(line.ends_with("by unknown: deletions are not recorded"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_selected_by_field_and_name() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    set_status(&cluster, "Pending", "False");
    let options: [&[&str]; 3] = [
        &["--only", "status.conditions[Ready]"],
        &["--ignore", "status.phase", "--ignore", "metadata"],
        &["--name", "^c.rt$", "--only", "status.conditions"],
    ];
    let mut programs = Vec::new();
    for options in options {
        let mut arguments = vec!["watch", "pods", "-A", "-o", "json"];
        arguments.extend_from_slice(options);
        let mut program = cluster.start(&arguments);
        program.event_of("synced").await;
        programs.push(program);
    }
    cluster.server.create(pod("shop", "crate"));
    set_status(&cluster, "Running", "True");
    for (program, options) in programs.iter_mut().zip(options) {
        let updated = program.event_of("updated").await;
        let fields: Vec<&str> = updated["diff"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["field"].as_str().unwrap())
            .collect();
        assert_eq!(fields, ["status.conditions[Ready].status"], "{options:?}");
    }
    let ended = cluster.run(&["watch", "pods", "--only", "status["]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .contains("\"status[\" is not a path: a bracket is not closed"),
        "{}",
        ended.err
    );
    let ended = cluster.run(&["watch", "pods", "--name", "("]).await;
    assert!(
        ended.err.contains("--name is not a regular expression"),
        "{}",
        ended.err
    );
}
