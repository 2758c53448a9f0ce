//! The informers of a factory. The only place that erases the type of their objects.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::key::InformerKey;
use crate::informer::{Informer, InformerHealth, InformerTask, ShutdownReport, SyncOutcome, WeakInformer};
use crate::object::Object;
use crate::reflector::SyncError;
use crate::task::Spawner;
use futures_core::future::BoxFuture;

/// An informer of any object type.
pub(super) trait AnyInformer: Send + Sync {
    /// Whether it has stopped or is unused.
    fn is_gone(&self) -> bool;
    fn is_started(&self) -> bool;
    /// Runs it unless it was started before, and drops the factory's handle.
    fn start(&self, spawner: &Spawner);
    fn sync_outcome(&self) -> BoxFuture<'_, SyncOutcome>;
    fn not_synced(&self, after: Duration) -> Option<SyncError>;
    /// How it is doing; `None` if it is unused.
    fn health(&self) -> Option<InformerHealth>;
    fn shutdown(&self) -> BoxFuture<'_, ShutdownReport>;
    fn as_any(&self) -> &dyn Any;
}

pub(super) struct InformerSlot<K: Object> {
    informer: WeakInformer<K>,
    /// Held until the start, so that an informer without other handles does not stop before it runs.
    waiting: Mutex<Option<(Informer<K>, InformerTask<K>)>>,
}

impl<K: Object> InformerSlot<K> {
    pub(super) fn new(informer: &Informer<K>, task: InformerTask<K>) -> Self {
        Self {
            informer: informer.downgrade(),
            waiting: Mutex::new(Some((informer.clone(), task))),
        }
    }
}

impl<K: Object> AnyInformer for InformerSlot<K> {
    fn is_gone(&self) -> bool {
        self.informer.is_gone()
    }

    fn is_started(&self) -> bool {
        self.waiting.lock().is_none()
    }

    fn start(&self, spawner: &Spawner) {
        let Some((informer, task)) = self.waiting.lock().take() else {
            return;
        };
        let reporter = spawner.clone();
        spawner.spawn(format!("informer {}", informer.name()), async move {
            if let Err(died) = task.run().await {
                reporter.report(died);
            }
        });
        drop(informer);
    }

    fn sync_outcome(&self) -> BoxFuture<'_, SyncOutcome> {
        Box::pin(self.informer.sync_outcome())
    }

    fn not_synced(&self, after: Duration) -> Option<SyncError> {
        self.informer.not_synced(after)
    }

    fn health(&self) -> Option<InformerHealth> {
        self.informer.health()
    }

    fn shutdown(&self) -> BoxFuture<'_, ShutdownReport> {
        // Dropped outside of the lock, because it may hold handlers that were never started.
        let waiting = self.waiting.lock().take();
        Box::pin(async move {
            let report = self.informer.shutdown().await;
            drop(waiting);
            report
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All informers of a factory.
#[derive(Default)]
pub(super) struct InformerSlots {
    entries: HashMap<InformerKey, Arc<dyn AnyInformer>>,
    shutdown: bool,
}

impl InformerSlots {
    pub(super) fn find<K: Object>(&self, key: &InformerKey) -> Option<Informer<K>> {
        let slot = self
            .entries
            .get(key)?
            .as_any()
            .downcast_ref::<InformerSlot<K>>()?;
        slot.informer.upgrade()
    }

    /// The informer of this key: an existing one or the given one. Unneeded informers are returned, to be dropped without
    /// holding a lock.
    pub(super) fn find_or_insert<K: Object>(
        &mut self,
        key: InformerKey,
        informer: Informer<K>,
        slot: InformerSlot<K>,
    ) -> (Informer<K>, Vec<Arc<dyn AnyInformer>>) {
        let slot: Arc<dyn AnyInformer> = Arc::new(slot);
        if self.shutdown {
            return (informer, vec![slot]);
        }
        if let Some(found) = self.find(&key) {
            return (found, vec![slot]);
        }
        let mut gone = self.forget_gone();
        gone.extend(self.entries.insert(key, slot));
        (informer, gone)
    }

    /// Removes the informers that have stopped or are unused.
    #[must_use = "drop the result without holding a lock"]
    pub(super) fn forget_gone(&mut self) -> Vec<Arc<dyn AnyInformer>> {
        let gone = self.entries.extract_if(|_, entry| entry.is_gone());
        gone.map(|(_, entry)| entry).collect()
    }

    pub(super) fn entries(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.entries.values().cloned().collect()
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shutdown
    }

    /// Rejects new informers from now on and returns the existing ones. Idempotent.
    pub(super) fn shutdown(&mut self) -> Vec<Arc<dyn AnyInformer>> {
        self.shutdown = true;
        self.entries()
    }
}
