//! `Controller`: a source, a `DeltaFifo` and a process function.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::Object;
use kube_informers::queue::DEFAULT_BATCH;
use kube_informers::reflector::{Reflector, ReflectorHandle};
use kube_informers::source::ListerWatcher;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::delta::Delta;
use crate::delta_fifo::DeltaFifo;
use crate::pop::{BoxError, Failure, PopInfo};

/// The delays before requeued deltas are popped again: the first one, doubled until the last.
const FIRST_DELAY: Duration = Duration::from_millis(800);
const LAST_DELAY: Duration = Duration::from_secs(30);

type OnError = Box<dyn FnMut(&BoxError) + Send>;
type Process<K> = Box<dyn FnMut(&[Delta<K>], PopInfo) -> Result<(), Failure> + Send>;

/// Passes the deltas of a source through a [`DeltaFifo`] to a process function, one batch at a time.
///
/// There are two forms. [`new`](Self::new) is for programs that keep their own state instead of a
/// [`Store`](kube_informers::Store): your queue, your process function. [`with_handler`](Self::with_handler) returns a
/// store and calls one handler. Everything runs on the task that polls [`run`](Self::run).
///
/// A panic of the process function propagates from `run`. Without [known objects](DeltaFifo::known), deletes of objects that
/// were popped before are dropped, as in client-go.
///
/// An error of the function is logged and passed to [`on_process_error`](Self::on_process_error). If it requests a
/// requeue, the deltas are delivered again after an increasing back-off; otherwise they are dropped.
#[doc(alias = "ProcessBatchFunc")]
#[doc(alias = "PopProcessFunc")]
#[doc(alias = "cache.New")]
#[doc(alias = "Config")]
#[doc(alias = "RetryOnError")]
#[doc(alias = "ProcessFunc")]
#[must_use = "a controller does nothing until it is run"]
pub struct Controller<K: Object> {
    reflector: Reflector<K>,
    queue: Arc<DeltaFifo<K>>,
    process: Process<K>,
    on_error: Option<OnError>,
    batch: usize,
}

impl<K: Object> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("reflector", &self.reflector)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

impl<K: Object> Controller<K> {
    /// A controller that passes the batches of `queue` to `process`.
    pub fn new(
        source: impl ListerWatcher<K>,
        queue: Arc<DeltaFifo<K>>,
        process: impl FnMut(&[Delta<K>], PopInfo) -> Result<(), Failure> + Send + 'static,
    ) -> Self {
        Self {
            reflector: Reflector::new(source, queue.clone()),
            queue,
            process: Box::new(process),
            on_error: None,
            batch: DEFAULT_BATCH,
        }
    }

    /// Changes the reflector: its configuration, the condition for resyncs, the transform.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use kube_informers::reflector::ReflectorConfig;
    /// # fn example(controller: kube_informers_classic::Controller<k8s_openapi::api::core::v1::Pod>) {
    /// let config = ReflectorConfig { resync: Some(Duration::from_secs(600)), ..Default::default() };
    /// let controller = controller.reflector(|reflector| reflector.config(config));
    /// # }
    /// ```
    pub fn reflector(mut self, change: impl FnOnce(Reflector<K>) -> Reflector<K>) -> Self {
        self.reflector = change(self.reflector);
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

    /// The queue. Its [`synced`](DeltaFifo::synced) waits until the initial list has been processed.
    #[doc(alias = "HasSynced")]
    #[doc(alias = "HasSyncedChecker")]
    pub fn queue(&self) -> Arc<DeltaFifo<K>> {
        self.queue.clone()
    }

    /// Runs until `stop` is cancelled. Deltas still in the queue are not processed.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            reflector,
            queue,
            mut process,
            mut on_error,
            batch,
        } = self;
        let consume = async {
            let mut delay = FIRST_DELAY;
            while let Some(batch) = queue.pop_batch(batch).await {
                let mut requeued = false;
                let result = batch.process(|deltas, info| {
                    let result = process(deltas, info);
                    requeued = result.as_ref().is_err_and(|failure| failure.is_requeue());
                    result
                });
                let Err(error) = result else {
                    delay = FIRST_DELAY;
                    continue;
                };
                warn!(%error, requeued, "the process function failed");
                if let Some(hook) = &mut on_error {
                    hook(&error);
                }
                if requeued {
                    sleep(delay).await;
                    delay = (delay * 2).min(LAST_DELAY);
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
