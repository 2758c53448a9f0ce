//! The lifecycle of a controller: fill the queue, wait for the caches, work, shut down. Dropping the future stops everything
//! it started.

use std::fmt::Debug;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{select_all, try_join_all};
use kube_informers::error::{HandlerEndedError, SyncError};
use kube_workqueue::{Key, WorkQueue, workers};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::action::Reconcile;
use crate::error::RunError;
use crate::settings::{Hooks, Settings};
use crate::watch::{Feed, Feeding};
use crate::work::Work;

/// How long to wait for cancelled reconciles. They end at once, except those that block a thread.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(100);

/// When a controller that waits for its caches first logs what it waits for, and how often it repeats it.
const FIRST_REPORT: Duration = Duration::from_secs(5);
const NEXT_REPORT: Duration = Duration::from_secs(60);

/// A shutdown request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// With the configured grace period.
    Configured,
    /// With this grace period.
    Within(Duration),
}

/// A controller whose queue is being filled.
pub(crate) struct Life<T: Key> {
    controller: Arc<str>,
    inflow: Inflow<T>,
    settings: Settings,
    hooks: Hooks<T>,
}

impl<T: Key> Life<T> {
    pub(crate) fn begin(
        controller: Arc<str>,
        queue: WorkQueue<T>,
        feeds: Vec<Box<dyn Feed<T>>>,
        settings: Settings,
        hooks: Hooks<T>,
    ) -> Result<Self, RunError> {
        let mut inflow = Inflow {
            queue,
            feedings: Vec::with_capacity(feeds.len()),
        };
        for feed in feeds {
            match feed.attach(&controller, inflow.queue.clone()) {
                Ok(feeding) => inflow.feedings.push(feeding),
                Err(source) => return Err(RunError::NotAdded { controller, source }),
            }
        }
        Ok(Self {
            controller,
            inflow,
            settings,
            hooks,
        })
    }
}

impl<T: Key + Sync + Debug> Life<T> {
    pub(crate) async fn run(
        mut self,
        stop: impl Future<Output = Stop>,
        reconcile: impl Reconcile<T>,
    ) -> Result<(), RunError> {
        let mut stop = pin!(stop);
        let controller = self.controller.clone();
        let name = &*controller;
        // Dropping either branch loses nothing: the caches fill independently.
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(()),
            synced = self.synced() => synced?,
        }
        info!(
            controller = name,
            workers = self.settings.workers,
            "caches are synced, starting workers"
        );

        let hooks = Hooks {
            own_writes: self.hooks.own_writes.take(),
            on_failure: self.hooks.on_failure.take(),
            costs: self.hooks.costs.clone(),
        };
        let work = Arc::new(Work {
            controller: self.controller.clone(),
            queue: self.inflow.queue.clone(),
            max_retries: self.settings.max_retries,
            reconcile,
            hooks,
        });
        let workers = workers(self.settings.workers, &self.inflow.queue, move |item| {
            let work = work.clone();
            async move { work.run(item).await }
        });
        // Dropping it, or this future, aborts the workers.
        let mut finished = Box::pin(workers.join());

        // The first branch to complete decides. Of the others only the workers continue, below.
        let (grace, reason) = tokio::select! {
            biased;
            stop = &mut stop => match stop {
                Stop::Configured => (self.settings.grace, None),
                Stop::Within(grace) => (Some(grace), None),
            },
            source = self.inflow.interrupted() => {
                let controller = self.controller.clone();
                (self.settings.grace, Some(RunError::InformerStopped { controller, source }))
            }
            () = &mut finished => {
                info!(controller = name, "the queue was shut down and is empty");
                return Ok(());
            }
        };

