//! The server's own controllers: garbage collection and namespace deletion that take their time.

use http::Method;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::Resource;
use kube_testserver::builders::{Build, config_map, deployment, namespace, node, pod, replica_set};
use kube_testserver::{Controllers, TestServer};
use serde_json::{Value, json};

use crate::common::{Watch, send};

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

fn collectors() -> Controllers {
    Controllers::none().garbage_collection().namespace_deletion()
}

fn cluster() -> TestServer {
    TestServer::builder().controllers(collectors()).build()
}

/// Waits until the controllers have acted on everything.
async fn idle(server: &TestServer) {
    server
        .wait_for("the controllers are idle", TestServer::controllers_are_idle)
        .await;
}

fn blocking<K: Resource>(mut object: K) -> K {
    for owner in object.meta_mut().owner_references.iter_mut().flatten() {
        owner.block_owner_deletion = Some(true);
    }
    object
}

async fn delete(server: &TestServer, path: &str, policy: &str) -> Value {
    send(
        server,
        Method::DELETE,
        path,
        &json!({ "propagationPolicy": policy }),
    )
    .await
    .json()
}

#[tokio::test(start_paused = true)]
async fn background_deletion_removes_the_owner_first_and_its_dependents_later() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let set = server.create(replica_set("shop", "web-1").owner(&web));
    server.create(pod("shop", "a").owner(&set));

    delete(&server, WEB, "Background").await;

    assert_eq!(server.count("deployments.apps"), 0);
    assert_eq!((server.count("replicasets.apps"), server.count("pods")), (1, 1));
    assert!(!server.controllers_are_idle());
    idle(&server).await;
    assert_eq!((server.count("replicasets.apps"), server.count("pods")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_removes_blocking_dependents_before_the_owner() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let set = server.create(blocking(replica_set("shop", "web-1").owner(&web)));
    server.create(blocking(
        pod("shop", "a").owner(&set).finalizer("example.com/hold"),
    ));
    server.create(config_map("shop", "loose").owner(&web));
    idle(&server).await;

    delete(&server, WEB, "Foreground").await;
    idle(&server).await;

    // The deletion is passed on in the foreground: the replica set waits for its pod, the deployment for the replica set.
    let set = server.get::<ReplicaSet>("shop", "web-1").expect("it waits");
    assert_eq!(
        set.metadata.finalizers,
        Some(vec!["foregroundDeletion".to_owned()])
    );
    assert!(server.get::<Deployment>("shop", "web").is_some());
    let loose = server
        .get::<ConfigMap>("shop", "loose")
        .expect("it does not block");
    assert_eq!(loose.metadata.deletion_timestamp, None);

    server.modify::<Pod>("shop", "a", |pod| pod.metadata.finalizers = None);
    idle(&server).await;
    for resource in ["pods", "replicasets.apps", "deployments.apps", "configmaps"] {
        assert_eq!(server.count(resource), 0, "{resource}");
    }
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_of_one_owner_keeps_a_dependent_with_another() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let other = server.create(config_map("shop", "other"));
    server.create(blocking(pod("shop", "a").owner(&web).owner(&other)));

    delete(&server, WEB, "Foreground").await;
    idle(&server).await;

    assert_eq!(server.count("deployments.apps"), 0);
    let a = server.get::<Pod>("shop", "a").expect("it has another owner");
    let owners = a.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.len(), 1);
    assert_eq!(Some(&owners[0].uid), other.metadata.uid.as_ref());
}

#[tokio::test(start_paused = true)]
async fn dependent_that_stops_blocking_releases_its_owner() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    server.create(blocking(
        pod("shop", "a").owner(&web).finalizer("example.com/hold"),
    ));
    delete(&server, WEB, "Foreground").await;
    idle(&server).await;
    assert_eq!(server.count("deployments.apps"), 1);

    server.modify::<Pod>("shop", "a", |pod| {
        for owner in pod.metadata.owner_references.iter_mut().flatten() {
            owner.block_owner_deletion = Some(false);
        }
    });
    idle(&server).await;

    assert_eq!(server.count("deployments.apps"), 0);
}

#[tokio::test(start_paused = true)]
async fn orphan_deletion_keeps_dependents_without_their_reference() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    server.create(replica_set("shop", "web-1").owner(&web));

    let marked = delete(&server, WEB, "Orphan").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    idle(&server).await;

    assert_eq!(server.count("deployments.apps"), 0);
    let set = server.get::<ReplicaSet>("shop", "web-1").expect("it stays");
    assert_eq!(set.metadata.owner_references, None);
}

