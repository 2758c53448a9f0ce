//! The handle of a replica in its group.

use std::fmt;

use kube_shards::Shard;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::driver::Change;
use super::ownership::Ownership;
use crate::error::LeaseError;

/// A replica that takes part in its group.
///
/// Dropping it leaves the group in the background: what is owned is given up as soon as no permit is out.
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

    /// What workers ask before they work.
    pub fn ownership(&self) -> Ownership {
        self.ownership.clone()
    }

    /// What is ours at this moment, without what is being given up.
    pub fn shard(&self) -> Shard {
        self.ownership.shard()
    }

    /// Why the last request failed; `None` if it succeeded. A replica that is refused keeps trying.
    pub fn last_error(&self) -> Option<LeaseError> {
        self.error.borrow().clone()
    }

    /// The next change; `None` when the replica has left its group.
    ///
    /// Changes must be read: what shall be given up stays ours until its [`ReleaseGuard`](super::ReleaseGuard) is dropped.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }

    /// Asks to leave: everything is given up, which [`next`](Self::next) tells, and then ends.
    pub fn begin_to_leave(&self) {
        self.stop.cancel();
    }

    /// Leaves the group, and returns when the other replicas know. Waits for every permit that is out. Changes are not
    /// told any more; informers that should follow are better off with [`drive`](Self::drive).
    pub async fn shutdown(self) {
        self.stop.cancel();
        // Guards in the queue go with it, and so do not hold anything up.
        drop(self.changes);
        joined(self.task).await;
    }

    /// Lets something follow what is ours, an informer for example, until `stop` is cancelled; then leaves.
    ///
    /// `follow` is told the whole shard each time it changes, before anything is given up and after something was gained.
    /// When it returns, it must not look at anything else any more; `Informer::set_shard` of `kube-informers` keeps that.
    ///
    /// # Errors
    ///
    /// What `follow` failed with, a stopped informer for instance. The replica leaves the group then.
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
            // Of what is gained and given up again meanwhile, the present state counts, which the gates have. A guard is
            // dropped behind this, when nothing looks at its shard any more.
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
