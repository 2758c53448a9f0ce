//! Listers and common indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube_informers::error::NotFoundError;
use kube_informers::source::ResourceType;
use kube_informers::store::StoreWriter;
use kube_informers::{Informer, Lister, Object, ObjectKey, Selector, indexes};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, deployment, node, pod, replica_set};

use crate::support::{secs, synced, synced_pods, wait_for};

/// An object that counts how often its labels are read.
struct Counted {
    name: String,
    odd: bool,
    reads: Arc<AtomicUsize>,
}

impl Object for Counted {
    fn object_name(&self) -> &str {
        &self.name
    }
    fn object_namespace(&self) -> Option<&str> {
        Some("default")
    }
    fn object_uid(&self) -> Option<&str> {
        None
    }
    fn object_version(&self) -> Option<&str> {
        None
    }
    fn object_label(&self, key: &str) -> Option<&str> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        (key == "match").then_some(if self.odd { "false" } else { "true" })
    }
}

/// Upstream: TestListAll. With 100,000 objects in each case, where client-go uses a million in two of them: the test
/// proves which labels are read, which does not depend on the number.
#[test]
fn a_selector_reads_labels_only_if_needed() {
    const OBJECTS: usize = 100_000;
    let reads = Arc::new(AtomicUsize::new(0));
    let mut writer = StoreWriter::<Counted>::new();
    let objects = (0..OBJECTS).map(|number| Counted {
        name: format!("object-{number}"),
        odd: number % 10 != 0,
        reads: reads.clone(),
    });
    writer.replace(objects, Some("1")).unwrap();
    let lister = Lister::new(writer.store());

    let some: Selector = "match=true".parse().unwrap();
    assert_eq!(lister.list(&some).len(), 10_000);
    assert_eq!(lister.namespace("default").list(&some).len(), 10_000);
    assert_eq!(reads.swap(0, Ordering::Relaxed), 2 * OBJECTS);

    assert_eq!(lister.list(&Selector::everything()).len(), OBJECTS);
    assert_eq!(lister.namespace("default").all().len(), OBJECTS);
    assert_eq!(lister.list(&Selector::nothing()).len(), 0);
    assert_eq!(lister.list(&"match=true,match=false".parse().unwrap()).len(), 0);
    assert_eq!(lister.namespace("default").list(&Selector::nothing()).len(), 0);
    assert_eq!(reads.load(Ordering::Relaxed), 0, "no label was read");
}

#[tokio::test(start_paused = true)]
async fn a_lister_selects_by_labels_and_by_namespace() {
    let server = TestServer::new();
    for (namespace, name, app) in [
        ("shop", "cart", "web"),
        ("shop", "db", "db"),
        ("blog", "web", "web"),
    ] {
        server.create(Build::label(pod(namespace, name), "app", app));
    }
    let informer = synced_pods(&server).await;
    let lister = informer.lister();
    let names = |mut found: Vec<Arc<Pod>>| {
        found.sort_by_key(|pod| pod.object_name().to_owned());
        let names: Vec<String> = found.iter().map(|pod| pod.object_name().to_owned()).collect();
        names.join(" ")
    };

    assert_eq!(names(lister.list(&"app=web".parse().unwrap())), "cart web");
    assert_eq!(
        names(lister.list(&"app in (web, db)".parse().unwrap())),
        "cart db web"
    );
    assert_eq!(names(lister.list(&"app notin (web)".parse().unwrap())), "db");
    assert_eq!(
        names(lister.namespace("shop").list(&"app=web".parse().unwrap())),
        "cart"
    );
    assert_eq!(names(lister.namespace("shop").all()), "cart db");
    assert_eq!(names(lister.namespace("nowhere").all()), "");
    assert_eq!(lister.all().len(), 3);
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_none_or_the_error_of_a_server() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(node("worker-1"));
    let pods = synced_pods(&server).await;
    let nodes = synced(Informer::<Node>::all(server.client())).await;
    let deployments = synced(Informer::<Deployment>::all(server.client())).await;
    let lister = pods.lister();

    assert_eq!(
        lister.namespace("shop").get("cart").unwrap().object_name(),
        "cart"
    );
    assert_eq!(
        lister
            .get(&ObjectKey::namespaced("shop", "cart"))
            .unwrap()
            .object_name(),
        "cart"
    );
    assert_eq!(
        nodes
            .lister()
            .get(&ObjectKey::cluster("worker-1"))
            .unwrap()
            .object_name(),
        "worker-1"
    );
    assert!(lister.namespace("blog").get("cart").is_none());
    assert!(lister.get(&ObjectKey::cluster("cart")).is_none());
    assert!(nodes.lister().try_get(&ObjectKey::cluster("worker-1")).is_ok());

    let error = lister.namespace("shop").try_get("gone").unwrap_err();
    assert_eq!(error.to_string(), "pods \"shop/gone\" not found in the cache");
    let error = deployments
        .lister()
        .namespace("shop")
        .try_get("gone")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "deployments.apps \"shop/gone\" not found in the cache"
    );

    // The converted error equals that of the server.
    let cached = |error: NotFoundError| match kube::Error::from(error) {
        kube::Error::Api(status) => *status,
        other => panic!("{other}"),
    };
    let api = kube::Api::<Deployment>::namespaced(server.client(), "shop");
    let served = match api.get("gone").await.unwrap_err() {
        kube::Error::Api(status) => *status,
        other => panic!("{other}"),
    };
    let status = cached(error);
    assert!(status.is_not_found() && served.is_not_found());
    assert_eq!(
        (status.code, &status.reason, &status.message),
        (404, &served.reason, &served.message)
    );
    let (details, served) = (status.details.unwrap(), served.details.unwrap());
    assert_eq!(
        (details.name, details.group, details.kind),
        (served.name, served.group, served.kind)
    );
    pods.shutdown().await;
    nodes.shutdown().await;
    deployments.shutdown().await;
}

