//! `WeakInformer`: a reference to an informer that does not keep it alive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::process::InformerInner;
use super::{Alive, Informer, ShutdownReport};
use crate::object::Object;
use crate::reflector::SyncError;

/// A reference to an informer that does not keep it alive.
pub(crate) struct WeakInformer<K: Object> {
    pub(super) shared: Weak<InformerInner<K>>,
    pub(super) alive: Weak<Alive>,
}

/// How waiting for an informer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncOutcome {
    Synced,
    /// Stopped because the last handle was dropped.
    Unused,
    /// Stopped although it is in use.
    Stopped,
}

impl<K: Object> Informer<K> {
    pub(crate) fn downgrade(&self) -> WeakInformer<K> {
        WeakInformer {
            shared: Arc::downgrade(&self.shared),
            alive: Arc::downgrade(&self.alive),
        }
    }
}

impl<K: Object> WeakInformer<K> {
    /// A handle, if the informer is in use and has not stopped.
    pub(crate) fn upgrade(&self) -> Option<Informer<K>> {
        let alive = self.alive.upgrade()?;
        let shared = self.shared.upgrade()?;
        (!shared.stop.is_cancelled()).then_some(Informer { shared, alive })
    }

    /// Whether the informer has stopped or is unused.
    pub(crate) fn is_gone(&self) -> bool {
        self.alive.strong_count() == 0
            || self
                .shared
                .upgrade()
                .is_none_or(|shared| shared.stop.is_cancelled())
    }

    /// Waits until it is synced or has stopped, without keeping it alive.
    pub(crate) async fn sync_outcome(&self) -> SyncOutcome {
        let Some(shared) = self.shared.upgrade() else {
            return SyncOutcome::Unused;
        };
        let mut life = shared.life.subscribe();
        match life.wait_for(|life| life.synced || life.stopped).await {
            Ok(life) if life.synced => SyncOutcome::Synced,
            _ if self.alive.strong_count() == 0 => SyncOutcome::Unused,
            _ => SyncOutcome::Stopped,
        }
    }

    /// Why it is not synced; `None` if it is synced or dropped.
    pub(crate) fn not_synced(&self, after: Duration) -> Option<SyncError> {
        let shared = self.shared.upgrade()?;
        let synced = shared.life.borrow().synced;
        (!synced).then(|| shared.not_synced(after))
    }

    /// Stops it and waits until all its tasks have ended.
    pub(crate) async fn shutdown(&self) -> ShutdownReport {
        match self.shared.upgrade() {
            Some(shared) => shared.shutdown().await,
            None => ShutdownReport::default(),
        }
    }
}

impl<K: Object> Clone for WeakInformer<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            alive: self.alive.clone(),
        }
    }
}
