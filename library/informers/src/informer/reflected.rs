//! A reflector that fills a store, without an informer.

use std::sync::Arc;

use parking_lot::Mutex;

use super::problem_log::ProblemLog;
use crate::delta::Delta;
use crate::object::Object;
use crate::reflector::Reflector;
use crate::source::ListerWatcher;
use crate::store::{DeltaWriter, Origin, Prepared, Store};
use crate::target::{Target, TargetError};

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

/// The write side of an informer's store as a target, without the events.
struct ReflectedStore<K> {
    writer: Mutex<DeltaWriter<K>>,
    store: Store<K>,
    problems: Mutex<ProblemLog>,
}

impl<K: Object> ReflectedStore<K> {
    /// `resource` describes the objects, for the log.
    fn new(resource: String) -> Self {
        let writer = DeltaWriter::new();
        Self {
            store: writer.store(),
            problems: Mutex::new(ProblemLog::new(resource)),
            writer: Mutex::new(writer),
        }
    }

    fn store(&self) -> Store<K> {
        self.store.clone()
    }

    fn apply(&self, deltas: Vec<Delta<K>>) {
        let prepared = Prepared::new(&self.store, Origin::default(), deltas);
        let mut events = Vec::new();
        let applied = self.writer.lock().apply(prepared, &mut events);
        self.problems.lock().report(&self.store, &applied.problems);
    }
}

impl<K: Object> Target<K> for ReflectedStore<K> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        self.apply(vec![delta]);
        Ok(())
    }

    fn accept_all(&self, deltas: &mut dyn Iterator<Item = Delta<K>>) -> Vec<TargetError> {
        self.apply(deltas.collect());
        Vec::new()
    }
}