fn owned(name: &str, owner: &str, uid: &str, controller: bool) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: owner.to_owned(),
                uid: uid.to_owned(),
                controller: Some(controller),
                ..Default::default()
            }]),
            ..Default::default()
        },
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn owners_and_owned_objects_are_found_without_a_scan() {
    let server = TestServer::new();
    let api = kube::Api::<ReplicaSet>::namespaced(server.client(), "shop");
    let set = api
        .create(&PostParams::default(), &replica_set("shop", "cart-1"))
        .await
        .unwrap();
    let uid = set.object_uid().unwrap().to_owned();
    server.create(owned("cart-1-a", "cart-1", &uid, true));
    server.create(owned("cart-1-b", "cart-1", &uid, false));
    server.create(owned("stray", "cart-1", "another uid", true));
    let pods = synced_pods(&server).await;
    let sets = synced(Informer::<ReplicaSet>::all(server.client())).await;
    let (pods, sets) = (pods.lister(), sets.lister());

    let pod = pods.namespace("shop").get("cart-1-a").unwrap();
    assert_eq!(sets.controller_of(&*pod).unwrap().object_name(), "cart-1");
    let pod = pods.namespace("shop").get("cart-1-b").unwrap();
    assert!(
        sets.controller_of(&*pod).is_none(),
        "an owner that is not the controller"
    );
    assert_eq!(sets.owners_of(&*pod).len(), 1);
    let stray = pods.namespace("shop").get("stray").unwrap();
    assert!(
        sets.controller_of(&*stray).is_none(),
        "the owner was recreated with another UID"
    );

    assert_eq!(pods.owned_by(&uid).len(), 2);
    assert_eq!(pods.controlled_by(&*set_of(&sets)).len(), 1);
    assert!(pods.owned_by("nobody").is_empty());
    assert!(pods.store().index(indexes::OWNER_UID).is_some(), "found by index");
}

