//! Common indexes: by owner, by label, by node.
//!
//! Each function returns the index of a store and adds it on the first call. An index is named after the field that it
//! indexes, so all callers share one. Every informer also has an index by namespace.

use std::hash::Hash;

use k8s_openapi::api::core::v1::Pod;

use crate::object::Object;
use crate::store::{Index, Store};

/// The name of the index by the UIDs of the owners.
pub const OWNER_UID: &str = "metadata.ownerReferences.uid";

/// The name of the index by all labels.
pub const LABELS: &str = "metadata.labels";

/// The name of the index by node.
pub const NODE_NAME: &str = "spec.nodeName";

/// Objects by the UIDs of all their owners.
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
/// # use kube_informers::{Informer, Object, indexes};
/// # fn example(pods: Informer<Pod>, replica_set: &ReplicaSet) {
/// let by_owner = indexes::owner_uid(&pods.store());
/// let of_this_set = by_owner.get(replica_set.object_uid().unwrap_or_default());
/// # }
/// ```
pub fn owner_uid<K: Object, Q: Hash + Eq + Clone>(store: &Store<K, Q>) -> Index<K, Q> {
    store.index_or_add(OWNER_UID, |object: &K| {
        let uids = object.object_owners().map(|owner| owner.uid.to_owned());
        uids.collect::<Vec<String>>()
    })
}

/// Objects by all their labels, each as a value `key=value`. An index by one [`label`](label()) is smaller.
pub fn labels<K: Object, Q: Hash + Eq + Clone>(store: &Store<K, Q>) -> Index<K, Q> {
    store.index_or_add(LABELS, |object: &K| {
        let labels = object
            .object_labels()
            .map(|(key, value)| format!("{key}={value}"));
        labels.collect::<Vec<String>>()
    })
}

/// Objects by the value of one label.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informers::{Informer, indexes};
/// # fn example(pods: Informer<Pod>) {
/// let by_app = indexes::label(&pods.store(), "app");
/// println!("{} pods of the web shop", by_app.count("web"));
/// # }
/// ```
pub fn label<K: Object, Q: Hash + Eq + Clone>(store: &Store<K, Q>, key: &str) -> Index<K, Q> {
    let wanted = key.to_owned();
    store.index_or_add(&label_name(key), move |object: &K| {
        object.object_label(&wanted).map(str::to_owned)
    })
}

/// The name of the index by one label: `metadata.labels[app]`.
pub fn label_name(key: &str) -> String {
    format!("{LABELS}[{key}]")
}

/// Pods by the node they run on. Unscheduled pods have no value.
pub fn node_name<Q: Hash + Eq + Clone>(pods: &Store<Pod, Q>) -> Index<Pod, Q> {
    node_name_by(pods, |pod| pod.spec.as_ref()?.node_name.as_deref())
}

/// The same for other objects with a node name: projections of pods, volume attachments, CSI nodes.
pub fn node_name_by<K: Object, Q: Hash + Eq + Clone>(
    store: &Store<K, Q>,
    node: impl Fn(&K) -> Option<&str> + Send + Sync + 'static,
) -> Index<K, Q> {
    store.index_or_add(NODE_NAME, move |object: &K| node(object).map(str::to_owned))
}
