//! The consequences of deletions: owned objects and the contents of namespaces.

use http::Method;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, config_map, deployment, namespace, pod, replica_set};
use serde_json::{Value, json};

use crate::common::{Watch, send};

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

fn cluster() -> TestServer {
    TestServer::builder().garbage_collection().build()
}

#[test]
fn owned_objects_are_deleted_with_their_last_owner() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let set = server.create(replica_set("shop", "web-1").owner(&web));
    let other = server.create(config_map("shop", "other"));
    server.create(pod("shop", "a").owner(&set));
    server.create(pod("shop", "b").owner(&set).owner(&other));

    server.delete::<Deployment>("shop", "web");

    assert_eq!(
        (server.count("deployments.apps"), server.count("replicasets.apps")),
        (0, 0)
    );
    assert_eq!(server.get::<Pod>("shop", "a"), None);
    let b = server.get::<Pod>("shop", "b").expect("it has another owner");
    assert_eq!(
        b.metadata.owner_references.map(|owners| owners.len()),
        Some(1),
        "the dangling reference is removed"
    );
}

#[tokio::test(start_paused = true)]
async fn object_of_a_missing_owner_is_deleted_at_once() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    server.delete::<Deployment>("shop", "web");
    let path = format!(
        "/apis/apps/v1/replicasets?watch=true&resourceVersion={}",
        server.resource_version()
    );
    let mut watch = Watch::open(&server, &path).await;

    server.create(replica_set("shop", "web-1").owner(&web));

    assert_eq!(server.count("replicasets.apps"), 0);
    let events = watch.ready().await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events[0].starts_with("ADDED") && events[1].starts_with("DELETED"),
        "{events:?}"
    );

    // The same for a reference added later.
    server.create(pod("shop", "a"));
    server.modify::<Pod>("shop", "a", |pod| *pod = pod.clone().owner(&web));
    assert_eq!(server.get::<Pod>("shop", "a"), None);
}

#[test]
fn reference_to_a_missing_owner_is_removed_if_another_owner_exists() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let other = server.create(config_map("shop", "other"));
    server.delete::<Deployment>("shop", "web");

    server.create(pod("shop", "a").owner(&web).owner(&other));

    let a = server.get::<Pod>("shop", "a").expect("it has another owner");
    let owners = a.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.len(), 1);
    assert_eq!(Some(&owners[0].uid), other.metadata.uid.as_ref());
}

#[test]
fn owners_of_unserved_kinds_are_ignored() {
    let server = cluster();
    let mut a = pod("shop", "a").owner(&server.create(config_map("shop", "other")));
    for owner in a.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "example.com/v1".to_owned();
        owner.kind = "Widget".to_owned();
        owner.uid = "nobody".to_owned();
    }

    server.create(a);

    assert!(server.get::<Pod>("shop", "a").is_some());
}

#[test]
fn owned_objects_stay_without_garbage_collection() {
    let server = TestServer::new();
    let web = server.create(deployment("shop", "web"));
    server.create(replica_set("shop", "web-1").owner(&web));

    server.delete::<Deployment>("shop", "web");

    assert_eq!(server.count("replicasets.apps"), 1);
}

#[tokio::test(start_paused = true)]
async fn orphaned_objects_stay_and_lose_their_owner_reference() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    server.create(replica_set("shop", "web-1").owner(&web));

    send(
        &server,
        Method::DELETE,
        WEB,
        &json!({"propagationPolicy": "Orphan"}),
    )
    .await;

    assert_eq!(server.count("deployments.apps"), 0);
    let set = server.get::<ReplicaSet>("shop", "web-1").expect("it stays");
    assert_eq!(set.metadata.owner_references, None);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_removes_the_owner_last() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let mut set = replica_set("shop", "web-1")
        .owner(&web)
        .finalizer("example.com/hold");
    if let Some(owner) = set
        .metadata
        .owner_references
        .as_mut()
        .and_then(|owners| owners.first_mut())
    {
        owner.block_owner_deletion = Some(true);
    }
    server.create(set);

    let marked = send(
        &server,
        Method::DELETE,
        WEB,
        &json!({"propagationPolicy": "Foreground"}),
    )
    .await
    .json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(
        (server.count("deployments.apps"), server.count("replicasets.apps")),
        (1, 1)
    );

    server.modify::<ReplicaSet>("shop", "web-1", |set| set.metadata.finalizers = None);
    assert_eq!(
        (server.count("deployments.apps"), server.count("replicasets.apps")),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn deleting_a_namespace_deletes_its_contents() {
    let server = TestServer::new();
    server.create(namespace("shop"));
    server.create(pod("shop", "a"));
    server.create(config_map("shop", "held").finalizer("example.com/hold"));
    server.create(pod("other", "b"));
    let mut watch = Watch::open(&server, "/api/v1/namespaces?watch=true&resourceVersion=2").await;

    let marked = send(&server, Method::DELETE, "/api/v1/namespaces/shop", &Value::Null)
        .await
        .json();
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(
        (
            server.count("namespaces"),
            server.count("pods"),
            server.count("configmaps")
        ),
        (1, 1, 1)
    );

    server.modify::<k8s_openapi::api::core::v1::ConfigMap>("shop", "held", |held| {
        held.metadata.finalizers = None
    });
    assert_eq!((server.count("namespaces"), server.count("configmaps")), (0, 0));
    let events = watch.ready().await;
    assert!(
        events[0].starts_with("MODIFIED shop@") && events[1].starts_with("DELETED shop@"),
        "{events:?}"
    );
    assert_eq!(events.len(), 2);
}
