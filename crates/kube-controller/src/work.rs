//! One run: calls the reconciler for a key and turns how it ended into a verdict for the queue.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use kube_workqueue::{Item, Key, Verdict, WorkQueue};
use tracing::{Instrument, debug, debug_span, error, warn};

use crate::action::{Action, Reconcile};

/// What every run of a controller shares.
pub(crate) struct Work<T: Key, R> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: WorkQueue<T>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) reconcile: R,
}

impl<T: Key + Sync + Debug, R: Reconcile<T>> Work<T, R> {
    pub(crate) async fn run(&self, item: Item<T>) -> Verdict {
        let controller = &*self.controller;
        let span = debug_span!("reconcile", controller, key = ?*item);
        // The call is made inside the future, so that a panic before its first await is caught, too.
        let key = T::clone(&item);
        let run = async { self.reconcile.reconcile(key).await };
        // Unwind safe: the future is not polled after a panic, and the reconciler is told in the documentation.
        let outcome = AssertUnwindSafe(run).catch_unwind().instrument(span).await;
        let retries = item.num_requeues();
        let exhausted = self.max_retries.is_some_and(|most| retries >= most);
        match outcome {
            Ok(Ok(Action::Done)) => Verdict::Forget,
            Ok(Ok(Action::RequeueAfter(delay))) => {
                debug!(controller, key = ?*item, ?delay, "runs again later");
                // It went well, so the next failure is a first one.
                self.queue.forget(&item);
                Verdict::RetryAfter(delay)
            }
            Ok(Err(cause)) if exhausted => {
                error!(controller, key = ?*item, retries, error = %format_args!("{cause:#}"), "run failed, given up");
                Verdict::Forget
            }
            Ok(Err(cause)) => {
                warn!(controller, key = ?*item, retries, error = %format_args!("{cause:#}"), "run failed");
                Verdict::Retry
            }
            Err(panic) => {
                // Not the message, which may quote anything; it was printed where it happened.
                error!(controller, key = ?*item, retries, given_up = exhausted, "run panicked");
                if exhausted {
                    item.forget();
                }
                // The queue's workers count it, take the key back where it has no verdict, and go on.
                resume_unwind(panic)
            }
        }
    }
}
