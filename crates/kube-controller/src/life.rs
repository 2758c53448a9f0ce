//! The life of a controller: fill the queue, wait for the caches, work, finish. Everything it started is gone when it
//! is.

use std::fmt::Debug;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{select_all, try_join_all};
use kube_informers::error::HandlerEndedError;
use kube_workqueue::{Key, WorkQueue, workers};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::action::Reconcile;
use crate::controller::Settings;
use crate::error::RunError;
use crate::watch::{Feed, Feeding};
use crate::work::Work;

/// How long cancelled runs may take to go. They go at once, except those that block a thread; nobody can wait for these.
const LAST_BREATH: Duration = Duration::from_millis(100);

/// How a controller is told to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// With the grace of its settings.
    AsSet,
    /// With this one.
    Within(Duration),
}

/// A controller whose queue is being filled.
pub(crate) struct Life<T: Key> {
    controller: Arc<str>,
    inflow: Inflow<T>,
    settings: Settings,
}

impl<T: Key> Life<T> {
    pub(crate) fn begin(
        controller: Arc<str>,
        queue: WorkQueue<T>,
        feeds: Vec<Box<dyn Feed<T>>>,
        settings: Settings,
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
        })
    }
}

impl<T: Key + Sync + Debug> Life<T> {
    pub(crate) async fn run(
        self,
        stop: impl Future<Output = Stop>,
        reconcile: impl Reconcile<T>,
    ) -> Result<(), RunError> {
        let mut stop = pin!(stop);
        let name = &*self.controller;
        // Dropping either side loses nothing: the caches fill by themselves.
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(()),
            synced = self.synced() => synced?,
        }
        info!(
            controller = name,
            workers = self.settings.workers,
            "caches are complete, begins to work"
        );

        let work = Arc::new(Work {
            controller: self.controller.clone(),
            queue: self.inflow.queue.clone(),
            max_retries: self.settings.max_retries,
            reconcile,
        });
        let workers = workers(self.settings.workers, &self.inflow.queue, move |item| {
            let work = work.clone();
            async move { work.run(item).await }
        });
        // Dropped, it aborts the workers: so does whoever drops this future.
        let mut finished = Box::pin(workers.join());

        // The first to be ready decides; the others are looked at no more, except the workers, which go on below.
        let (grace, reason) = tokio::select! {
            biased;
            stop = &mut stop => match stop {
                Stop::AsSet => (self.settings.grace, None),
                Stop::Within(grace) => (Some(grace), None),
            },
            source = self.inflow.interrupted() => {
                let controller = self.controller.clone();
                (self.settings.grace, Some(RunError::InformerStopped { controller, source }))
            }
            () = &mut finished => {
                info!(controller = name, "its queue was shut down and is empty");
                return Ok(());
            }
        };

        self.inflow.close().await;
        info!(controller = name, "ends, finishing what runs");
        match grace {
            None => finished.await,
            Some(grace) => {
                if timeout(grace, &mut finished).await.is_err() {
                    let running = self.inflow.queue.stats().running;
                    warn!(
                        controller = name,
                        running,
                        ?grace,
                        "cancels what was not finished in time"
                    );
                    drop(finished);
                    // Cancelled runs give their keys back when they go, so an empty queue means that they are gone.
                    timeout(LAST_BREATH, self.inflow.queue.shutdown_with_drain())
                        .await
                        .ok();
                    // Why it ended is the better answer than how.
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

    /// Waits until every cache is complete and mapped to keys.
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
        let Some(after) = self.settings.sync_within else {
            return all.await;
        };
        if let Ok(synced) = timeout(after, all).await {
            return synced;
        }
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

/// What fills the queue. Dropped, it does so no more: handlers without workers would fill it for ever.
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

    /// Lets nothing in any more and drops what is queued, so that workers end with what they have in hand.
    async fn close(&self) {
        for feeding in &self.feedings {
            // A call that is under way finds the queue closed.
            drop(feeding.registration.remove());
        }
        // What is queued is in the caches, and so in the first lists of whoever comes next.
        self.queue.shutdown_within(Duration::ZERO).await.ok();
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
