//! Which objects belong to the shard of an informer, and which part of a shard each watch has in the cache.
//!
//! The shard types come from the crate `kube-informers-core`. [`Shard::membership`] is the one decision about an object; the
//! codec, the source and the store all use it. `ShardTracker` is the state of one watch.

pub(crate) mod tracker;

use crate::object::Object;
use crate::quarantine::BadObject;

pub use kube_informers_core::shards::{
    Membership, ParseRangeError, Shard, ShardField, ShardFieldError, ShardRange, shard_hash,
};
pub(crate) use tracker::ShardTracker;

/// Whether an object belongs to a shard. [`Membership::Unknown`] if the shard is by UID and the object has none.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::shard::{Membership, Shard, ShardField, shard_membership};
///
/// let mut pod = Pod::default();
/// let shard = Shard::nothing(ShardField::Uid);
/// assert_eq!(shard_membership(&shard, &pod), Membership::Unknown);
/// pod.metadata.uid = Some("8f0c".into());
/// assert_eq!(shard_membership(&shard, &pod), Membership::Outside);
/// ```
pub fn shard_membership<K: Object>(shard: &Shard, object: &K) -> Membership {
    let namespace = object.object_namespace().unwrap_or_default();
    shard.membership(object.object_uid(), Some(namespace))
}

/// The same for an object that could not be read. Its namespace is unknown if its key is.
pub(crate) fn membership_of_unreadable(shard: &Shard, bad: &BadObject) -> Membership {
    let namespace = bad.key.as_ref().map(|key| key.namespace().unwrap_or_default());
    shard.membership(bad.uid.as_deref(), namespace)
}
