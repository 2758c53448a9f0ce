//! The low-level forms: a reflector into a store, pages.

mod paging;
mod stores;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Store;

use crate::support::text_of;

/// `name@version` of everything in a store, sorted.
fn contents<Q: std::hash::Hash + Eq + Clone>(store: &Store<Pod, Q>) -> Vec<String> {
    let mut pods: Vec<String> = store.list().iter().map(|pod| text_of(pod)).collect();
    pods.sort();
    pods
}
