use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Churn, Population, key_of};
use crate::Controllers;
use crate::server::TestServer;

fn cluster(seed: u64, population: &str) -> (TestServer, Churn) {
    let server = TestServer::builder().controllers(Controllers::all()).build();
    let mut churn = Churn::new(server.clone(), seed);
    churn.fill(&population.parse::<Population>().unwrap()).unwrap();
    (server, churn)
}

fn number(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_u64)
        .map_or(0, |number| usize::try_from(number).unwrap())
}

#[tokio::test]
async fn filled_cluster_has_the_requested_objects_and_is_healthy() {
    let (server, _) = cluster(1, "pods=50,nodes=4,services=3,cm=2,deployments=7");

    assert_eq!(server.count("pods"), 50);
    assert_eq!(server.count("nodes"), 4);
    assert_eq!(server.count("leases.coordination.k8s.io"), 4);
    assert_eq!(server.count("deployments.apps"), 7);
    assert_eq!(server.count("replicasets.apps"), 7);
    assert_eq!(server.count("services"), 3);
    assert_eq!(server.count("configmaps"), 2);
    for deployment in server.objects("deployments.apps") {
        assert_eq!(
            number(&deployment, "/spec/replicas"),
            number(&deployment, "/status/readyReplicas")
        );
    }
    for pod in server.objects("pods") {
        assert_eq!(pod["status"]["phase"], "Running");
        assert!(
            pod["spec"]["nodeName"]
                .as_str()
                .is_some_and(|node| node.starts_with("node-"))
        );
    }
}

#[tokio::test]
async fn pods_without_deployments_have_no_owner() {
    let (server, _) = cluster(1, "pods=5,deployments=0");
    assert_eq!(server.count("replicasets.apps"), 0);
    assert!(
        server
            .objects("pods")
            .iter()
            .all(|pod| pod["metadata"].get("ownerReferences").is_none())
    );
}

#[tokio::test]
async fn unknown_resource_is_named_in_the_error() {
    let mut churn = Churn::new(TestServer::new(), 1);
    let error = churn.fill(&"gadgets=3".parse().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown resource \"gadgets\": see kubectl api-resources"
    );
}

#[tokio::test(start_paused = true)]
async fn history_depends_on_the_seed_only() {
    async fn history(seed: u64) -> (Vec<String>, u64) {
        let (server, churn) = cluster(seed, "pods=30,nodes=3");
        let _ = tokio::time::timeout(Duration::from_secs(30), churn.run(20.0)).await;
        let pods = server.objects("pods").iter().map(key_of).collect();
        (pods, server.resource_version())
    }

    assert_eq!(history(7).await, history(7).await);
    assert_ne!(history(7).await, history(8).await);
}

#[tokio::test(start_paused = true)]
async fn long_run_changes_everything_and_leaves_no_orphans() {
    let (server, churn) = cluster(3, "pods=40,nodes=3,configmaps=2");
    let before: BTreeSet<String> = server.objects("pods").iter().map(key_of).collect();
    let _ = tokio::time::timeout(Duration::from_secs(150), churn.run(20.0)).await;

    let pods = server.objects("pods");
    let after: BTreeSet<String> = pods.iter().map(key_of).collect();
    assert!((20..80).contains(&after.len()), "{} pods", after.len());
    assert!(
        before.intersection(&after).count() < before.len(),
        "no pod was replaced"
    );
    let events = server.objects("events");
    assert!(events.len() > 100, "{} events", events.len());
    assert!(
        events.iter().any(|event| event["reason"] == "NodeNotReady"),
        "no node became unready"
    );
    for pod in &pods {
        let deployment = super::deployment_of(pod).unwrap();
        assert!(
            server.object("deployments.apps", &deployment).is_some(),
            "{} belongs to {deployment}, which does not exist",
            key_of(pod)
        );
    }
    let images: BTreeSet<String> = server
        .objects("deployments.apps")
        .iter()
        .map(|one| {
            one.pointer("/spec/template/spec/containers/0/image")
                .unwrap()
                .to_string()
        })
        .collect();
    assert!(
        images.iter().any(|image| !image.ends_with(":1.0.0\"")),
        "no deployment was rolled out"
    );
}

#[tokio::test]
async fn a_step_always_finds_something_to_change() {
    let (_, mut churn) = cluster(3, "pods=40,nodes=3,configmaps=2");
    for _ in 0..300 {
        assert!(churn.step() > 0);
    }
    assert!(churn.events.len() <= churn.max_events);
}

#[tokio::test(start_paused = true)]
async fn write_rate_is_kept_on_average() {
    let (server, churn) = cluster(9, "pods=60,nodes=5");
    let before = server.resource_version();

    let _ = tokio::time::timeout(Duration::from_secs(60), churn.run(20.0)).await;

    let written = server.resource_version() - before;
    assert!(
        (1000..1400).contains(&written),
        "{written} writes in 60 s at 20/s"
    );
}

