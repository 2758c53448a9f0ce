//! `KnownKeys`: the objects that the consumer of a `DeltaFifo` holds.

use std::sync::Arc;

use kube_informers::{Object, ObjectKey, Store};

/// The objects the consumer of a [`DeltaFifo`](crate::DeltaFifo) holds, usually those of its store.
///
/// It is called while the queue is locked, so it must be fast and must not call the queue. The consumer must apply a
/// batch before it ends the batch.
#[doc(alias = "KeyListerGetter")]
#[doc(alias = "KnownObjects")]
pub trait KnownKeys<K>: Send + Sync + 'static {
    /// All keys, including those of objects that could never be read. Otherwise their deletion would be ignored.
    #[doc(alias = "ListKeys")]
    fn keys(&self) -> Vec<ObjectKey>;

    /// Returns an object, if it is held and readable.
    #[doc(alias = "GetByKey")]
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// Whether [`keys`](Self::keys) contains this key.
    fn contains(&self, key: &ObjectKey) -> bool;
}

/// The objects of a store, and the keys in quarantine.
impl<K: Object> KnownKeys<K> for Store<K> {
    fn keys(&self) -> Vec<ObjectKey> {
        let mut keys = Store::keys(self);
        let unreadable = self.quarantine().into_iter().map(|entry| entry.key);
        keys.extend(unreadable.filter(|key| !Store::contains(self, key)));
        keys
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        Store::get(self, key)
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        Store::contains(self, key)
            || self.quarantine_len() > 0 && self.quarantine().iter().any(|entry| entry.key == *key)
    }
}
