//! Deployments and replica sets.

use std::cell::Cell;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_testserver::PodRule;
use kube_testserver::builders::{Build, deployment, node, pod};
use kube_testserver::{Controllers, TestServer};
use serde_json::{Value, json};

use super::{cluster, condition, delete, idle, image, images, names, object, patch, post, status, workload};

const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

fn available(server: &TestServer, wanted: i64) -> bool {
    let status = status(server, "deployments.apps", "web");
    status["availableReplicas"] == wanted
        && status["updatedReplicas"] == wanted
        && status["replicas"] == wanted
}

#[tokio::test(start_paused = true)]
async fn deployment_gets_a_replica_set_and_ready_pods() {
    let server = cluster(&["n1", "n2"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(3)),
    )
    .await;
    idle(&server).await;

    let web = object(&server, "deployments.apps", "web");
    assert_eq!(web.pointer(REVISION), Some(&json!("1")));
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
    assert!(available(&server, 3), "{}", web["status"]);
    assert_eq!(condition(&web, "Available"), "True MinimumReplicasAvailable");
    assert_eq!(condition(&web, "Progressing"), "True NewReplicaSetAvailable");
    let sets = server.objects("replicasets.apps");
    assert_eq!(sets.len(), 1);
    let hash = &sets[0]["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(
        sets[0]["metadata"]["name"],
        format!("web-{}", hash.as_str().unwrap())
    );
    assert_eq!(
        sets[0]["spec"]["selector"]["matchLabels"]["pod-template-hash"],
        *hash
    );
    assert_eq!(sets[0]["status"]["fullyLabeledReplicas"], 3);
    let pods = server.objects("pods");
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], *hash);
        assert!(
            pod["status"]["podIP"]
                .as_str()
                .is_some_and(|ip| ip.starts_with("10."))
        );
        assert_eq!(
            pod["spec"]["terminationGracePeriodSeconds"], 30,
            "pods get defaults"
        );
    }
    let on = |name: &str| pods.iter().filter(|pod| pod["spec"]["nodeName"] == name).count();
    assert_eq!(on("n1") + on("n2"), 3);
    assert!(on("n1") > 0 && on("n2") > 0, "nodes take turns");
}

/// Upstream: TestReconcileNewReplicaSet, TestReconcileOldReplicaSets
#[tokio::test(start_paused = true)]
async fn rolling_update_stays_within_surge_and_unavailable_pods() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().ready_after(Duration::from_secs(5)));
    let mut web = workload("Deployment", "web", Some(10));
    web["spec"]["strategy"] = json!({ "rollingUpdate": { "maxSurge": 3, "maxUnavailable": 2 } });
    post(&server, "deployments.apps", &web).await;
    server
        .wait_for("first rollout", |server| available(server, 10))
        .await;

    patch(&server, "deployments.apps", "web", &image("main:2")).await;
    let (most, fewest, steps) = (Cell::new(0), Cell::new(usize::MAX), Cell::new(0));
    server
        .wait_for_within(Duration::from_secs(600), "second rollout", |server| {
            let pods = server.objects("pods");
            let alive = pods
                .iter()
                .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            let ready = |pod: &&Value| condition(pod, "Ready").starts_with("True");
            most.set(most.get().max(alive.clone().count()));
            fewest.set(fewest.get().min(alive.filter(ready).count()));
            steps.set(steps.get() + 1);
            available(server, 10) && images(server) == vec!["main:2"; 10]
        })
        .await;

    assert_eq!((most.get(), fewest.get()), (13, 8), "in {} steps", steps.get());
    let web = object(&server, "deployments.apps", "web");
    assert_eq!(web.pointer(REVISION), Some(&json!("2")));
    let sizes: Vec<i64> = server
        .objects("replicasets.apps")
        .iter()
        .map(|set| set["spec"]["replicas"].as_i64().unwrap())
        .collect();
    assert!(sizes == [0, 10] || sizes == [10, 0], "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn template_of_an_earlier_revision_reuses_its_replica_set() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(2)),
    )
    .await;
    idle(&server).await;
    let first = names(&server, "replicasets.apps");
    patch(&server, "deployments.apps", "web", &image("main:2")).await;
    idle(&server).await;
    assert_eq!(images(&server), ["main:2", "main:2"]);

    patch(&server, "deployments.apps", "web", &image("main:1")).await;
    idle(&server).await;

    assert_eq!(images(&server), ["main:1", "main:1"]);
    assert_eq!(server.count("replicasets.apps"), 2);
    let set = object(&server, "replicasets.apps", &first[0]);
    assert_eq!(set.pointer(REVISION), Some(&json!("3")));
    let history = "/metadata/annotations/deployment.kubernetes.io~1revision-history";
    assert_eq!(set.pointer(history), Some(&json!("1")));
    let web = object(&server, "deployments.apps", "web");
    assert_eq!(web.pointer(REVISION), Some(&json!("3")));
}