#[tokio::test(start_paused = true)]
async fn rate_of_zero_changes_nothing() {
    let (server, churn) = cluster(9, "pods=6,nodes=1");
    // The controllers look at the new objects once.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = server.resource_version();

    let _ = tokio::time::timeout(Duration::from_secs(60), churn.run(0.0)).await;

    assert_eq!(server.resource_version(), before);
}

/// Regression: `kubectl rollout undo` was overwritten by a status update based on an older read.
#[tokio::test]
async fn concurrent_client_writes_are_not_lost() {
    const WRITES: u64 = 500;
    fn count(object: &mut Value, who: &str) {
        let known = object[who].as_u64().unwrap_or(0);
        object[who] = json!(known + 1);
    }
    let (server, mut churn) = cluster(7, "deployments=1");
    let key = key_of(server.objects("deployments.apps").first().unwrap());

    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..WRITES {
                server
                    .edit_as("", "deployments.apps", &key, |object| count(object, "client"))
                    .unwrap();
            }
        });
        for _ in 0..WRITES {
            churn.change("deployments.apps", &key, |object| count(object, "churn"));
        }
    });

    let both = server.object("deployments.apps", &key).unwrap();
    assert_eq!(
        (&both["client"], &both["churn"]),
        (&json!(WRITES), &json!(WRITES))
    );
}

fn own_deployment(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "mine", "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "mine" } }, "template": {
            "metadata": { "labels": { "app": "mine" } },
            "spec": { "containers": [{ "name": "a", "image": "a:1" }] } } },
    })
}

#[tokio::test(start_paused = true)]
async fn deployment_of_a_client_does_not_wait_for_the_churn() {
    let (server, churn) = cluster(5, "pods=300,nodes=5");
    server.create(own_deployment(10));

    // At this rate the churn itself makes one change.
    let _ = tokio::time::timeout(Duration::from_secs(2), churn.run(0.5)).await;

    let mine = server.object("deployments.apps", "default/mine").unwrap();
    assert_eq!(number(&mine, "/status/readyReplicas"), 10);
}

#[tokio::test(start_paused = true)]
async fn controllers_of_the_server_follow_up_on_the_churn() {
    let (server, churn) = cluster(3, "pods=30,nodes=3");
    server.create(own_deployment(4));
    let before: BTreeSet<String> = server.objects("pods").iter().map(key_of).collect();

    let _ = tokio::time::timeout(Duration::from_secs(20), churn.run(15.0)).await;
    // What crashed last comes back within the longest pause.
    tokio::time::sleep(Duration::from_secs(600)).await;

    let after: BTreeSet<String> = server.objects("pods").iter().map(key_of).collect();
    assert!(
        before.intersection(&after).count() < before.len(),
        "no pod was replaced"
    );
    let deployments = server.objects("deployments.apps");
    assert_eq!(deployments.len(), 6);
    for deployment in &deployments {
        let wanted = number(deployment, "/spec/replicas");
        let key = key_of(deployment);
        assert_eq!(number(deployment, "/status/availableReplicas"), wanted, "{key}");
        assert_eq!(number(deployment, "/status/updatedReplicas"), wanted, "{key}");
        assert_eq!(number(deployment, "/status/replicas"), wanted, "{key}");
    }
    let revision = |one: &Value| {
        one.pointer("/metadata/annotations/deployment.kubernetes.io~1revision")
            .cloned()
    };
    assert!(
        deployments.iter().any(|one| revision(one) != Some(json!("1"))),
        "no deployment was rolled out"
    );
}

/// `--churn` counts writes of all kinds; its documentation gives the share of pods.
#[tokio::test(start_paused = true)]
async fn about_one_write_in_four_is_of_a_pod() {
    let (server, churn) = cluster(3, "pods=60,nodes=4");
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::all(server.client());
    let start = server.resource_version();
    let params = kube::api::WatchParams::default().timeout(250);
    let mut changes = std::pin::pin!(pods.watch(&params, &start.to_string()).await.unwrap());
    let count = async {
        let mut of_pods = 0_u64;
        while let Some(change) = futures_util::StreamExt::next(&mut changes).await {
            of_pods += u64::from(!matches!(change, Ok(kube::core::WatchEvent::Bookmark(_))));
        }
        of_pods
    };
    let run = tokio::time::timeout(Duration::from_secs(200), churn.run(20.0));
    let (_, of_pods) = tokio::join!(run, count);
    let writes = server.resource_version() - start;

    let share = of_pods as f64 / writes as f64;
    assert!((0.15..0.4).contains(&share), "{of_pods} of {writes}: {share}");
}