fn set_of(sets: &Lister<ReplicaSet>) -> Arc<ReplicaSet> {
    sets.namespace("shop").get("cart-1").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_is_found() {
    let mut nodes = StoreWriter::<Node>::new();
    let mut worker = node("worker-1");
    worker.metadata.uid = Some("n1".to_owned());
    nodes.insert(worker).unwrap();
    let lister = Lister::new(nodes.store());

    let mirror = owned("static-pod", "worker-1", "n1", true);

    assert_eq!(lister.controller_of(&mirror).unwrap().object_name(), "worker-1");
}

#[tokio::test(start_paused = true)]
async fn common_indexes_are_shared_and_follow_changes() {
    let server = TestServer::new();
    let on = |name: &str, worker: &str| {
        let mut pod = Build::label(pod("shop", name), "app", "web");
        pod.spec.get_or_insert_default().node_name = Some(worker.to_owned());
        pod
    };
    server.create(on("a", "worker-1"));
    server.create(on("b", "worker-2"));
    let pods = synced_pods(&server).await;

    let by_node = indexes::node_name(&pods.store());
    let by_app = indexes::label(&pods.store(), "app");
    let by_labels = indexes::labels(&pods.store());
    let again = indexes::label(&pods.store(), "app");
    server.create(on("c", "worker-2"));
    server.modify::<Pod>("shop", "a", |pod| {
        pod.metadata.labels = Some([("app".to_owned(), "db".to_owned())].into());
    });
    let version = server.resource_version().to_string();
    pods.wait_for_within(&version, secs(90)).await.unwrap();

    assert_eq!(by_node.count("worker-2"), 2);
    assert_eq!((by_app.count("web"), again.count("db")), (2, 1));
    assert_eq!((by_labels.count("app=web"), by_labels.count("app=db")), (2, 1));
    assert_eq!(
        pods.store().index_names(),
        [
            "namespace",
            "spec.nodeName",
            "metadata.labels[app]",
            "metadata.labels"
        ]
    );
}

#[test]
fn an_index_requested_concurrently_is_added_once() {
    let mut writer = StoreWriter::<Pod>::new();
    let pods = (0..2_000).map(|number| owned(&format!("pod-{number}"), "set", "u1", true));
    writer.replace(pods, Some("1")).unwrap();
    let store = writer.store();

    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| assert_eq!(indexes::owner_uid(&store).count("u1"), 2_000));
        }
    });

    assert_eq!(store.index_names(), [indexes::OWNER_UID]);
}

fn daemon_set(namespace: &str, name: &str, selector: LabelSelector) -> DaemonSet {
    DaemonSet {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        },
        spec: DaemonSetSpec {
            selector,
            ..Default::default()
        },
        ..Default::default()
    }
}

fn foo_is(value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([("foo".to_owned(), value.to_owned())].into()),
        ..Default::default()
    }
}

/// Upstream: TestDaemonSetLister. Where client-go returns an error (no labels, no match), the result is empty.
#[test]
fn the_daemon_sets_of_a_pod_are_those_in_its_namespace_that_select_it() {
    let sets = |sets: Vec<DaemonSet>| {
        let mut writer = StoreWriter::<DaemonSet>::new();
        writer.replace(sets, Some("1")).unwrap();
        Lister::new(writer.store()).of(ResourceType::of::<DaemonSet>())
    };
    let of_pod = |lister: &Lister<DaemonSet>, pod: &Pod| {
        let mut names: Vec<String> = lister
            .selecting(pod, |set| Selector::try_from(&set.spec.selector).ok())
            .iter()
            .map(|set| set.object_name().to_owned())
            .collect();
        names.sort();
        names
    };
    let labelled = |namespace: &str| Build::label(pod(namespace, "pod1"), "foo", "bar");

    // No selection criteria: all of them.
    let lister = sets(vec![
        daemon_set("ns", "foo", LabelSelector::default()),
        daemon_set("ns", "bar", LabelSelector::default()),
        daemon_set("ns", "baz", LabelSelector::default()),
    ]);
    assert_eq!(lister.all().len(), 3);

    // A pod without labels, and sets without selectors.
    let lister = sets(vec![daemon_set("ns", "basic", foo_is("baz"))]);
    assert!(of_pod(&lister, &pod("ns", "pod1")).is_empty());
    let lister = sets(vec![daemon_set("ns", "basic", LabelSelector::default())]);
    assert!(of_pod(&lister, &labelled("ns")).is_empty());

    // By selector and by namespace.
    let lister = sets(vec![
        daemon_set("ns", "bar", foo_is("bar")),
        daemon_set("ns", "baz", foo_is("baz")),
        daemon_set("other", "bar", foo_is("bar")),
    ]);
    assert_eq!(of_pod(&lister, &labelled("ns")), ["bar"]);
    assert!(of_pod(&lister, &labelled("third")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lister_keeps_its_informer_alive() {
    let server = TestServer::new();
    server.create(deployment("shop", "cart"));
    let informer = synced(Informer::<Deployment>::all(server.client())).await;
    let lister = informer.lister();
    drop(informer);

    server.create(deployment("shop", "checkout"));
    wait_for("the lister sees it", || {
        lister.namespace("shop").get("checkout").is_some()
    })
    .await;

    drop(lister);
    server
        .wait_for("the watch is closed", |server| server.open_watches() == 0)
        .await;
}
