//! One view over several clusters that come and go.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{AddClusterError, ClusterEvent, ClusterKey, Clusters, Controller, Watch};
use kube_informers::{Informer, ObjectKey};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};
use parking_lot::Mutex;

use crate::support::*;

fn server() -> TestServer {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server
}

/// The events of a view.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn of(clusters: &Clusters<Pod>) -> Self {
        let events = Self::default();
        let log = events.clone();
        clusters.add_event_handler(move |event: ClusterEvent<Pod>| log.0.lock().push(event.to_string()));
        events
    }

    async fn take(&self) -> Vec<String> {
        pass(secs(1)).await;
        let mut lines = std::mem::take(&mut *self.0.lock());
        lines.sort();
        lines
    }
}

fn listed(clusters: &Clusters<Pod>) -> Vec<String> {
    let objects = clusters.list();
    let keys = objects.iter().map(|(cluster, pod)| {
        let key = ObjectKey::of(&**pod);
        ClusterKey::new(cluster.clone(), key).to_string()
    });
    keys.collect()
}

#[tokio::test(start_paused = true)]
async fn objects_of_all_clusters_are_read_and_delivered_with_their_cluster() {
    let (east, west) = (server(), server());
    let clusters = Clusters::new();
    let (in_east, in_west) = (pods(&east), pods(&west));
    clusters.add("east", &in_east).unwrap();
    // One cluster is added before the handler, the other one afterwards.
    let events = Events::of(&clusters);
    clusters.add("west", &in_west).unwrap();

    assert_eq!(
        events.take().await,
        [
            "east: added shop/cart (initial)",
            "west: added shop/cart (initial)"
        ]
    );
    assert_eq!(listed(&clusters), ["east:shop/cart", "west:shop/cart"]);
    west.create(pod("shop", "order"));
    assert_eq!(events.take().await, ["west: added shop/order"]);
    let order = ObjectKey::namespaced("shop", "order");
    assert!(clusters.get(&ClusterKey::new("west", order.clone())).is_some());
    assert!(clusters.get(&ClusterKey::new("east", order.clone())).is_none());
    assert!(clusters.get(&ClusterKey::new("north", order)).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_removed_cluster_leaves_the_view_and_its_name_is_free() {
    let (east, west) = (server(), server());
    let clusters = Clusters::new();
    let events = Events::of(&clusters);
    clusters.add("east", &pods(&east)).unwrap();
    clusters.add("west", &pods(&west)).unwrap();
    events.take().await;
    let error = clusters.add("west", &pods(&east)).unwrap_err();
    assert!(matches!(error, AddClusterError::Duplicate { .. }), "{error}");

    let removed = clusters.remove("west").await.unwrap();

    assert_eq!(listed(&clusters), ["east:shop/cart"]);
    west.create(pod("shop", "order"));
    assert_eq!(events.take().await, ["west left"]);
    assert!(!removed.is_stopped(), "it belongs to the caller");
    assert!(clusters.remove("west").await.is_none());
    clusters.add("west", &removed).unwrap();
    assert_eq!(
        events.take().await,
        [
            "west: added shop/cart (initial)",
            "west: added shop/order (initial)"
        ]
    );

    // An informer that stops leaves as well.
    removed.shutdown().await;
    assert_eq!(events.take().await, ["west left"]);
    clusters.remove("west").await.unwrap();
    let error = clusters.add("west", &removed).unwrap_err();
    assert!(matches!(error, AddClusterError::Stopped(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_cluster_affects_no_other() {
    let (east, west, stuck) = (server(), server(), server());
    stuck.fault(RequestMatcher::any().forever(), Fault::hang());
    let clusters = Clusters::new();
    let events = Events::of(&clusters);
    for (name, server) in [("stuck", &stuck), ("east", &east), ("west", &west)] {
        clusters.add(name, &pods(server)).unwrap();
    }
    events.take().await;
    east.refuse_connections(true);
    east.break_watches();
    pass(secs(300)).await;

    west.create(pod("shop", "order"));
    assert_eq!(events.take().await, ["west: added shop/order"]);
    assert_eq!(
        listed(&clusters),
        ["east:shop/cart", "west:shop/cart", "west:shop/order"],
        "the last known state stays readable"
    );
    let states = clusters.states();
    let synced: Vec<_> = states
        .iter()
        .map(|state| (&*state.cluster, state.synced))
        .collect();
    assert_eq!(synced, [("east", true), ("stuck", false), ("west", true)]);
    assert!(states[0].freshness >= Some(secs(300)), "{:?}", states[0]);
    assert!(states[2].freshness < Some(secs(100)), "{:?}", states[2]);
}

#[tokio::test(start_paused = true)]
async fn a_controller_watches_clusters_that_are_added_later() {
    let (east, west) = (server(), server());
    let clusters = Clusters::new();
    let view = clusters.clone();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let controller = Controller::<ClusterKey>::new("fleet")
        .start(async move |key: ClusterKey| {
            let is = match (view.informer(&key.cluster), view.get(&key)) {
                (None, _) => "has no cluster",
                (_, None) => "is gone",
                (_, Some(_)) => "is cached",
            };
            seen.lock().push(format!("{key} {is}"));
            Ok::<(), String>(())
        })
        .unwrap();
    clusters.add("east", &pods(&east)).unwrap();
    clusters.watch_with(&controller, Watch::object);
    clusters.add("west", &pods(&west)).unwrap();
    let take = async || {
        pass(secs(1)).await;
        let mut lines = std::mem::take(&mut *log.lock());
        lines.sort();
        lines
    };
    assert_eq!(
        take().await,
        ["east:shop/cart is cached", "west:shop/cart is cached"]
    );

    east.delete::<Pod>("shop", "cart");
    assert_eq!(take().await, ["east:shop/cart is gone"]);
    let removed = clusters.remove("west").await.unwrap();
    west.create(pod("shop", "order"));
    assert_eq!(take().await, [""; 0]);
    controller
        .queue()
        .add(ClusterKey::new("west", ObjectKey::namespaced("shop", "cart")));
    assert_eq!(take().await, ["west:shop/cart has no cluster"]);
    removed.shutdown().await;
    controller.shutdown().await.unwrap();
}

/// Handlers keep informers alive; a view that is gone must not.
#[tokio::test(start_paused = true)]
async fn a_dropped_view_releases_its_informers() {
    let east = server();
    let clusters = Clusters::new();
    let events = Events::of(&clusters);
    clusters
        .add("east", &Informer::<Pod>::all(east.client()).start())
        .unwrap();
    events.take().await;

    drop(clusters);

    assert_eq!(events.take().await, ["east left"]);
    east.assert_nothing_open();
}