#[tokio::test(start_paused = true)]
async fn rollout_without_progress_fails_at_its_deadline_and_recovers() {
    let server = cluster(&["n1"]);
    let mut web = workload("Deployment", "web", Some(2));
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    post(&server, "deployments.apps", &web).await;
    idle(&server).await;
    // The first rollout was long ago.
    tokio::time::sleep(Duration::from_secs(3600)).await;

    server.pod_rule(PodRule::all().never_ready());
    let restored = PodRule::matching("app=web").unwrap();
    patch(&server, "deployments.apps", "web", &image("broken:1")).await;
    idle(&server).await;
    let progress = |server: &TestServer| condition(&object(server, "deployments.apps", "web"), "Progressing");
    assert_eq!(progress(&server), "True ReplicaSetUpdated");
    server
        .wait_for_within(Duration::from_secs(70), "the deadline", |server| {
            progress(server) == "False ProgressDeadlineExceeded"
        })
        .await;

    server.pod_rule(restored);
    idle(&server).await;
    assert_eq!(progress(&server), "True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn recreate_ends_all_old_pods_before_the_first_new_one() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().end_after(Duration::from_secs(3)));
    let mut web = workload("Deployment", "web", Some(3));
    web["spec"]["strategy"] = json!({ "type": "Recreate" });
    post(&server, "deployments.apps", &web).await;
    idle(&server).await;

    patch(&server, "deployments.apps", "web", &image("main:2")).await;
    let mixed = Cell::new(false);
    server
        .wait_for("new pods", |server| {
            let images = images(server);
            mixed.set(mixed.get() || images.iter().any(|image| *image != images[0]));
            images == ["main:2"; 3]
        })
        .await;

    assert!(!mixed.get(), "old and new pods at the same time");
}

#[tokio::test(start_paused = true)]
async fn scaling_follows_the_number_of_replicas() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(2)),
    )
    .await;
    idle(&server).await;

    for wanted in [5, 1, 0, 2] {
        let change = json!({ "spec": { "replicas": wanted } });
        patch(&server, "deployments.apps", "web", &change).await;
        idle(&server).await;
        assert_eq!(server.count("pods"), usize::try_from(wanted).unwrap());
    }
    assert_eq!(server.count("replicasets.apps"), 1);
}

/// Upstream: TestScale
#[tokio::test(start_paused = true)]
async fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let server = cluster(&["n1"]);
    let mut web = workload("Deployment", "web", Some(10));
    web["spec"]["strategy"] = json!({ "rollingUpdate": { "maxSurge": 3, "maxUnavailable": 2 } });
    post(&server, "deployments.apps", &web).await;
    idle(&server).await;
    server.pod_rule(PodRule::all().never_ready().in_namespace("other"));
    server.pod_rule(PodRule::matching("app=web").unwrap());
    // New pods stay not ready: the rollout stops with 8 old and 5 new pods.
    server.pod_rule(PodRule::matching("version=2").unwrap().never_ready());
    let mut change = image("main:2");
    change["spec"]["template"]["metadata"]["labels"] = json!({ "app": "web", "version": "2" });
    patch(&server, "deployments.apps", "web", &change).await;
    idle(&server).await;
    let sizes = |server: &TestServer| {
        let mut sizes: Vec<i64> = server
            .objects("replicasets.apps")
            .iter()
            .map(|set| set["spec"]["replicas"].as_i64().unwrap())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&server), [5, 8]);

    patch(
        &server,
        "deployments.apps",
        "web",
        &json!({ "spec": { "replicas": 15 } }),
    )
    .await;
    idle(&server).await;

    // The example of the documentation of deployments.
    assert_eq!(sizes(&server), [7, 11]);
}

