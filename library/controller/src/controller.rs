//! `Controller`: watches, settings, and the two ways to run it.

use std::fmt::{self, Debug};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::{Object, ObjectKey};
use kube_workqueue::{Key, WorkQueue};
use tokio::sync::oneshot;
use tracing::info_span;

use crate::action::IntoReconcile;
use crate::error::{RunError, RunFailure};
use crate::handle::ControllerHandle;
use crate::life::{Life, Stop};
use crate::own_writes::OwnWrites;
use crate::settings::{Hooks, Settings};
use crate::watch::{Feed, Watch};

/// Informers, a queue of keys, and workers that reconcile them.
///
/// See the [crate](crate) for its guarantees. Keys are [`ObjectKey`]s unless its watches map to another type.
#[doc(alias = "NewControllerManagedBy")]
#[must_use = "a controller does nothing until it is started or run"]
pub struct Controller<T: Key = ObjectKey> {
    name: Arc<str>,
    queue: WorkQueue<T>,
    feeds: Vec<Box<dyn Feed<T>>>,
    settings: Settings,
    hooks: Hooks<T>,
}

impl<T: Key> Controller<T> {
    /// A controller with its own queue and the rate limiter
    /// [`controller_default`](kube_workqueue::limiter::controller_default). The name appears in logs and statistics.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let queue = WorkQueue::builder().name(name.clone()).build();
        Self::with_queue(name, queue)
    }

    /// A controller for an existing queue, for example one with a different rate limiter.
    ///
    /// The queue must not have other workers. It is shut down together with the controller.
    pub fn with_queue(name: impl Into<String>, queue: WorkQueue<T>) -> Self {
        Self {
            name: name.into().into(),
            queue,
            feeds: Vec::new(),
            settings: Settings {
                workers: 1,
                max_retries: None,
                sync_within: None,
                grace: None,
            },
            hooks: Hooks {
                own_writes: None,
                on_failure: None,
                costs: Arc::default(),
            },
        }
    }

    /// Reconciles the keys of an informer's events.
    ///
    /// The caller starts the informer, before or afterwards; the controller keeps it alive.
    pub fn watches<K: Object>(mut self, watch: Watch<K, T>) -> Self {
        self.feeds.push(Box::new(watch));
        self
    }

    /// How many keys are reconciled concurrently. Default: 1; zero counts as one.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// Drops a key after this many failed retries, until it is added again. Default: no limit.
    #[doc(alias = "TerminalError")]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.settings.max_retries = Some(retries);
        self
    }

    /// Ends with [`RunError::NotSynced`], which names the cause, if the caches are not synced within this time.
    /// Default: no limit.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn sync_within(mut self, timeout: Duration) -> Self {
        self.settings.sync_within = Some(timeout);
        self
    }

    /// How long a graceful shutdown waits for reconciles in flight. Those that take longer are cancelled at their next await.
    /// Default: no limit.
    #[doc(alias = "GracefulShutdownTimeout")]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// Before each run, waits until the caches hold what earlier runs of the key wrote; see [`OwnWrites`].
    pub fn own_writes(mut self, writes: &OwnWrites<T>) -> Self {
        self.hooks.own_writes = Some(writes.clone());
        self
    }

    /// Called with the key after each run that failed or panicked, once that is logged: to alert, or to report an
    /// Event. It should be fast; a panic in it is treated like a panic of the run.
    pub fn on_failure(mut self, hook: impl Fn(&T, &RunFailure<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.on_failure = Some(Box::new(hook));
        self
    }

    /// The queue, to add keys from other sources (a timer, a webhook) and to read statistics.
    pub fn queue(&self) -> &WorkQueue<T> {
        &self.queue
    }

    /// Its name in logs and statistics.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Key + Sync + Debug> Controller<T> {
    /// Runs in a background task: waits for the caches to sync, then reconciles keys.
    ///
    /// # Errors
    ///
    /// One of its informers has already stopped.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[doc(alias = "Start")]
    pub fn start<Kind>(
        self,
        reconcile: impl IntoReconcile<T, Kind>,
    ) -> Result<ControllerHandle<T>, RunError> {
        let reconcile = reconcile.into_reconcile();
        let (name, queue, costs) = (self.name.clone(), self.queue.clone(), self.hooks.costs.clone());
        let life = self.attach()?;
        let (stop, stopped) = oneshot::channel();
        // A dropped handle means the same as a shutdown.
        let stopped = async { stopped.await.unwrap_or(Stop::Configured) };
        let span = info_span!("controller", name = &*name);
        let task = kube_informers_core::tasks::spawn(span, life.run(stopped, reconcile));
        Ok(ControllerHandle::new(name, queue, costs, stop, task))
    }

    /// Runs in the caller's task until `signal` completes, then shuts down like [`ControllerHandle::shutdown`]. Dropping the
    /// future ends the controller at once and cancels reconciles in flight.
    ///
    /// # Errors
    ///
    /// It ended before the signal, or reconciles had to be cancelled.
    ///
    /// # Panics
    ///
    /// If `Hash`, `Eq`, `Clone` or `Drop` of the key panics, and outside a tokio runtime.
    #[doc(alias = "Run")]
    pub async fn run_until<Kind>(
        self,
        signal: impl Future<Output = ()>,
        reconcile: impl IntoReconcile<T, Kind>,
    ) -> Result<(), RunError> {
        let reconcile = reconcile.into_reconcile();
        let stopped = async {
            signal.await;
            Stop::Configured
        };
        self.attach()?.run(stopped, reconcile).await
    }

    /// Starts to fill the queue.
    fn attach(self) -> Result<Life<T>, RunError> {
        Life::begin(self.name, self.queue, self.feeds, self.settings, self.hooks)
    }
}

impl<T: Key> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("watches", &self.feeds.len())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
