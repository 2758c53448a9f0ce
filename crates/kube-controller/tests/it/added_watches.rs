//! Watches that come and go while the controller runs.

use k8s_openapi::api::core::v1::Pod;
use kube_controller::{Controller, Watch};
use kube_informers::{Informer, ObjectKey};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};
use parking_lot::Mutex;
use std::sync::Arc;

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
