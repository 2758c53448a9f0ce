//! The scheduler, the kubelets and their rules.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube_testserver::builders::{Build, node, pod};
use kube_testserver::{Controllers, PodRule, TestServer};
use serde_json::{Value, json};

use super::{cluster, condition, delete, idle, names, object, patch, post, status, workload};

fn container(server: &TestServer, pod: &str) -> Value {
    status(server, "pods", pod)["containerStatuses"][0].clone()
}

#[tokio::test(start_paused = true)]
async fn pod_waits_until_a_node_fits() {
    let server = cluster(&[]);
    server.create(pod("shop", "a"));
    idle(&server).await;
    let waiting = object(&server, "pods", "a");
    assert_eq!(condition(&waiting, "PodScheduled"), "False Unschedulable");
    assert_eq!(waiting["status"]["phase"], "Pending");

    server.create(node("n1"));
    patch(
        &server,
        "nodes",
        "n1",
        &json!({ "spec": { "unschedulable": true } }),
    )
    .await;
    idle(&server).await;
    let waiting = object(&server, "pods", "a");
    let message = waiting["status"]["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(message, "0/1 nodes are available: 1 node(s) were unschedulable.");

    patch(
        &server,
        "nodes",
        "n1",
        &json!({ "spec": { "unschedulable": false } }),
    )
    .await;
    idle(&server).await;
    let running = object(&server, "pods", "a");
    assert_eq!(running["spec"]["nodeName"], "n1");
    assert_eq!(condition(&running, "PodScheduled"), "True ");
    assert_eq!(running["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn pod_starts_and_becomes_ready_at_the_times_of_its_rule() {
    let server = cluster(&["n1"]);
    let rule = PodRule::matching("app=slow").unwrap();
    server.pod_rule(
        rule.start_after(Duration::from_secs(10))
            .ready_after(Duration::from_millis(2500)),
    );
    server.create(pod("shop", "a").label("app", "slow"));
    server.create(pod("shop", "b"));
    idle(&server).await;
    assert_eq!(status(&server, "pods", "b")["phase"], "Running");
    assert_eq!(
        container(&server, "a")["state"]["waiting"]["reason"],
        "ContainerCreating"
    );

    let start = tokio::time::Instant::now();
    server
        .wait_for("it runs", |server| {
            status(server, "pods", "a")["phase"] == "Running"
        })
        .await;
    assert!(
        (9_900..10_200).contains(&start.elapsed().as_millis()),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(
        condition(&object(&server, "pods", "a"), "Ready"),
        "False ContainersNotReady"
    );
    server
        .wait_for("it is ready", |server| {
            condition(&object(server, "pods", "a"), "Ready") == "True "
        })
        .await;
    assert!(
        (12_400..12_800).contains(&start.elapsed().as_millis()),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn crashing_container_is_restarted_with_growing_pauses() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().crash_loop());
    server.create(pod("shop", "a"));
    let start = tokio::time::Instant::now();
    let mut times = Vec::new();
    for restarts in 1..=4 {
        server
            .wait_for_within(Duration::from_secs(100), "a restart", |server| {
                container(server, "a")["restartCount"] == restarts
            })
            .await;
        times.push(start.elapsed().as_secs());
    }

    // The first restart is immediate, then 10, 20 and 40 seconds pass.
    assert_eq!(times, [0, 10, 30, 70]);
    idle(&server).await;
    let crashed = container(&server, "a");
    assert_eq!(crashed["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(crashed["lastState"]["terminated"]["exitCode"], 1);

    server.pod_rule(PodRule::all());
    server
        .wait_for_within(Duration::from_secs(100), "it recovers", |server| {
            condition(&object(server, "pods", "a"), "Ready") == "True "
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn restart_policy_decides_how_a_pod_ends() {
    let server = cluster(&["n1"]);
    let with_policy = |name: &str, policy: &str| {
        let mut pod = pod("shop", name);
        pod.spec.get_or_insert_default().restart_policy = Some(policy.to_owned());
        pod
    };
    server.pod_rule(
        PodRule::all()
            .named("failing")
            .exit_after(Duration::from_secs(2), 3),
    );
    server.create(with_policy("failing", "Never"));
    server.create(with_policy("done", "OnFailure"));
    server
        .wait_for("both have ended", |server| {
            status(server, "pods", "failing")["phase"] == "Failed"
                && status(server, "pods", "done")["phase"] == "Succeeded"
        })
        .await;

    assert_eq!(
        container(&server, "failing")["state"]["terminated"]["exitCode"],
        3
    );
    assert_eq!(
        condition(&object(&server, "pods", "done"), "Ready"),
        "False PodCompleted"
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_pod_ends_after_its_rule_or_its_grace_period() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().end_after(Duration::from_secs(5)));
    server.pod_rule(PodRule::all().named("b").end_after(Duration::from_secs(3600)));
    for name in ["a", "b"] {
        server.create(pod("shop", name));
    }
    idle(&server).await;
    let start = tokio::time::Instant::now();
    delete(&server, "pods", "a").await;
    delete(&server, "pods", "b").await;
    assert!(object(&server, "pods", "a")["metadata"]["deletionTimestamp"].is_string());

    server
        .wait_for("a is gone", |server| names(server, "pods") == ["b"])
        .await;
    assert_eq!(start.elapsed().as_secs(), 5);
    server
        .wait_for_within(Duration::from_secs(60), "b is gone", |server| {
            server.count("pods") == 0
        })
        .await;
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn cordoned_node_gets_no_pods_when_its_own_are_deleted() {
    let server = cluster(&["n1", "n2"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(4)),
    )
    .await;
    idle(&server).await;
    patch(
        &server,
        "nodes",
        "n1",
        &json!({ "spec": { "unschedulable": true } }),
    )
    .await;
    let drained: Vec<String> = server
        .objects("pods")
        .iter()
        .filter(|pod| pod["spec"]["nodeName"] == "n1")
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(drained.len(), 2);

    for name in &drained {
        delete(&server, "pods", name).await;
    }
    idle(&server).await;
    let pods = server.objects("pods");
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "n2"));
}

#[tokio::test(start_paused = true)]
async fn namespace_with_a_whole_application_is_deleted() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(2)),
    )
    .await;
    post(
        &server,
        "statefulsets.apps",
        &workload("StatefulSet", "db", Some(2)),
    )
    .await;
    idle(&server).await;
    assert_eq!(server.count("pods"), 4);

    server.delete::<Namespace>(None, "shop");
    idle(&server).await;
    assert_eq!(
        (server.count("pods"), names(&server, "deployments.apps").len()),
        (0, 0)
    );
    assert_eq!(server.object("namespaces", "shop"), None);
}

#[tokio::test(start_paused = true)]
async fn events_describe_what_happened_and_expire() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(1)),
    )
    .await;
    idle(&server).await;
    let mut reasons: Vec<String> = server
        .objects("events")
        .iter()
        .map(|event| event["reason"].as_str().unwrap().to_owned())
        .collect();
    reasons.sort();
    assert_eq!(
        reasons,
        ["ScalingReplicaSet", "Scheduled", "Started", "SuccessfulCreate"]
    );

    tokio::time::sleep(Duration::from_secs(3700)).await;
    assert_eq!(server.count("events"), 0);
}

#[tokio::test(start_paused = true)]
async fn restored_server_continues_the_rollout_of_its_snapshot() {
    let before = cluster(&["n1"]);
    post(
        &before,
        "deployments.apps",
        &workload("Deployment", "web", Some(3)),
    )
    .await;
    assert_eq!(before.count("pods"), 0, "the controllers have not acted yet");

    let server = TestServer::builder()
        .conformant()
        .controllers(Controllers::all())
        .restore(before.snapshot())
        .build();
    // The first request starts them.
    crate::common::send(&server, http::Method::GET, "/api/v1/namespaces", &Value::Null).await;
    idle(&server).await;

    assert_eq!(status(&server, "deployments.apps", "web")["availableReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn dropped_server_leaves_no_task_behind_while_timers_wait() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().ready_after(Duration::from_secs(3600)));
    server.create(pod("shop", "a"));
    idle(&server).await;
    assert!(server.get::<Pod>("shop", "a").is_some());

    drop(server);
    tokio::task::yield_now().await;

    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 0);
}