        self.inflow.close().await;
        info!(
            controller = name,
            "shutting down, waiting for reconciles in flight"
        );
        match grace {
            None => finished.await,
            Some(grace) => {
                if timeout(grace, &mut finished).await.is_err() {
                    let running = self.inflow.queue.stats().running;
                    warn!(
                        controller = name,
                        running,
                        ?grace,
                        "grace period exceeded, cancelling reconciles"
                    );
                    drop(finished);
                    // Cancelled reconciles requeue their keys, so a drained queue means that all have ended.
                    timeout(CANCEL_TIMEOUT, self.inflow.queue.drain()).await.ok();
                    // The reason for the shutdown takes precedence.
                    return Err(reason.unwrap_or(RunError::Aborted {
                        controller: self.controller.clone(),
                        running,
                        grace,
                    }));
                }
            }
        }
        reason.map_or(Ok(()), Err)
    }

    /// Logs, from time to time, which informers are not synced and why. A forgotten `start` would otherwise be silent.
    async fn report_obstacles(&self) {
        let began = Instant::now();
        sleep(FIRST_REPORT).await;
        loop {
            let (controller, waited) = (&*self.controller, began.elapsed());
            let mut named = false;
            for feeding in &self.inflow.feedings {
                if let Some(obstacle) = (feeding.obstacle)().await {
                    named = true;
                    let advice = advice(&obstacle);
                    warn!(controller, ?waited, "waits for a cache: {obstacle}{advice}");
                }
            }
            if !named {
                warn!(
                    controller,
                    ?waited,
                    "the caches are synced; mapping their objects to keys takes long"
                );
            }
            sleep(NEXT_REPORT).await;
        }
    }

    /// Waits until every cache is synced and mapped to keys.
    async fn synced(&self) -> Result<(), RunError> {
        let feedings = &self.inflow.feedings;
        let all = try_join_all(feedings.iter().map(|feeding| feeding.registration.synced()));
        let all = all.map(|synced| match synced {
            Ok(_) => Ok(()),
            Err(source) => Err(RunError::InformerStopped {
                controller: self.controller.clone(),
                source,
            }),
        });
        let limit = async {
            match self.settings.sync_within {
                Some(after) => {
                    sleep(after).await;
                    after
                }
                None => pending().await,
            }
        };
        // The losing branches hold no state that matters: handlers sync independently of who waits for them.
        let after = tokio::select! {
            biased;
            synced = all => return synced,
            after = limit => after,
            () = self.report_obstacles() => unreachable!("it reports until it is dropped"),
        };
        let mut source = None;
        for feeding in feedings {
            source = (feeding.obstacle)().await.map(Box::new);
            if source.is_some() {
                break;
            }
        }
        let controller = self.controller.clone();
        Err(RunError::NotSynced {
            controller,
            after,
            source,
        })
    }
}

/// What to do about an informer that is not synced.
fn advice(obstacle: &SyncError) -> &'static str {
    match obstacle.is_not_started() {
        true => "; start it: `InformerBuilder::start`, or `start` of its factory",
        false => "",
    }
}

/// The handlers that fill the queue. They are removed on drop: without workers they would fill it without bound.
struct Inflow<T: Key> {
    queue: WorkQueue<T>,
    feedings: Vec<Feeding>,
}

impl<T: Key> Inflow<T> {
    /// Waits until an informer stops.
    async fn interrupted(&self) -> HandlerEndedError {
        let ends = self
            .feedings
            .iter()
            .map(|feeding| feeding.registration.wait_for_end().boxed());
        let ends: Vec<_> = ends.collect();
        if ends.is_empty() {
            return pending().await;
        }
        select_all(ends).await.0
    }

    /// Removes the handlers and drops queued keys, so that workers end after the keys in flight.
    async fn close(&self) {
        for feeding in &self.feedings {
            // A handler call in flight finds the queue closed.
            drop(feeding.registration.remove());
        }
        // Queued objects are part of the initial list of the next controller.
        self.queue.drain_within(Duration::ZERO).await.ok();
    }
}

impl<T: Key> Drop for Inflow<T> {
    fn drop(&mut self) {
        for feeding in &self.feedings {
            drop(feeding.registration.remove());
        }
        self.queue.shutdown();
    }
}
