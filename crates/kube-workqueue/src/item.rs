//! [`Item`]: a key in the hands of a worker, and the ways to give it back.

use crate::Key;
use crate::lease::Lease;
use crate::priority::Priority;
use crate::shared::QueueCore;
use crate::state::{Again, Finished, Run, Taken};
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a key waits if the rate limiter panicked when asked.
const WITHOUT_LIMITER: Duration = Duration::from_secs(1);

/// What a worker has to say about a run.
///
/// The future given to [`workers`](crate::workers()) or [`process`](crate::WorkQueue::process) may return one, or
/// anything that converts to one: `()` is [`Done`](Self::Done), `Ok(())` is [`Forget`](Self::Forget) and `Err(_)`
/// is [`Retry`](Self::Retry). The error itself is dropped, so log it first (`.inspect_err(…)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The run is over, and that is all: client-go's `Done` without `Forget`. The failure count stays if the key
    /// was asked for again meanwhile, say by [`add_rate_limited`](crate::WorkQueue::add_rate_limited).
    Done,
    /// It worked, or it never will: the run is over and the failures are forgotten.
    Forget,
    /// It failed: again, after the delay that the rate limiter asks for.
    Retry,
    /// Again, after this delay, without counting a failure.
    RetryAfter(Duration),
}

impl From<()> for Verdict {
    fn from((): ()) -> Self {
        Verdict::Done
    }
}

impl<E> From<Result<(), E>> for Verdict {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Verdict::Forget,
            Err(_) => Verdict::Retry,
        }
    }
}

impl<E> From<Result<Verdict, E>> for Verdict {
    fn from(result: Result<Verdict, E>) -> Self {
        result.unwrap_or(Verdict::Retry)
    }
}

/// A key in the hands of one worker; no other gets it until this is gone.
///
/// It dereferences to the key. It ends with a verdict: [`forget`](Self::forget), [`retry`](Self::retry),
/// [`retry_after`](Self::retry_after) or [`done`](Self::done). Dropping it ends the run in any case, so a key can
/// never be stuck, and **a key whose item is dropped without a verdict comes back rate-limited**: that is what
/// happens in a panic, in a future that is cancelled (`timeout`, `select!`, an aborted task) and on a `?` that
/// returns early, and in none of them was the work finished. Rust gives a destructor no means to tell these from
/// the normal end of a scope, so the safe reading is the only sound one.
///
/// Inside [`workers`](crate::workers()) and [`process`](crate::WorkQueue::process) it *can* be told, because they
/// see whether your future completed. There, an item may simply go out of scope: if the future completes, its
/// output is the verdict; if it panics or is cancelled, the key comes back.
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
#[must_use = "an item dropped without a verdict comes back rate-limited"]
pub struct Item<T: Key> {
    /// Empty only while it is being consumed or dropped.
    held: Option<Held<T>>,
    lease: Option<Arc<Lease<T>>>,
}

impl<T: Key> Item<T> {
    pub(crate) fn new(held: Held<T>) -> Self {
        Item {
            held: Some(held),
            lease: None,
        }
    }

    /// Leaves it to the holder of the lease to judge this item if it ends without a verdict.
    pub(crate) fn under(mut self, lease: &Arc<Lease<T>>) -> Self {
        self.lease = Some(lease.clone());
        self
    }

    /// It worked, or it never will: ends the run and forgets the key's failures.
    #[doc(alias = "Forget")]
    pub fn forget(self) {
        self.finish(Verdict::Forget);
    }

    /// It failed: ends the run and adds the key again after the delay that the rate limiter asks for, at the
    /// priority it had.
    #[doc(alias = "AddRateLimited")]
    pub fn retry(self) {
        self.finish(Verdict::Retry);
    }

    /// Ends the run and adds the key again after this delay, at the priority it had, without counting a failure.
    #[doc(alias = "AddAfter")]
    pub fn retry_after(self, delay: Duration) {
        self.finish(Verdict::RetryAfter(delay));
    }