#[tokio::test(start_paused = true)]
async fn paused_deployment_rolls_out_when_it_is_resumed() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(1)),
    )
    .await;
    idle(&server).await;
    patch(
        &server,
        "deployments.apps",
        "web",
        &json!({ "spec": { "paused": true } }),
    )
    .await;
    patch(&server, "deployments.apps", "web", &image("main:2")).await;
    patch(
        &server,
        "deployments.apps",
        "web",
        &json!({ "spec": { "replicas": 2 } }),
    )
    .await;
    idle(&server).await;
    assert_eq!(images(&server), ["main:1", "main:1"]);
    let web = object(&server, "deployments.apps", "web");
    assert_eq!(condition(&web, "Progressing"), "Unknown DeploymentPaused");

    patch(
        &server,
        "deployments.apps",
        "web",
        &json!({ "spec": { "paused": false } }),
    )
    .await;
    idle(&server).await;
    assert_eq!(images(&server), ["main:2", "main:2"]);
}

#[tokio::test(start_paused = true)]
async fn old_replica_sets_are_removed_beyond_the_history_limit() {
    let server = cluster(&["n1"]);
    let mut web = workload("Deployment", "web", Some(1));
    web["spec"]["revisionHistoryLimit"] = json!(2);
    post(&server, "deployments.apps", &web).await;
    for version in 2..=6 {
        idle(&server).await;
        patch(
            &server,
            "deployments.apps",
            "web",
            &image(&format!("main:{version}")),
        )
        .await;
    }
    idle(&server).await;

    let mut revisions: Vec<Value> = server
        .objects("replicasets.apps")
        .iter()
        .map(|set| set.pointer(REVISION).cloned().unwrap())
        .collect();
    revisions.sort_by_key(ToString::to_string);
    assert_eq!(revisions, ["4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced_and_deleted_deployments_leave_nothing() {
    let server = cluster(&["n1"]);
    post(
        &server,
        "deployments.apps",
        &workload("Deployment", "web", Some(2)),
    )
    .await;
    idle(&server).await;
    let before = names(&server, "pods");
    delete(&server, "pods", &before[0]).await;
    idle(&server).await;
    let after = names(&server, "pods");
    assert_eq!(after.len(), 2);
    assert!(!after.contains(&before[0]) && after.contains(&before[1]));

    delete(&server, "deployments.apps", "web").await;
    idle(&server).await;
    assert_eq!((server.count("pods"), server.count("replicasets.apps")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn replica_set_adopts_and_releases_pods_by_their_labels() {
    let server = cluster(&["n1"]);
    server.create(pod("shop", "orphan").label("app", "web"));
    idle(&server).await;
    post(
        &server,
        "replicasets.apps",
        &workload("ReplicaSet", "web", Some(2)),
    )
    .await;
    idle(&server).await;
    let adopted = object(&server, "pods", "orphan");
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(server.count("pods"), 2);

    server.modify::<Pod>("shop", "orphan", |pod| {
        pod.metadata.labels = Some([("app".to_owned(), "debug".to_owned())].into());
    });
    idle(&server).await;
    let released = object(&server, "pods", "orphan");
    assert!(released["metadata"].get("ownerReferences").is_none());
    assert_eq!(server.count("pods"), 3, "the released pod is replaced");
}

#[tokio::test(start_paused = true)]
async fn objects_without_defaults_are_rolled_out_too() {
    let server = TestServer::builder().controllers(Controllers::all()).build();
    server.create(node("n1"));
    server.create(deployment("shop", "web"));
    idle(&server).await;

    assert_eq!(status(&server, "deployments.apps", "web")["availableReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn pods_become_available_after_their_minimum_ready_time() {
    let server = cluster(&["n1"]);
    let mut web = workload("Deployment", "web", Some(1));
    web["spec"]["minReadySeconds"] = json!(20);
    post(&server, "deployments.apps", &web).await;
    idle(&server).await;
    let state = status(&server, "deployments.apps", "web");
    assert_eq!(
        (&state["readyReplicas"], &state["availableReplicas"]),
        (&json!(1), &Value::Null)
    );

    server.wait_for("available", |server| available(server, 1)).await;
}
