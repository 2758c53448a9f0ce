//! One run: calls the reconciler for a key and turns its outcome into a verdict for the queue.

use std::error::Error;
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
        // The call is made inside the future, so that a panic before its first await is caught as well.
        let key = T::clone(&item);
        let run = async { self.reconcile.reconcile(key).await };
        // Unwind safe: the future is not polled after a panic; the documentation of the crate says that the reconciler
        // is called again.
        let outcome = AssertUnwindSafe(run).catch_unwind().instrument(span).await;
        let retries = item.num_requeues();
        let exhausted = self.max_retries.is_some_and(|most| retries >= most);
        match outcome {
            Ok(Ok(Action::Done)) => Verdict::Forget,
            Ok(Ok(Action::RequeueAfter(delay))) => {
                debug!(controller, key = ?*item, ?delay, "requeued with a delay");
                // A success resets the back-off.
                self.queue.forget(&item);
                Verdict::RetryAfter(delay)
            }
            Ok(Err(cause)) => {
                let error = chain(&*cause.into());
                if exhausted {
                    error!(controller, key = ?*item, retries, error, "reconcile failed, retries exhausted");
                    return Verdict::Forget;
                }
                warn!(controller, key = ?*item, retries, error, "reconcile failed, will retry");
                Verdict::Retry
            }
            Err(panic) => {
                // Without the message, which may quote anything; the panic hook has printed it.
                error!(controller, key = ?*item, retries, given_up = exhausted, "reconcile panicked");
                if exhausted {
                    item.forget();
                }
                // The workers of the queue count the panic, requeue a key without a verdict, and continue.
                resume_unwind(panic)
            }
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
