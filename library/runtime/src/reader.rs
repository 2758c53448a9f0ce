//! `Reader`: the methods of kube-runtime's `Store` over the cache of an informer.

use std::fmt;
use std::sync::Arc;

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use kube_informers::error::StoppedError;
use kube_informers::{Informer, Object, Store};
use kube_runtime::reflector::{Lookup, ObjectRef};

/// Reads the cache of an informer as if it were kube-runtime's `Store`: for code that is to be moved without being
/// touched. Cheap to clone; holds no copy of anything, and keeps the informer alive.
///
/// New code reads [`Store`] and [`Lister`](kube_informers::Lister), which have indexes and snapshots at constant cost.
pub struct Reader<K: Object> {
    informer: Informer<K>,
    store: Store<K>,
}

impl<K: Object> Reader<K> {
    /// A reader of the informer's cache.
    pub fn new(informer: &Informer<K>) -> Self {
        Self {
            informer: informer.clone(),
            store: informer.store(),
        }
    }

    /// Waits until everything that was there is in the cache. Nothing has to be polled for that.
    ///
    /// # Errors
    ///
    /// The informer stopped before that.
    pub async fn wait_until_ready(&self) -> Result<(), StoppedError> {
        self.informer.synced().await
    }

    /// The object that is referred to. The namespace is ignored for objects that live in none.
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>>
    where
        K: Lookup,
    {
        let namespaces = [key.namespace.as_deref(), None];
        let mut found = namespaces
            .into_iter()
            .map(|namespace| self.store.get((namespace, &key.name)));
        found.find_map(|object| object)
    }

    /// All objects. [`Store::list`] gives them without copying every pointer.
    pub fn state(&self) -> Vec<Arc<K>> {
        self.store.list().iter().cloned().collect()
    }

    /// The first object found for which `predicate` holds; the predicate runs outside of all locks.
    pub fn find(&self, predicate: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        self.store.list().iter().find(|object| predicate(object)).cloned()
    }

    /// The objects for which `predicate` holds; the predicate runs outside of all locks.
    pub fn state_filter(&self, predicate: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let snapshot = self.store.list();
        snapshot
            .iter()
            .filter(|object| predicate(object))
            .cloned()
            .collect()
    }

    /// The objects whose labels match `selector`.
    pub fn state_filter_selector(&self, selector: &Selector) -> Vec<Arc<K>>
    where
        K: ResourceExt,
    {
        self.state_filter(|object| selector.matches(ResourceExt::labels(object)))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }
}

impl<K: Object> Clone for Reader<K> {
    fn clone(&self) -> Self {
        Self {
            informer: self.informer.clone(),
            store: self.store.clone(),
        }
    }
}

/// The informer only: the objects may be Secrets.
impl<K: Object> fmt::Debug for Reader<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("informer", &self.informer)
            .finish_non_exhaustive()
    }
}
