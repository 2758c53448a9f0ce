//! `LowLevelInformer`: a source, a queue and a process function.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::delta::Delta;
use crate::object::Object;
use crate::queue::{BoxError, DEFAULT_BATCH, DeltaQueue, Failure, PopInfo};
use crate::reflector::{
    Backoff, BackoffConfig, Reflector, ReflectorConfig, ReflectorHandle, StreamEnd, Transform,
};
use crate::source::{KnownObjects, ListerWatcher};

type OnError = Box<dyn FnMut(&BoxError) + Send>;
type Process<K> = Box<dyn FnMut(&[Delta<K>], PopInfo) -> Result<(), Failure> + Send>;

/// Passes the deltas of a source through a queue to a process function, one batch at a time.
///
/// There are two forms. [`new`](Self::new) is for programs that keep their own state instead of a [`Store`](crate::Store):
/// your queue, your process function. [`with_handler`](Self::with_handler) returns a store and calls one handler.
/// Everything runs on the task that polls [`run`](Self::run).
///
/// A panic of the process function propagates from `run`. A [`DeltaFifo`](crate::queue::DeltaFifo) needs `known`, the keys
/// that you hold. Without it, deletes of objects that were popped before are dropped, as in client-go.
///
/// An error of the function is logged and passed to [`on_process_error`](Self::on_process_error). If it requests a
/// requeue, the deltas are delivered again after an increasing back-off; otherwise they are dropped.
#[doc(alias = "ProcessBatchFunc")]
#[doc(alias = "PopProcessFunc")]
#[doc(alias = "cache.New")]
#[doc(alias = "Controller")]
#[doc(alias = "Config")]
#[doc(alias = "RetryOnError")]
#[doc(alias = "ProcessFunc")]
#[must_use = "an informer does nothing until it is run"]
pub struct LowLevelInformer<K> {
    reflector: Reflector<K>,
    queue: Arc<dyn DeltaQueue<K>>,
    process: Process<K>,
    on_error: Option<OnError>,
    batch: usize,
    backoff: BackoffConfig,
}

impl<K> fmt::Debug for LowLevelInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowLevelInformer")
            .field("batch", &self.batch)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

impl<K: Object> LowLevelInformer<K> {
    /// An informer that passes the batches of `queue` to `process`.
    pub fn new(
        source: impl ListerWatcher<K>,
        queue: Arc<dyn DeltaQueue<K>>,
        process: impl FnMut(&[Delta<K>], PopInfo) -> Result<(), Failure> + Send + 'static,
    ) -> Self {
        Self {
            reflector: Reflector::new(source, queue.clone()),
            queue,
            process: Box::new(process),
            on_error: None,
            batch: DEFAULT_BATCH,
            backoff: BackoffConfig::default(),
        }
    }

    /// How the source is listed and watched, and the resync period.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.backoff = config.backoff;
        self.reflector = self.reflector.config(config);
        self
    }

    /// Sets the resync period, as [`ReflectorConfig::resync`] does. A later [`config`](Self::config) overrides it.
    #[doc(alias = "FullResyncPeriod")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.reflector = self.reflector.resync(period);
        self
    }

    /// Sets a condition for resyncs, which is evaluated once per period.
    #[doc(alias = "ShouldResync")]
    pub fn should_resync(mut self, condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.reflector = self.reflector.should_resync(condition);
        self
    }

    /// Changes or drops each object before it reaches the queue.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform<K>) -> Self {
        self.reflector = self.reflector.transform(transform);
        self
    }

    /// Called when a list or watch ends, normally or not.
    #[doc(alias = "WatchErrorHandler")]
    pub fn on_stream_end(mut self, hook: impl Fn(&StreamEnd<'_>) + Send + Sync + 'static) -> Self {
        self.reflector = self.reflector.on_stream_end(hook);
        self
    }

    /// The largest number of deltas in a batch. Default: 1000.
    pub fn batch(mut self, deltas: usize) -> Self {
        self.batch = deltas.max(1);
        self
    }

    /// Called with each error of the process function.
    pub fn on_process_error(mut self, hook: impl FnMut(&BoxError) + Send + 'static) -> Self {
        self.on_error = Some(Box::new(hook));
        self
    }

    /// A handle to the reflector.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn handle(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// The queue. Its [`synced`](DeltaQueue::synced) waits until the initial list has been processed.
    #[doc(alias = "HasSynced")]
    #[doc(alias = "HasSyncedChecker")]
    pub fn queue(&self) -> Arc<dyn DeltaQueue<K>> {
        self.queue.clone()
    }

    /// Sets the objects the process function holds, which a list need not decode again.
    pub(super) fn known(mut self, known: Arc<dyn KnownObjects<K>>) -> Self {
        self.reflector = self.reflector.known(known);
        self
    }

    /// Runs until `stop` is cancelled. Deltas still in the queue are not processed.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            reflector,
            queue,
            mut process,
            mut on_error,
            batch,
            backoff,
        } = self;
        let mut backoff = Backoff::new(backoff);
        let consume = async {
            while let Some(batch) = queue.pop_batch(batch).await {
                let mut requeued = false;
                let result = batch.process(|deltas, info| {
                    let result = process(deltas, info);
                    requeued = result.as_ref().is_err_and(|failure| failure.is_requeue());
                    result
                });
                match result {
                    Ok(_) => backoff.reset(),
                    Err(error) => {
                        warn!(%error, requeued, "the process function failed");
                        if let Some(hook) = &mut on_error {
                            hook(&error);
                        }
                        if requeued {
                            sleep(backoff.next(0.0, None)).await;
                        }
                    }
                }
            }
        };
        // Both are ended by dropping them: pops and the reflector are cancel-safe.
        tokio::select! {
            biased;
            () = reflector.run(stop) => {}
            () = consume => {}
        }
        queue.close();
    }
}
