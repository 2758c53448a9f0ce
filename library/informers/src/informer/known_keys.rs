//! What a `DeltaFifo` asks for the objects its consumer holds: a store, or the part of a member watch.

use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;
use crate::queue::KnownKeys;
use crate::store::Store;

/// A store is what a [`DeltaFifo`](crate::queue::DeltaFifo) asks, if the consumer applies its deltas to that store.
impl<K: Object> KnownKeys<K> for Store<K> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.known_keys()
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        Store::get(self, key)
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        self.knows(key)
    }
}

/// The objects of one member watch, for the keyed queue.
pub(super) struct MemberKeys<K> {
    pub(super) store: Store<K>,
    pub(super) member: usize,
}

impl<K: Object> KnownKeys<K> for MemberKeys<K> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.store.known_keys_of(self.member)
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.get(key)
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        self.store.knows(key)
    }
}
