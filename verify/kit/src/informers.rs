//! Informers on the embedded server.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube_informers::reflector::Jitter;
use kube_informers::{Informer, InformerBuilder, Object};
use kube_testserver::TestServer;

use crate::time::secs;

/// An informer of all pods, with reproducible jitter.
pub fn pods(server: &TestServer) -> InformerBuilder<Pod> {
    Informer::<Pod>::all(server.client()).configure(|config| config.jitter = Jitter::Seeded(7))
}

/// The same without watch-lists: a paged list, then a watch.
pub fn paged_pods(server: &TestServer) -> InformerBuilder<Pod> {
    pods(server).configure(|config| config.watch_list = false)
}

/// The same of ConfigMaps.
pub fn maps(server: &TestServer) -> InformerBuilder<ConfigMap> {
    Informer::<ConfigMap>::all(server.client()).configure(|config| config.jitter = Jitter::Seeded(7))
}

/// A synced informer of all pods.
pub async fn synced_pods(server: &TestServer) -> Informer<Pod> {
    synced(pods(server)).await
}

/// Starts an informer, and waits until it is synced.
pub async fn synced<K: Object>(builder: InformerBuilder<K>) -> Informer<K> {
    let informer = builder.start();
    informer.synced_within(secs(30)).await.expect("it syncs");
    informer
}

/// Makes `owner` the controller of an object.
pub fn owned<K: Resource>(mut object: K, owner: &impl Resource<DynamicType = ()>) -> K {
    object.meta_mut().owner_references = Some(Vec::from_iter(owner.controller_owner_ref(&())));
    object
}
