//! Loops and fights.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use k8s_openapi::jiff::Timestamp;
use kube_controller::{Controller, FieldWrite, FindingKind, LoopDetector, Watch};
use kube_informers::ObjectKey;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, deployment};

use crate::support::*;

fn written_by(mut object: Deployment, manager: &str) -> Deployment {
    object.metadata.managed_fields = Some(vec![ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        time: Some(Time(Timestamp::UNIX_EPOCH)),
        ..ManagedFieldsEntry::default()
    }]);
    object
}

fn update(old: &Deployment, new: &Deployment) -> kube_informers::Event<Deployment> {
    kube_informers::Event::Updated {
        old: old.clone().into(),
        new: new.clone().into(),
        resync: false,
    }
}

fn with_replicas(replicas: i32, manager: &str) -> Deployment {
    let mut object = deployment("shop", "cart");
    object.spec.replicas = Some(replicas);
    written_by(object, manager)
}

#[tokio::test(start_paused = true)]
async fn two_managers_of_one_field_are_named() {
    let detector = LoopDetector::default();
    let (ours, theirs) = (with_replicas(3, "operator"), with_replicas(5, "autoscaler"));
    let mut findings = Vec::new();
    for _ in 0..4 {
        findings.extend(detector.observe(&update(&ours, &theirs)));
        pass(secs(1)).await;
        findings.extend(detector.observe(&update(&theirs, &ours)));
        pass(secs(1)).await;
    }

    assert_eq!(findings.len(), 1, "reported once: {findings:?}");
    assert_eq!(findings[0].kind, FindingKind::Fight);
    assert_eq!(
        findings[0].to_string(),
        "autoscaler and operator overwrite spec.replicas of shop/cart in turn (6 changes)"
    );
    assert_eq!(detector.counts(), (0, 1));
    assert!(detector.is_looping(&ObjectKey::namespaced("shop", "cart")));
    pass(secs(61)).await;
    assert!(!detector.is_looping(&ObjectKey::namespaced("shop", "cart")));
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_caller_compared_are_judged_alike() {
    let (detector, key) = (LoopDetector::default(), ObjectKey::namespaced("shop", "cart"));
    let values = [serde_json::json!(3), serde_json::json!(5)];
    let mut findings = Vec::new();
    for round in 0..8 {
        let write = FieldWrite {
            path: "spec.replicas",
            value: &values[round % 2],
            manager: Some(["operator", "autoscaler"][round % 2]),
        };
        findings.extend(detector.observe_writes(&key, [write]));
    }

    assert_eq!(findings.len(), 1, "reported once: {findings:?}");
    assert_eq!(findings[0].kind, FindingKind::Fight);
    assert_eq!(findings[0].managers, ["autoscaler", "operator"]);
    assert!(detector.is_looping(&key));
    detector.forget(&key);
    assert!(!detector.is_looping(&key));
}

#[tokio::test(start_paused = true)]
async fn slow_changes_and_changes_of_different_fields_are_no_loop() {
    let detector = LoopDetector::default();
    let mut last = with_replicas(0, "operator");
    for replicas in 1..20 {
        let next = with_replicas(replicas, "operator");
        assert_eq!(detector.observe(&update(&last, &next)), []);
        last = next;
        pass(secs(20)).await;
    }
    for label in 0..20 {
        let next = last.clone().label(&format!("label-{label}"), "set");
        assert_eq!(detector.observe(&update(&last, &next)), []);
        last = next;
    }
    assert_eq!(detector.counts(), (0, 0));
}

fn with_status(updated: i32, ready: i32) -> Deployment {
    let mut object = deployment("shop", "cart");
    object.status = Some(DeploymentStatus {
        replicas: Some(13),
        updated_replicas: Some(updated),
        ready_replicas: Some(ready),
        available_replicas: Some(ready),
        unavailable_replicas: Some(13 - ready),
        ..DeploymentStatus::default()
    });
    written_by(object, "kube-controller-manager")
}

#[tokio::test(start_paused = true)]
async fn rollout_is_no_loop_although_its_status_goes_back_and_forth() {
    let detector = LoopDetector::default();
    let mut last = with_status(0, 10);
    for updated in 1..=20 {
        for ready in [9, 10, 9] {
            let next = with_status(updated, ready);
            assert_eq!(detector.observe(&update(&last, &next)), []);
            last = next;
            pass(secs(1)).await;
        }
    }

    // The rollout is stuck.
    let mut findings = Vec::new();
    for ready in [10, 9, 10, 9, 10, 9] {
        let next = with_status(20, ready);
        findings.extend(detector.observe(&update(&last, &next)));
        last = next;
        pass(secs(1)).await;
    }
    let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "status.availableReplicas",
            "status.readyReplicas",
            "status.unavailableReplicas"
        ]
    );
    assert!(findings.iter().all(|finding| finding.kind == FindingKind::Loop));
}

#[tokio::test(start_paused = true)]
async fn fight_beside_a_rollout_is_found() {
    let (detector, key) = (LoopDetector::default(), ObjectKey::namespaced("shop", "cart"));
    let mut findings = Vec::new();
    for round in 0..10 {
        let (replicas, updated) = (serde_json::json!([3, 5][round % 2]), serde_json::json!(round));
        let write = |path, value, manager| FieldWrite {
            path,
            value,
            manager: Some(manager),
        };
        findings.extend(detector.observe_writes(
            &key,
            [
                write("spec.replicas", &replicas, ["operator", "autoscaler"][round % 2]),
                write("status.updatedReplicas", &updated, "kube-controller-manager"),
            ],
        ));
    }
    let found: Vec<(&str, FindingKind)> = findings
        .iter()
        .map(|finding| (finding.path.as_str(), finding.kind))
        .collect();
    assert_eq!(found, [("spec.replicas", FindingKind::Fight)]);
}

#[tokio::test(start_paused = true)]
async fn controller_that_rewrites_its_object_is_found_and_slowed_down() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let (deployments, detector, runs) = (
        informer::<Deployment>(&server),
        LoopDetector::default(),
        Runs::new(),
    );
    let (log, writer) = (runs.clone(), server.clone());

    let controller = Controller::new("test")
        .watches(Watch::object(&deployments).detect_loops(&detector, Some(secs(30))))
        .start(async move |key: ObjectKey| {
            drop(log.enter(&key));
            pass(ms(100)).await;
            let round = log.count().to_string();
            writer.modify::<Deployment>("shop", "cart", |object| {
                *object = object.clone().label("round", &round)
            });
            Ok::<(), String>(())
        })
        .unwrap();
    pass(secs(600)).await;

    let findings = detector.findings();
    assert_eq!(findings[0].kind, FindingKind::Loop, "{findings:?}");
    assert_eq!(findings[0].path, "metadata.labels.round");
    assert!(runs.count() < 120, "{} runs in ten minutes", runs.count());
    controller.shutdown().await.unwrap();
}