    /// Ends the run and says nothing about success or failure; see [`Verdict::Done`].
    #[doc(alias = "Done")]
    pub fn done(self) {
        self.finish(Verdict::Done);
    }

    /// Ends the run with this verdict.
    pub fn finish(mut self, verdict: impl Into<Verdict>) {
        let verdict = verdict.into();
        if let Some(held) = self.held.take() {
            if let Some(lease) = self.lease.take() {
                lease.settled();
            }
            held.settle(verdict);
        }
    }

    /// How often the key failed since it was last forgotten.
    #[doc(alias = "NumRequeues")]
    pub fn num_requeues(&self) -> u32 {
        let held = self.held();
        held.shared.num_requeues(&held.key)
    }

    /// The priority with which the key was queued.
    pub fn priority(&self) -> Priority {
        self.held().run.priority()
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
        &self.held().key
    }
}

impl<T: Key + fmt::Debug> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(&self.held().key).finish()
    }
}

impl<T: Key> Drop for Item<T> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        let unclaimed = match &self.lease {
            Some(lease) => lease.give_back(held),
            None => Some(held),
        };
        if let Some(held) = unclaimed {
            held.abandon();
        }
    }
}

/// A key in the hands of a worker, without the guard: must be settled or abandoned.
#[must_use]
pub(crate) struct Held<T> {
    shared: Arc<QueueCore<T>>,
    key: T,
    run: Run,
}

impl<T: Key> Held<T> {
    pub(crate) fn new(shared: &Arc<QueueCore<T>>, taken: Taken<T>) -> Self {
        Held {
            shared: shared.clone(),
            key: taken.key,
            run: taken.run,
        }
    }

    /// Ends the run as the worker said.
    pub(crate) fn settle(self, verdict: Verdict) {
        match verdict {
            Verdict::Done => self.end(None, false),
            Verdict::Forget => self.end(None, true),
            Verdict::RetryAfter(delay) => {
                let again = Again {
                    delay,
                    priority: self.run.priority(),
                    limited: false,
                };
                self.end(Some(again), false);
            }
            Verdict::Retry => {
                let (again, panic) = self.limited();
                self.end(Some(again), false);
                if let Some(panic) = panic {
                    resume_unwind(panic);
                }
            }
        }
    }

    /// Ends the run of a worker that did not say how it went: the key comes back rate-limited.
    pub(crate) fn abandon(self) {
        // Often called while a panic unwinds, so a panic of the limiter must not get out; its hook has reported it.
        let (again, _) = self.limited();
        self.shared.change(|state, _| state.meter.abandoned += 1);
        self.end(Some(again), false);
    }

    /// Asks the limiter. Should it panic, the key must not be lost: it waits a second, and the panic is returned.
    fn limited(&self) -> (Again, Option<Box<dyn std::any::Any + Send>>) {
        let asked = catch_unwind(AssertUnwindSafe(|| self.shared.delay(&self.key, Instant::now())));
        let (delay, panic) = match asked {
            Ok(delay) => (delay, None),
            Err(panic) => (WITHOUT_LIMITER, Some(panic)),
        };
        (
            Again {
                delay,
                priority: self.run.priority(),
                limited: true,
            },
            panic,
        )
    }

    fn end(self, again: Option<Again>, forget: bool) {
        let finished = match again {
            Some(_) => self
                .shared
                .change(|state, now| state.finish(self.run, again, now)),
            None => self
                .shared
                .change_often(|state, now| state.finish(self.run, None, now)),
        };
        match finished {
            // If the key has left, the limiter is asked to forget it only if it ever heard of it.
            Finished::Gone(gone) => self.shared.release([gone]),
            Finished::Live if forget => self.shared.forget(&self.key),
            Finished::Live | Finished::Unknown => {}
        }
    }
}
