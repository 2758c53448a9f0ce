//! The low-level informer: your source, your queue, your process function, and nothing else.

use std::sync::Arc;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::delta::Delta;
use crate::object::Object;
use crate::queue::{BoxError, DEFAULT_BATCH, DeltaQueue, Failure, PopInfo};
use crate::reflector::{
    Backoff, BackoffConfig, Reflector, ReflectorConfig, ReflectorHandle, StreamEnd, Transform,
};
use crate::source::ListerWatcher;

type OnError = Box<dyn FnMut(&BoxError) + Send>;
type Process<K> = Box<dyn FnMut(&[Delta<K>], PopInfo) -> Result<(), Failure> + Send>;

/// Feeds what a source tells through a queue to a function of yours, one batch at a time.
///
/// For those who keep their own state instead of a [`Store`](crate::Store). There are no handlers and no
/// cache, and one task does it all: the function is called from the future of [`run`](Self::run), and a panic
/// in it comes out of there.
///
/// A [`DeltaFifo`](crate::queue::DeltaFifo) must be told what you hold by `known`, or deletions of what it has handed out
/// before do not get through, as in client-go.
///
/// When the function fails, the error is logged and given to [`on_process_error`](Self::on_process_error). If
/// it asked for a requeue, the deltas come again after a growing pause; otherwise they are lost, and only your
/// function knows.
#[doc(alias = "cache.New")]
#[doc(alias = "Controller")]
#[doc(alias = "Config")]
#[doc(alias = "NewInformer")]
#[doc(alias = "RetryOnError")]
#[must_use = "an informer does nothing until it is run"]
pub struct LowLevelInformer<K> {
    reflector: Reflector<K>,
    queue: Arc<dyn DeltaQueue<K>>,
    process: Process<K>,
    on_error: Option<OnError>,
    batch: usize,
    backoff: BackoffConfig,
}

impl<K: Object> LowLevelInformer<K> {
    /// An informer that hands what `queue` pops to `process`.
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

    /// How the source is listed and watched; also the period of resyncs.
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.backoff = config.backoff;
        self.reflector = self.reflector.config(config);
        self
    }

    /// Changes or drops each object before it reaches the queue.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform<K>) -> Self {
        self.reflector = self.reflector.transform(transform);
        self
    }

    /// Sees every end of a list or watch, the normal ones too.
    #[doc(alias = "WatchErrorHandler")]
    pub fn on_stream_end(mut self, hook: impl Fn(&StreamEnd<'_>) + Send + Sync + 'static) -> Self {
        self.reflector = self.reflector.on_stream_end(hook);
        self
    }

    /// At most so many deltas at a time. Default: 1000.
    pub fn batch(mut self, deltas: usize) -> Self {
        self.batch = deltas.max(1);
        self
    }

    /// Sees each error of the process function.
    pub fn on_process_error(mut self, hook: impl FnMut(&BoxError) + Send + 'static) -> Self {
        self.on_error = Some(Box::new(hook));
        self
    }

    /// A view of the reflector.
    pub fn handle(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// Runs until told to stop. What is queued then is not processed any more.
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
