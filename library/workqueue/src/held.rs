//! A key held by a worker, and the verdict that ends its run.

use crate::Key;
use crate::priority::Priority;
use crate::shared::QueueCore;
use crate::state::{Again, Run, Taken};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The delay of a key whose rate limiter panicked.
const WITHOUT_LIMITER: Duration = Duration::from_secs(1);

/// The result of processing a key.
///
/// The future given to [`workers`](crate::workers()) or [`process`](crate::WorkQueue::process) may return a verdict, or
/// anything that converts to one: `()` is [`Done`](Self::Done), `Ok(())` is [`Forget`](Self::Forget) and `Err(_)` is
/// [`Retry`](Self::Retry). The error itself is dropped, so log it first (`.inspect_err(…)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The run is finished: client-go's `Done` without `Forget`. The failure count is kept if the key was added again
    /// meanwhile, for example by [`add_rate_limited`](crate::WorkQueue::add_rate_limited).
    Done,
    /// The run succeeded, or will never succeed: the key's failures are forgotten.
    Forget,
    /// The run failed: retry after the delay of the rate limiter.
    Retry,
    /// Retry after this delay, without counting a failure.
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

/// A key held by a worker, without the guard: must be settled or abandoned.
#[must_use]
pub(crate) struct Held<T> {
    shared: Arc<QueueCore<T>>,
    key: T,
    /// `None` once it is finished.
    run: Option<Run>,
}

impl<T: Key> Held<T> {
    pub(crate) fn new(shared: &Arc<QueueCore<T>>, taken: Taken<T>) -> Self {
        Held {
            shared: shared.clone(),
            key: taken.key,
            run: Some(taken.run),
        }
    }

    pub(crate) fn key(&self) -> &T {
        &self.key
    }

    /// Whether it is neither settled nor abandoned.
    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    pub(crate) fn num_requeues(&self) -> u32 {
        self.shared.num_requeues(&self.key)
    }

    pub(crate) fn priority(&self) -> Priority {
        self.run.map_or(Priority::NORMAL, |run| run.priority())
    }

    /// Ends the run with a verdict.
    pub(crate) fn settle(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done => self.end(false),
            Verdict::Forget => self.end(true),
            Verdict::RetryAfter(delay) => {
                let again = Again {
                    delay,
                    priority: self.priority(),
                    limited: false,
                };
                self.end_again(again);
            }
            Verdict::Retry => {
                let (again, panic) = self.limited();
                self.end_again(again);
                if let Some(panic) = panic {
                    resume_unwind(panic);
                }
            }
        }
    }

    /// Ends the run of a worker without a verdict: the key is retried, rate-limited.
    pub(crate) fn abandon(&mut self) {
        // Often called while a panic unwinds, so a panic of the limiter must not propagate; the panic hook has reported
        // it.
        let (again, _) = self.limited();
        self.shared.change(|state, _| state.meter.abandoned += 1);
        self.end_again(again);
    }

    /// Calls the limiter. If it panics, the key must not be lost: it waits a second, and the panic is returned.
    fn limited(&self) -> (Again, Option<Box<dyn std::any::Any + Send>>) {
        let asked = catch_unwind(AssertUnwindSafe(|| self.shared.delay(&self.key, Instant::now())));
        let (delay, panic) = match asked {
            Ok(delay) => (delay, None),
            Err(panic) => (WITHOUT_LIMITER, Some(panic)),
        };
        (
            Again {
                delay,
                priority: self.priority(),
                limited: true,
            },
            panic,
        )
    }

    #[inline]
    fn end(&mut self, forget: bool) {
        if let Some(run) = self.run.take() {
            self.shared.finish(run, &self.key, forget);
        }
    }

    fn end_again(&mut self, again: Again) {
        if let Some(run) = self.run.take() {
            self.shared.finish_again(run, again);
        }
    }
}
