//! [`Item`]: a key held by a worker, and the ways to finish it.

use crate::Key;
use crate::held::{Held, Verdict};
use crate::lease::Lease;
use crate::priority::Priority;
use crate::shared::QueueCore;
use crate::state::Taken;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A key held by one worker; no other worker receives it until the item is finished or dropped.
///
/// It dereferences to the key. Finish it with a verdict: [`forget`](Self::forget), [`retry`](Self::retry),
/// [`retry_after`](Self::retry_after) or [`done`](Self::done). Dropping it always ends the run, so a key can never be
/// stuck, and **a key whose item is dropped without a verdict is retried, rate-limited**. That covers a panic, a
/// cancelled future (`timeout`, `select!`, an aborted task) and an early return by `?`, where the work was not
/// finished. A destructor cannot distinguish these from the normal end of a scope, so the safe interpretation is used
/// for all of them.
///
/// [`workers`](crate::workers()) and [`process`](crate::WorkQueue::process) *can* distinguish them, because they see
/// whether your future completed. There, an item may simply go out of scope: if the future completes, its output is the
/// verdict; if it panics or is cancelled, the key is retried.
///
/// ```
/// # use kube_workqueue::WorkQueue;
/// # async fn reconcile(_: &str) -> Result<(), ()> { Ok(()) }
/// async fn worker(queue: WorkQueue<String>) {
///     while let Some(item) = queue.get().await {
///         match reconcile(&item).await {
///             Ok(()) => item.forget(),
///             Err(_) if item.num_requeues() < 15 => item.retry(),
///             Err(_) => item.forget(),
///         }
///     }
/// }
/// ```
#[must_use = "an item dropped without a verdict is retried, rate-limited"]
pub struct Item<T: Key> {
    /// `None` only while it is dropped.
    held: Option<Held<T>>,
    lease: Option<Arc<Lease<T>>>,
}

impl<T: Key> Item<T> {
    pub(crate) fn new(shared: &Arc<QueueCore<T>>, taken: Taken<T>) -> Self {
        Item {
            held: Some(Held::new(shared, taken)),
            lease: None,
        }
    }

    /// Leaves the verdict of an item that is dropped to the runner of the lease.
    pub(crate) fn under(mut self, lease: &Arc<Lease<T>>) -> Self {
        self.lease = Some(lease.clone());
        self
    }

    /// Success, or permanent failure: ends the run and forgets the key's failures.
    #[doc(alias = "Forget")]
    pub fn forget(self) {
        self.finish(Verdict::Forget);
    }

    /// Failure: ends the run and adds the key again after the delay of the rate limiter, at the same priority.
    #[doc(alias = "AddRateLimited")]
    pub fn retry(self) {
        self.finish(Verdict::Retry);
    }

    /// Ends the run and adds the key again after this delay, at the same priority, without counting a failure.
    #[doc(alias = "AddAfter")]
    pub fn retry_after(self, delay: Duration) {
        self.finish(Verdict::RetryAfter(delay));
    }

    /// Ends the run without reporting success or failure; see [`Verdict::Done`].
    #[doc(alias = "Done")]
    pub fn done(self) {
        self.finish(Verdict::Done);
    }

    /// Ends the run with this verdict.
    pub fn finish(mut self, verdict: impl Into<Verdict>) {
        let verdict = verdict.into();
        // Finished in place: the time of a whole run is short enough for a move of the key to matter.
        if let Some(held) = &mut self.held {
            if let Some(lease) = self.lease.take() {
                lease.settled();
            }
            held.settle(verdict);
        }
    }

    /// The number of failures of the key since it was last forgotten.
    #[doc(alias = "NumRequeues")]
    pub fn num_requeues(&self) -> u32 {
        self.held().num_requeues()
    }

    /// The priority with which the key was queued.
    pub fn priority(&self) -> Priority {
        self.held().priority()
    }

    fn held(&self) -> &Held<T> {
        match &self.held {
            Some(held) => held,
            None => unreachable!("an item holds its key until it is consumed"),
        }
    }
}

impl<T: Key> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held().key()
    }
}

impl<T: Key + fmt::Debug> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(self.held().key()).finish()
    }
}

impl<T: Key> Drop for Item<T> {
    fn drop(&mut self) {
        let Some(held) = self.held.take_if(|held| held.is_running()) else {
            return;
        };
        let unclaimed = match &self.lease {
            Some(lease) => lease.give_back(held),
            None => Some(held),
        };
        if let Some(mut held) = unclaimed {
            held.abandon();
        }
    }
}
