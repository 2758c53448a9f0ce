//! The handle of a replica in its group.

use std::fmt;

use kube_informers_core::shards::Shard;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::driver::Change;
use super::ownership::Ownership;
use crate::error::LeaseError;

/// A replica that has joined its group.
///
/// Dropping it leaves the group in the background: slots are released as soon as no permit is held.
#[must_use = "a dropped member leaves its group"]
pub struct ShardMember {
    ownership: Ownership,
    changes: mpsc::UnboundedReceiver<Change>,
    error: watch::Receiver<Option<LeaseError>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    task: JoinHandle<()>,
}

impl fmt::Debug for ShardMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMember")
            .field("ownership", &self.ownership)
            .finish_non_exhaustive()
    }
}

impl ShardMember {
    pub(super) fn new(
        ownership: Ownership,
        changes: mpsc::UnboundedReceiver<Change>,
        error: watch::Receiver<Option<LeaseError>>,
        stop: CancellationToken,
        task: JoinHandle<()>,
    ) -> Self {
        Self {
            ownership,
            changes,
            error,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            task,
        }
    }

    /// Issues permits to workers.
    pub fn ownership(&self) -> Ownership {
        self.ownership.clone()
    }

    /// The shard this replica owns now, without slots that are being given up.
    pub fn shard(&self) -> Shard {
        self.ownership.shard()
    }

    /// Why the last request failed or what is wrong with a Lease; `None` if all is well. A replica keeps trying.
    pub fn last_error(&self) -> Option<LeaseError> {
        self.error.borrow().clone()
    }

    /// The next change; `None` when the replica has left its group.
    ///
    /// Changes must be read: slots to be given up stay owned until their [`ReleaseGuard`](super::ReleaseGuard) is dropped.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }

    /// Starts leaving: every slot is given up, which [`next`](Self::next) reports before it ends.
    pub fn begin_to_leave(&self) {
        self.stop.cancel();
    }

    /// Leaves the group gracefully. Waits until every permit is dropped. Changes are no longer reported; to keep an informer
    /// up to date while leaving, use [`drive`](Self::drive).
    pub async fn shutdown(self) {
        self.stop.cancel();
        // Guards in the channel are dropped with it, and so delay nothing.
        drop(self.changes);
        joined(self.task).await;
    }

    /// Calls `follow` with the shard of this replica whenever it changes, until `stop` is cancelled; then leaves.
    ///
    /// `follow` receives the whole shard before slots are released and after slots were gained. When it returns,
    /// objects outside the shard must no longer be used; `Informer::set_shard` of `kube-informers` ensures that for an
    /// informer.
    ///
    /// # Errors
    ///
    /// The error of `follow`, for example because the informer has stopped. The replica then leaves the group.
    pub async fn drive<E>(
        mut self,
        stop: CancellationToken,
        mut follow: impl FnMut(&Shard) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut stopping = false;
        let mut failed = None;
        loop {
            // Both branches are cancel-safe.
            let change = tokio::select! {
                change = self.changes.recv() => change,
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.stop.cancel();
                    continue;
                }
            };
            let Some(change) = change else { break };
            if failed.is_some() {
                continue;
            }
            // The gates have the current state, which counts if slots were gained and given up meanwhile. A guard is dropped
            // after this, when its shard is no longer used.
            if let Err(error) = follow(&self.ownership.shard()) {
                failed = Some(error);
                stopping = true;
                self.stop.cancel();
            }
            drop(change);
        }
        joined(self.task).await;
        failed.map_or(Ok(()), Err)
    }
}

async fn joined(task: JoinHandle<()>) {
    if task.await.is_err() {
        tracing::error!("the task of the shard group panicked; its leases were not released and will expire");
    }
}
