//! The informers of a factory, whatever the type of their objects: the one place where that type is erased.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::key::Key;
use crate::informer::{Informer, InformerTask, NotSynced, Settled, WeakInformer};
use crate::object::Object;
use crate::task::Spawner;
use futures_core::future::BoxFuture;

/// An informer of a factory, as the factory sees it.
pub(super) trait Entry: Send + Sync {
    /// Whether it can be used no more.
    fn is_gone(&self) -> bool;
    fn is_started(&self) -> bool;
    /// Runs it, unless it was started before, and lets go of it.
    fn start(&self, spawner: &Spawner);
    fn settled(&self) -> BoxFuture<'_, Settled>;
    fn not_synced(&self, after: Duration) -> Option<NotSynced>;
    fn shutdown(&self) -> BoxFuture<'_, ()>;
    fn as_any(&self) -> &dyn Any;
}

pub(super) struct Slot<K: Object> {
    informer: WeakInformer<K>,
    /// Held until the start; without that, what nobody else holds would end before it began.
    waiting: Mutex<Option<(Informer<K>, InformerTask<K>)>>,
}

impl<K: Object> Slot<K> {
    pub(super) fn new(informer: &Informer<K>, task: InformerTask<K>) -> Self {
        Self {
            informer: informer.downgrade(),
            waiting: Mutex::new(Some((informer.clone(), task))),
        }
    }
}

impl<K: Object> Entry for Slot<K> {
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

    fn settled(&self) -> BoxFuture<'_, Settled> {
        Box::pin(self.informer.settled())
    }

    fn not_synced(&self, after: Duration) -> Option<NotSynced> {
        self.informer.not_synced(after)
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        // Taken out of the lock before it is dropped: handlers that were never started go with it.
        let waiting = self.waiting.lock().take();
        Box::pin(async move {
            self.informer.shutdown().await;
            drop(waiting);
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All informers of a factory.
#[derive(Default)]
pub(super) struct Slots {
    entries: HashMap<Key, Arc<dyn Entry>>,
    shutdown: bool,
}

impl Slots {
    pub(super) fn find<K: Object>(&self, key: &Key) -> Option<Informer<K>> {
        let slot = self.entries.get(key)?.as_any().downcast_ref::<Slot<K>>()?;
        slot.informer.upgrade()
    }

    /// The informer under this key, which is the given one if there was none. What is not needed is returned, to be
    /// dropped where no lock is held.
    pub(super) fn find_or_insert<K: Object>(
        &mut self,
        key: Key,
        informer: Informer<K>,
        slot: Slot<K>,
    ) -> (Informer<K>, Vec<Arc<dyn Entry>>) {
        let slot: Arc<dyn Entry> = Arc::new(slot);
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

    /// Forgets the informers that can be used no more.
    #[must_use = "to be dropped where no lock is held"]
    pub(super) fn forget_gone(&mut self) -> Vec<Arc<dyn Entry>> {
        let gone = self.entries.extract_if(|_, entry| entry.is_gone());
        gone.map(|(_, entry)| entry).collect()
    }

    pub(super) fn entries(&self) -> Vec<Arc<dyn Entry>> {
        self.entries.values().cloned().collect()
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shutdown
    }

    /// From now on nothing comes in. Gives what is there, also when called again.
    pub(super) fn shutdown(&mut self) -> Vec<Arc<dyn Entry>> {
        self.shutdown = true;
        self.entries()
    }
}
