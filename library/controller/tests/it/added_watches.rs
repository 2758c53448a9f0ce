//! Watches, namespaces and kinds that come and go while the controller runs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, GroupVersionKind};
use kube_controller::{Controller, Reconcile, Watch, reconcile_fn};
use kube_informers::{Informer, Object, ObjectKey, Scope};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};
use parking_lot::Mutex;
use serde_json::json;

use crate::support::*;

type ClusterKey = (&'static str, ObjectKey);

fn cluster(pods: &Informer<Pod>, name: &'static str) -> Watch<Pod, ClusterKey> {
    Watch::object(pods).with_key(move |key| (name, key))
}

#[tokio::test(start_paused = true)]
async fn stuck_and_stopped_clusters_do_not_affect_the_others() {
    let (east, west, stuck) = (TestServer::new(), TestServer::new(), TestServer::new());
    stuck.fault(RequestMatcher::any().forever(), Fault::hang());
    for server in [&east, &west] {
        server.create(pod("shop", "cart"));
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let controller = Controller::<ClusterKey>::new("test")
        .start(async move |(cluster, key): ClusterKey| {
            seen.lock().push(format!("{cluster} {key}"));
            Ok::<(), String>(())
        })
        .unwrap();
    let informers = [&east, &west, &stuck].map(pods);
    let [in_east, in_west, in_stuck] = &informers;
    let _stuck = controller.add_watch(cluster(in_stuck, "stuck")).unwrap();
    let eastern = controller.add_watch(cluster(in_east, "east")).unwrap();
    let _western = controller.add_watch(cluster(in_west, "west")).unwrap();
    pass(secs(1)).await;
    let mut first = std::mem::take(&mut *log.lock());
    first.sort();
    assert_eq!(first, ["east shop/cart", "west shop/cart"]);
    assert!(eastern.registration().has_synced());

    // One cluster leaves, another one stops.
    drop(eastern);
    in_stuck.shutdown().await;
    for server in [&east, &west] {
        server.create(pod("shop", "new"));
    }
    pass(secs(1)).await;

    assert_eq!(*log.lock(), ["west shop/new"]);
    assert!(controller.add_watch(cluster(in_stuck, "stuck")).is_err());
    controller.shutdown().await.unwrap();
}

/// The keys of the runs since the last call, each with whether its object was in the cache.
fn lister_log<K: Object>(informer: &Informer<K>, log: &Arc<Mutex<Vec<String>>>) -> impl Reconcile<ObjectKey> {
    let (store, log) = (informer.store(), log.clone());
    reconcile_fn(async move |key: ObjectKey| {
        let is = if store.contains(&key) {
            "is cached"
        } else {
            "is gone"
        };
        log.lock().push(format!("{key} {is}"));
        Ok::<(), String>(())
    })
}

fn take(log: &Mutex<Vec<String>>) -> Vec<String> {
    let mut lines = std::mem::take(&mut *log.lock());
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn a_controller_follows_the_namespaces_of_its_informer() {
    let server = TestServer::new();
    for namespace in ["bank", "shop"] {
        server.create(pod(namespace, "cart"));
    }
    let pods = Informer::<Pod>::scoped(server.client(), Scope::namespaces(["shop"])).start();
    let log = Arc::default();
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(lister_log(&pods, &log))
        .unwrap();
    pass(secs(1)).await;
    assert_eq!(take(&log), ["shop/cart is cached"]);

    pods.set_namespaces(["bank", "shop"]).unwrap();
    pass(secs(1)).await;
    assert_eq!(take(&log), ["bank/cart is cached"]);

    // The objects still exist: their absence from the cache must not be mistaken for a deletion.
    pods.set_namespaces(["bank"]).unwrap();
    server.create(pod("shop", "order"));
    server.create(pod("bank", "order"));
    pass(secs(1)).await;
    assert_eq!(take(&log), ["bank/order is cached"]);
    server.delete::<Pod>("bank", "order");
    pass(secs(1)).await;
    assert_eq!(take(&log), ["bank/order is gone"]);
    controller.shutdown().await.unwrap();
}

fn definition() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn widget(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "shop"},
    })
}

#[tokio::test(start_paused = true)]
async fn a_kind_comes_and_goes_with_its_definition() {
    const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = pods(&server);
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets = Informer::dynamic(server.client(), &resource, Scope::all()).start();
    let log = Arc::default();
    let controller = Controller::new("test")
        .watches(Watch::object(&pods))
        .start(lister_log(&widgets, &log))
        .unwrap();
    let watch = controller.add_watch(Watch::object(&widgets)).unwrap();

    // The kind does not exist yet. The rest of the controller works.
    pass(secs(600)).await;
    assert_eq!(take(&log), ["shop/cart is gone"], "the key of the pod");
    assert!(!watch.registration().has_synced());

    server.create(definition());
    server.create(widget("wheel"));
    pass(secs(10)).await;
    assert_eq!(take(&log), ["shop/wheel is cached"]);

    // The server deletes the objects of a definition first, and the watch delivers that.
    server.delete_key(DEFINITIONS, "widgets.example.com");
    pass(secs(10)).await;
    assert_eq!(take(&log), ["shop/wheel is gone"]);
    pass(secs(600)).await;
    server.create(definition());
    server.create(widget("wheel"));
    pass(secs(10)).await;
    assert_eq!(take(&log), ["shop/wheel is cached"]);

    // Deleted and created again while the watch was down: the deletion is found by the next list.
    server.refuse_connections(true);
    server.break_watches();
    server.delete_key(DEFINITIONS, "widgets.example.com");
    pass(secs(60)).await;
    server.create(definition());
    server.create(widget("door"));
    server.refuse_connections(false);
    pass(secs(10)).await;
    assert_eq!(take(&log), ["shop/door is cached", "shop/wheel is gone"]);

    // No busy loop: 30 requests per watch and minute at most, and far fewer in the long run.
    let mut requests = std::collections::BTreeMap::<u64, usize>::new();
    for request in server.requests() {
        if request.resource.starts_with("widgets") {
            *requests.entry(request.at.as_secs() / 60).or_default() += 1;
        }
    }
    assert!(requests.values().all(|count| *count <= 30), "{requests:?}");
    controller.shutdown().await.unwrap();
}
