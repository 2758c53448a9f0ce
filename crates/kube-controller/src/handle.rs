//! `ControllerHandle`: a controller that runs, seen from outside.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_workqueue::{Key, Stats, WorkQueue};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::RunError;
use crate::life::Stop;

/// A controller that runs on a task of its own.
///
/// Dropped, it tells the controller to [end](Self::shutdown) and does not wait for it.
#[must_use = "dropping it ends the controller"]
pub struct ControllerHandle<T: Key> {
    name: Arc<str>,
    queue: WorkQueue<T>,
    stop: oneshot::Sender<Stop>,
    end: End,
}

/// How it ends, once that is known.
enum End {
    Awaited(JoinHandle<Result<(), RunError>>),
    Known(Result<(), RunError>),
}

impl<T: Key> ControllerHandle<T> {
    pub(crate) fn new(
        name: Arc<str>,
        queue: WorkQueue<T>,
        stop: oneshot::Sender<Stop>,
        task: JoinHandle<Result<(), RunError>>,
    ) -> Self {
        Self {
            name,
            queue,
            stop,
            end: End::Awaited(task),
        }
    }

    /// What it is called in logs and statistics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue: to add keys that come from elsewhere, and to read its numbers.
    pub fn queue(&self) -> &WorkQueue<T> {
        &self.queue
    }

    /// The numbers of the queue: runs, retries, panics, what waits, how long.
    pub fn stats(&self) -> Stats {
        self.queue.stats()
    }

    /// Waits until it ends by itself. Cancel-safe, and may be asked again.
    ///
    /// # Errors
    ///
    /// Why it ended; `Ok` if its queue was shut down by somebody else.
    pub async fn wait_for_end(&mut self) -> Result<(), RunError> {
        await_end(&mut self.end, &self.name).await
    }

    /// Ends it: takes no more keys, drops what is queued, waits for what runs, for as long as its
    /// [grace](crate::Controller::grace) allows.
    ///
    /// # Errors
    ///
    /// It had ended before, or runs had to be cancelled.
    #[doc(alias = "ShutDown")]
    pub async fn shutdown(self) -> Result<(), RunError> {
        self.shutdown_as(Stop::AsSet).await
    }

    /// The same with another grace: runs that take longer are cancelled at their next await.
    ///
    /// # Errors
    ///
    /// It had ended before, or runs had to be cancelled.
    pub async fn shutdown_within(self, grace: Duration) -> Result<(), RunError> {
        self.shutdown_as(Stop::Within(grace)).await
    }

    async fn shutdown_as(self, stop: Stop) -> Result<(), RunError> {
        let Self {
            name,
            stop: sender,
            mut end,
            ..
        } = self;
        // Nobody receives it if it has ended already, which is what is asked for.
        sender.send(stop).ok();
        await_end(&mut end, &name).await
    }
}

async fn await_end(end: &mut End, name: &Arc<str>) -> Result<(), RunError> {
    let outcome = match end {
        End::Known(outcome) => return outcome.clone(),
        // Nobody aborts the task, so that the only error is a panic, or a runtime that is shut down.
        End::Awaited(task) => task.await.unwrap_or_else(|_| {
            let controller = name.clone();
            Err(RunError::Died { controller })
        }),
    };
    *end = End::Known(outcome.clone());
    outcome
}

impl<T: Key> fmt::Debug for ControllerHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle")
            .field("name", &self.name)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
