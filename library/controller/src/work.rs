//! One run: calls the reconciler for a key and turns its outcome into a verdict for the queue.

use std::error::Error;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_workqueue::{Item, Key, Verdict, WorkQueue};
use tokio::time::Instant;
use tracing::{Instrument, debug, debug_span, error, warn};

use crate::action::{Action, Reconcile};
use crate::error::RunFailure;
use crate::retry::retry_after;
use crate::settings::Hooks;

/// What every run of a controller shares.
pub(crate) struct Work<T: Key, R> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: WorkQueue<T>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) reconcile: R,
    pub(crate) hooks: Hooks<T>,
}

impl<T: Key + Sync + Debug, R: Reconcile<T>> Work<T, R> {
    pub(crate) async fn run(&self, item: Item<T>) -> Verdict {
        let controller = &*self.controller;
        if let Some(writes) = &self.hooks.own_writes
            && let Err(unseen) = writes.wait_for_caches(&item).await
        {
            let error = chain(&unseen);
            warn!(controller, key = ?*item, error, "not reconciled, will retry");
            self.hooks.costs.lock().counts.stale += 1;
            return Verdict::Retry;
        }
        let span = debug_span!("reconcile", controller, key = ?*item);
        // The call is made inside the future, so that a panic before its first await is caught as well.
        let key = T::clone(&item);
        let run = async { self.reconcile.reconcile(key).await };
        // Unwind safe: the future is not polled after a panic; the documentation of the crate says that the reconciler
        // is called again.
        let began = Instant::now();
        let outcome = AssertUnwindSafe(run).catch_unwind().instrument(span).await;
        let retries = item.num_requeues();
        let exhausted = self.max_retries.is_some_and(|most| retries >= most);
        self.count(&item, &outcome, began.elapsed(), exhausted);
        match outcome {
            Ok(Ok(Action::Done)) => Verdict::Forget,
            Ok(Ok(Action::RequeueAfter(delay))) => {
                debug!(controller, key = ?*item, ?delay, "requeued with a delay");
                // A success resets the back-off.
                self.queue.forget(&item);
                Verdict::RetryAfter(delay)
            }
            Ok(Err(cause)) => {
                let cause = cause.into();
                let error = chain(&*cause);
                let delay = retry_after(&*cause).filter(|_| !exhausted);
                match (exhausted, delay) {
                    (true, _) => {
                        error!(controller, key = ?*item, retries, error, "reconcile failed, retries exhausted")
                    }
                    (_, Some(delay)) => {
                        warn!(controller, key = ?*item, retries, error, ?delay, "the server asked for a delay");
                    }
                    (_, None) => {
                        warn!(controller, key = ?*item, retries, error, "reconcile failed, will retry")
                    }
                }
                self.report(
                    &item,
                    &RunFailure::Error {
                        error: &*cause,
                        retries,
                        given_up: exhausted,
                    },
                );
                match (exhausted, delay) {
                    (true, _) => Verdict::Forget,
                    (_, Some(delay)) => Verdict::RetryAfter(delay),
                    (_, None) => Verdict::Retry,
                }
            }
            Err(panic) => {
                // Without the message, which may quote anything; the panic hook has printed it.
                error!(controller, key = ?*item, retries, given_up = exhausted, "reconcile panicked");
                self.report(
                    &item,
                    &RunFailure::Panic {
                        retries,
                        given_up: exhausted,
                    },
                );
                if exhausted {
                    item.forget();
                }
                // The workers of the queue count the panic, requeue a key without a verdict, and continue.
                resume_unwind(panic)
            }
        }
    }

    fn count<E, P>(&self, key: &T, outcome: &Result<Result<Action, E>, P>, took: Duration, exhausted: bool) {
        let mut costs = self.hooks.costs.lock();
        let failed = !matches!(outcome, Ok(Ok(_)));
        costs.add(key, took, failed);
        costs.counts.runs += 1;
        match outcome {
            Ok(Ok(Action::RequeueAfter(_))) => costs.counts.requeued += 1,
            Ok(Ok(_)) => {}
            Ok(Err(_)) => costs.counts.errors += 1,
            Err(_) => costs.counts.panics += 1,
        }
        costs.counts.exhausted += u64::from(failed && exhausted);
    }

    fn report(&self, key: &T, failure: &RunFailure<'_>) {
        if let Some(hook) = &self.hooks.on_failure {
            hook(key, failure);
        }
    }
}

/// The texts of an error and of its sources. Many errors repeat the text of their source; that is not printed twice.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot update the status")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("request failed: {0}")]
    struct Middle(#[source] io::Error);

    #[test]
    fn a_chain_contains_every_cause_once() {
        let error = Outer(Middle(io::Error::other("connection reset")));

        assert_eq!(
            chain(&error),
            "cannot update the status: request failed: connection reset"
        );
    }
}
