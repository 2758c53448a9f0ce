//! `Controller`: what is watched, how it is worked off, and the two ways to run it. Nothing runs before that.

use std::fmt::{self, Debug};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::{Object, ObjectKey};
use kube_workqueue::{Key, WorkQueue};
use tokio::sync::oneshot;
use tracing::info_span;

use crate::action::Reconcile;
use crate::error::RunError;
use crate::handle::ControllerHandle;
use crate::life::{Life, Stop};
use crate::watch::{Feed, Watch};

/// Informers, a queue of keys and workers: from what changed to what is done about it.
///
/// See the [crate](crate) for what it promises. Keys are [`ObjectKey`]s unless its watches say otherwise.
#[doc(alias = "NewControllerManagedBy")]
#[must_use = "a controller does nothing until it is started or run"]
pub struct Controller<T: Key = ObjectKey> {
    name: Arc<str>,
    queue: WorkQueue<T>,
    feeds: Vec<Box<dyn Feed<T>>>,
    settings: Settings,
}

/// What does not depend on the type of the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) workers: usize,
    pub(crate) max_retries: Option<u32>,
    pub(crate) sync_within: Option<Duration>,
    pub(crate) grace: Option<Duration>,
}

impl<T: Key> Controller<T> {
    /// A controller with a queue of its own, whose retries come as
    /// [`controller_default`](kube_workqueue::limiter::controller_default) says. The name is for logs and statistics.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let queue = WorkQueue::builder().name(name.clone()).build();
        Self::with_queue(name, queue)
    }

    /// A controller that works this queue off: for another rate limiter, or another order.
    ///
    /// The queue must not have other workers, and it is shut down together with the controller.
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
        }
    }

    /// Looks into what an informer's events are about.
    ///
    /// The informer has to be started by whoever made it, before or after; the controller keeps it alive.
    pub fn watches<K: Object>(mut self, watch: Watch<K, T>) -> Self {
        self.feeds.push(Box::new(watch));
        self
    }

    /// How many keys are worked on at a time. One unless set; zero counts as one.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// After so many retries that failed as well a key is given up, until it is asked for again. Unless set, never.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.settings.max_retries = Some(retries);
        self
    }

    /// Ends with an error that says what is in the way if the caches are not complete after so long. Unless set, waits
    /// through all errors.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn sync_within(mut self, timeout: Duration) -> Self {
        self.settings.sync_within = Some(timeout);
        self
    }

    /// How long a shutdown waits for runs to end. Those that take longer are cancelled at their next await. Unless set,
    /// it waits until they end.
    #[doc(alias = "GracefulShutdownTimeout")]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// The queue: to add keys that come from elsewhere (a timer, a webhook), and to read its numbers.
    pub fn queue(&self) -> &WorkQueue<T> {
        &self.queue
    }

    /// What it is called in logs and statistics.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Key + Sync + Debug> Controller<T> {
    /// Runs on a task of its own: waits for the caches, then looks into every key.
    ///
    /// # Errors
    ///
    /// One of its informers has stopped already.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[doc(alias = "Start")]
    pub fn start(self, reconcile: impl Reconcile<T>) -> Result<ControllerHandle<T>, RunError> {
        let (name, queue) = (self.name.clone(), self.queue.clone());
        let life = self.attach()?;
        let (stop, stopped) = oneshot::channel();
        // A handle that was dropped says nothing and means the same.
        let stopped = async { stopped.await.unwrap_or(Stop::AsSet) };
        let span = info_span!("controller", name = &*name);
        let task = kube_tasks::spawn(span, life.run(stopped, reconcile));
        Ok(ControllerHandle::new(name, queue, stop, task))
    }

    /// Runs until `signal` is ready, here and now, and ends as [`ControllerHandle::shutdown`] does. Dropped, it ends at
    /// once, and what runs is cancelled.
    ///
    /// # Errors
    ///
    /// It ended before the signal, or runs had to be cancelled.
    ///
    /// # Panics
    ///
    /// If `Hash`, `Eq`, `Clone` or `Drop` of the key does; and outside a tokio runtime.
    #[doc(alias = "Run")]
    pub async fn run_until(
        self,
        signal: impl Future<Output = ()>,
        reconcile: impl Reconcile<T>,
    ) -> Result<(), RunError> {
        let stopped = async {
            signal.await;
            Stop::AsSet
        };
        self.attach()?.run(stopped, reconcile).await
    }

    /// Begins to fill the queue.
    fn attach(self) -> Result<Life<T>, RunError> {
        Life::begin(self.name, self.queue, self.feeds, self.settings)
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