#[tokio::test(start_paused = true)]
async fn dependent_of_a_recreated_owner_is_collected_because_the_uid_differs() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    server.create(replica_set("shop", "web-1").owner(&web));

    server.recreate("deployments.apps", "shop/web");
    idle(&server).await;

    assert_eq!(server.count("deployments.apps"), 1);
    assert_eq!(server.count("replicasets.apps"), 0);
}

#[tokio::test(start_paused = true)]
async fn owner_in_another_namespace_counts_as_absent() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));

    server.create(pod("other", "a").owner(&web));
    idle(&server).await;

    assert_eq!(server.get::<Pod>("other", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn owner_under_another_name_counts_as_absent() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    let mut a = pod("shop", "a").owner(&web);
    for owner in a.metadata.owner_references.iter_mut().flatten() {
        owner.name = "shop".to_owned();
    }

    server.create(a);
    idle(&server).await;

    assert_eq!(server.get::<Pod>("shop", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_owner_owns_objects_of_any_namespace() {
    let server = cluster();
    let owner = server.create(node("n1"));
    server.create(pod("shop", "a").owner(&owner));
    idle(&server).await;
    assert_eq!(server.count("pods"), 1);

    server.delete::<k8s_openapi::api::core::v1::Node>(None, "n1");
    idle(&server).await;
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_dependent_of_a_namespaced_owner_is_never_collected() {
    let server = cluster();
    let web = server.create(deployment("shop", "web"));
    server.create(node("n1").owner(&web));

    server.delete::<Deployment>("shop", "web");
    idle(&server).await;

    assert_eq!(server.count("nodes"), 1);
}

#[tokio::test(start_paused = true)]
async fn namespace_is_terminating_until_its_contents_are_gone() {
    let server = cluster();
    server.create(namespace("shop"));
    server.create(pod("shop", "a"));
    server.create(config_map("shop", "held").finalizer("example.com/hold"));
    let mut watch = Watch::open(&server, "/api/v1/namespaces?watch=true&resourceVersion=2").await;

    let marked = send(&server, Method::DELETE, "/api/v1/namespaces/shop", &Value::Null)
        .await
        .json();

    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(server.count("pods"), 1, "the contents are deleted later");
    idle(&server).await;
    assert_eq!((server.count("namespaces"), server.count("pods")), (1, 0));

    // An object that appears meanwhile is deleted too.
    server.create(pod("shop", "late"));
    server.modify::<ConfigMap>("shop", "held", |held| held.metadata.finalizers = None);
    idle(&server).await;
    assert_eq!((server.count("namespaces"), server.count("pods")), (0, 0));
    let events = watch.ready().await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[1].starts_with("DELETED shop@"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn restored_server_collects_what_its_snapshot_left_dangling() {
    let before = TestServer::new();
    let web = before.create(deployment("shop", "web"));
    before.create(replica_set("shop", "web-1").owner(&web));
    before.delete::<Deployment>("shop", "web");

    let server = TestServer::builder()
        .controllers(collectors())
        .restore(before.snapshot())
        .build();
    // The first request starts them.
    send(&server, Method::GET, "/api/v1/namespaces", &Value::Null).await;
    idle(&server).await;

    assert_eq!(server.count("replicasets.apps"), 0);
}

#[test]
fn controllers_continue_on_the_next_runtime_after_theirs_is_gone() {
    let paused = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
    };
    let server = paused().block_on(async {
        let server = cluster();
        let web = server.create(deployment("shop", "web"));
        server.create(replica_set("shop", "web-1").owner(&web));
        server.delete::<Deployment>("shop", "web");
        server
    });
    assert_eq!(server.count("replicasets.apps"), 1);
    assert!(!server.controllers_are_idle());

    paused().block_on(async {
        send(&server, Method::GET, "/api/v1/namespaces", &Value::Null).await;
        idle(&server).await;
    });

    assert_eq!(server.count("replicasets.apps"), 0);
}

#[tokio::test(start_paused = true)]
async fn controllers_do_not_keep_the_server_alive() {
    let server = cluster();
    server.create(namespace("shop"));
    server.delete::<Namespace>(None, "shop");
    let service = server.service();

    drop((server, service));

    // Nothing to assert on the server itself: the task must end instead of sleeping on with it.
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_chosen_controllers_take_their_time() {
    let server = TestServer::builder()
        .controllers(Controllers::none().namespace_deletion())
        .build();
    let web = server.create(deployment("shop", "web"));
    server.create(replica_set("shop", "web-1").owner(&web));

    server.delete::<Deployment>("shop", "web");
    idle(&server).await;

    assert_eq!(server.count("replicasets.apps"), 1, "garbage is not collected");
}
