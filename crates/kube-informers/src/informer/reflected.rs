//! A reflector that fills a store, without an informer.

use std::sync::Arc;

use crate::object::Object;
use crate::reflector::Reflector;
use crate::source::ListerWatcher;
use crate::store::{ReflectedStore, Store};

impl<K: Object> Reflector<K> {
    /// A store by namespace and name, and the reflector that keeps it equal to the collection of a source.
    ///
    /// The store has the index by namespace, and [`Store::add_index`] adds others. It is exact at the version that it
    /// reports, objects that cannot be read are quarantined, and a list does not decode what the store holds already, as
    /// with an [`Informer`](crate::Informer). What an informer adds are handlers, the audit, and resyncs.
    #[doc(alias = "NewNamespaceKeyedIndexerAndReflector")]
    pub fn with_store(source: impl ListerWatcher<K>) -> (Store<K>, Self) {
        let target = ReflectedStore::new(source.describe());
        let store = target.store();
        let reflector = Self::new(source, target).known(Arc::new(store.clone()));
        (store, reflector)
    }
}
