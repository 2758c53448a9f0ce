//! `watch --tree`: an object with everything it owns.

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, PostParams};
use kube_testserver::builders::{Build, deployment, pod, replica_set};
use serde_json::json;

use crate::program::Cluster;

/// A deployment with a replica set and a pod, and a pod of somebody else.
async fn shop() -> Cluster {
    let cluster = Cluster::new().await;
    let web = cluster.server.create(deployment("shop", "web"));
    let set = cluster.server.create(replica_set("shop", "web-1").owner(&web));
    cluster.server.create(pod("shop", "web-1-a").owner(&set));
    cluster.server.create(pod("shop", "cart"));
    cluster
}

async fn report(cluster: &Cluster, name: &str, about: &str) {
    let events: Api<Event> = Api::namespaced(cluster.server.client(), "shop");
    let event = json!({
        "metadata": { "name": name }, "reason": "Started", "message": format!("Started {about}"),
        "involvedObject": { "kind": "Pod", "namespace": "shop", "name": about },
        "lastTimestamp": "2026-01-02T03:04:05Z",
    });
    events
        .create(&PostParams::default(), &serde_json::from_value(event).unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tree_has_what_the_object_owns_and_the_events_about_it() {
    let cluster = shop().await;
    report(&cluster, "e1", "web-1-a").await;
    report(&cluster, "e2", "cart").await;
    let mut program = cluster.start(&["watch", "deploy/web", "-n", "shop", "--tree"]);
    assert!(program.line().await.starts_with("deployment.apps shop/web"));
    assert!(program.line().await.starts_with("└─ replicaset.apps shop/web-1"));
    assert!(program.line().await.starts_with("   └─ pod shop/web-1-a"));
    assert!(
        program
            .line()
            .await
            .ends_with(" pod shop/web-1-a  Started: Started web-1-a")
    );
    program.says("3 objects; watching for changes").await;

    report(&cluster, "e3", "cart").await;
    report(&cluster, "e4", "web-1-a").await;
    let line = program.line().await;
    assert!(line.contains("Started web-1-a"), "{line}");
    cluster.server.create(pod("shop", "cart-2"));
    let set = cluster
        .server
        .get::<k8s_openapi::api::apps::v1::ReplicaSet>("shop", "web-1")
        .unwrap();
    cluster.server.create(pod("shop", "web-1-b").owner(&set));
    let line = program.line().await;
    assert!(
        line.contains("ADDED") && line.contains("pod shop/web-1-b"),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_about_the_objects_of_the_tree() {
    let cluster = shop().await;
    report(&cluster, "e1", "web-1-a").await;
    let ended = cluster
        .run(&[
            "watch",
            "deploy/web",
            "-n",
            "shop",
            "--tree",
            "-o",
            "json",
            "--until",
            "new.metadata.name.startsWith('web')",
        ])
        .await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let names: Vec<serde_json::Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let added = names.iter().filter(|line| line["event"] == "added");
    let names: Vec<&str> = added.map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web", "web-1-a", "web-1", "e1"]);
    assert!(
        ended.err.contains("the condition holds for 3 objects"),
        "{}",
        ended.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_can_be_waited_for() {
    let cluster = Cluster::new().await;
    let mut program = cluster.start(&["watch", "deploy/web", "-n", "shop", "--tree", "-o", "brief"]);
    program.says("there is no such object yet").await;
    cluster.server.create(deployment("shop", "other"));
    cluster.server.create(deployment("shop", "web"));
    let line = program.line().await;
    assert!(line.contains("deployment.apps shop/web"), "{line}");
}
