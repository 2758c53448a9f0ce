//! `ControllerHandle`: the handle of a running controller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::error::StoppedError;
use kube_informers::{Object, Registration};
use kube_workqueue::{Key, Stats, WorkQueue};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::costs::{Costs, KeyCost, RunCounts};
use crate::error::RunError;
use crate::life::Stop;
use crate::watch::{Feed, Watch};

/// A controller that runs in a background task.
///
/// Dropping the handle starts a [shutdown](Self::shutdown) without waiting for it.
#[must_use = "dropping the handle shuts the controller down"]
pub struct ControllerHandle<T: Key> {
    name: Arc<str>,
    queue: WorkQueue<T>,
    costs: Arc<Mutex<Costs<T>>>,
    stop: oneshot::Sender<Stop>,
    end: End,
}

/// The outcome, once it is known.
enum End {
    Awaited(JoinHandle<Result<(), RunError>>),
    Known(Result<(), RunError>),
}

impl<T: Key> ControllerHandle<T> {
    pub(crate) fn new(
        name: Arc<str>,
        queue: WorkQueue<T>,
        costs: Arc<Mutex<Costs<T>>>,
        stop: oneshot::Sender<Stop>,
        task: JoinHandle<Result<(), RunError>>,
    ) -> Self {
        Self {
            name,
            queue,
            costs,
            stop,
            end: End::Awaited(task),
        }
    }

    /// What an exporter reads.
    #[cfg(feature = "metrics")]
    pub(crate) fn parts(&self) -> (Arc<str>, WorkQueue<T>, Arc<Mutex<Costs<T>>>) {
        (self.name.clone(), self.queue.clone(), self.costs.clone())
    }

    /// Its name in logs and statistics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue, to add keys from other sources.
    pub fn queue(&self) -> &WorkQueue<T> {
        &self.queue
    }

    /// The statistics of the queue: runs, retries, panics, depth, latencies.
    pub fn stats(&self) -> Stats {
        self.queue.stats()
    }

    /// Adds a watch to the running controller: for namespaces, clusters or kinds that come and go.
    ///
    /// Unlike the watches it was started with, this one is optional: the controller neither waits for its cache nor ends when
    /// its informer stops, so that one unreachable cluster affects no other. A reconciler that needs the whole cache checks
    /// [`Informer::has_synced`](kube_informers::Informer::has_synced). Dropping the result removes the watch; keys that are
    /// queued already are still reconciled.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// use kube_controller::{ControllerHandle, Watch};
    /// use kube_informers::{Informer, ObjectKey};
    ///
    /// # fn example(
    /// #     controller: &ControllerHandle<(String, ObjectKey)>, client: kube::Client,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let pods = Informer::<Pod>::all(client).start();
    /// let east = controller.add_watch(Watch::object(&pods).with_key(|key| ("east".to_owned(), key)))?;
    /// // …
    /// drop(east); // the cluster is gone
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The informer has stopped.
    pub fn add_watch<K: Object>(&self, watch: Watch<K, T>) -> Result<AddedWatch, StoppedError> {
        let feeding = Box::new(watch).attach(&self.name, self.queue.clone())?;
        Ok(AddedWatch {
            registration: feeding.registration,
        })
    }

    /// The results of its runs so far.
    pub fn run_counts(&self) -> RunCounts {
        self.costs.lock().counts
    }

    /// The keys that took the most time, the most expensive first. Up to 256 keys are tracked.
    pub fn most_expensive_keys(&self, limit: usize) -> Vec<KeyCost<T>> {
        self.costs.lock().top(limit)
    }

    /// Waits until the controller ends by itself. Cancel-safe, and may be called again.
    ///
    /// # Errors
    ///
    /// Why it ended; `Ok` if its queue was shut down from outside.
    pub async fn wait_for_end(&mut self) -> Result<(), RunError> {
        await_end(&mut self.end, &self.name).await
    }

    /// Shuts down gracefully: accepts no more keys, drops queued ones, and waits for reconciles in flight, for as long as the
    /// [grace period](crate::Controller::grace) allows.
    ///
    /// # Errors
    ///
    /// It had ended before, or reconciles had to be cancelled.
    #[doc(alias = "ShutDown")]
    pub async fn shutdown(self) -> Result<(), RunError> {
        self.shutdown_as(Stop::Configured).await
    }

    /// Like [`shutdown`](Self::shutdown) with another grace period. Reconciles that take longer are cancelled at their next
    /// await.
    ///
    /// # Errors
    ///
    /// It had ended before, or reconciles had to be cancelled.
    pub async fn shutdown_within(self, timeout: Duration) -> Result<(), RunError> {
        self.shutdown_as(Stop::Within(timeout)).await
    }

    async fn shutdown_as(self, stop: Stop) -> Result<(), RunError> {
        let Self {
            name,
            stop: sender,
            mut end,
            ..
        } = self;
        // Without a receiver the controller has ended already.
        sender.send(stop).ok();
        await_end(&mut end, &name).await
    }
}

async fn await_end(end: &mut End, name: &Arc<str>) -> Result<(), RunError> {
    let outcome = match end {
        End::Known(outcome) => return outcome.clone(),
        // The task is never aborted, so the only errors are a panic and a runtime shutdown.
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

/// A watch that was added to a running controller: [`ControllerHandle::add_watch`]. Dropping it removes the watch.
#[derive(Debug)]
#[must_use = "dropping it removes the watch"]
pub struct AddedWatch {
    registration: Registration,
}

impl AddedWatch {
    /// The handler behind it: its backlog, and whether its initial objects are queued.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl Drop for AddedWatch {
    fn drop(&mut self) {
        drop(self.registration.remove());
    }
}
