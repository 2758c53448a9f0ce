//! The reflector: keeps a target equal to a collection of objects, by list and watch.
//!
//! Reads from a source and emits deltas. The decisions are made by `machine`, a state machine without I/O, and
//! performed by `driver`. It does not depend on stores or handlers.

mod backoff;
mod config;
mod driver;
mod durations;
pub(crate) mod errors;
mod gather;
mod load;
#[cfg_attr(feature = "sim", allow(missing_docs, missing_debug_implementations))]
pub(crate) mod machine;
mod oversight;
mod pager;
mod pages;
mod recovery;
pub(crate) mod report;
mod status;
mod trace;
mod transform;

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::object::Object;
use crate::shard::ShardTracker;
use crate::source::{ListerWatcher, WatchListSupport};
use crate::target::Target;
use crate::wire::{Known, KnownObjects};
use driver::Driver;
use status::StatusOwner;

pub use backoff::BackoffConfig;
pub(crate) use config::JitterRng;
pub use config::{AuditConfig, Deadlines, InitialList, Jitter, ReflectorConfig, StreamEndHook};
pub use durations::ListDurations;
pub(crate) use errors::SyncError;
pub use load::LoadLimits;
pub(crate) use oversight::Doubt;
pub use pager::{Page, Pager};
pub(crate) use pages::{Pages, read_page};
pub use recovery::RecoveryGroup;
pub use report::{Operation, ReflectorState, RelistReason, Resume, StreamEnd};
pub use status::{ReflectorHandle, ReflectorStats, ShardSupport};
pub use transform::Transform;

/// The parts of a reflector.
struct ReflectorParts<K> {
    source: Arc<dyn ListerWatcher<K>>,
    target: Box<dyn Target<K>>,
    config: ReflectorConfig,
    transform: Option<Transform<K>>,
    known: Known<K>,
    should_resync: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    shard: ShardTracker,
}

/// Keeps a [`Target`] equal to the collection of a [`ListerWatcher`]: lists once, then watches, and lists again only
/// if necessary.
///
/// It is part of an [`Informer`](crate::Informer). Use it alone to fill a store without handlers:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::reflector::Reflector;
/// use kube_informers::{ListWatch, Scope};
/// use kube_testserver::{TestServer, builders::pod};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let server = TestServer::new();
/// server.create(pod("shop", "cart"));
///
/// let (pods, reflector) = Reflector::with_store(ListWatch::<Pod>::new(server.client(), Scope::all()));
/// let handle = reflector.handle();
/// let stop = tokio_util::sync::CancellationToken::new();
/// let running = tokio::spawn(reflector.run(stop.clone()));
///
/// handle.synced_within(Duration::from_secs(60)).await?;
/// assert!(pods.contains(("shop", "cart")));
///
/// stop.cancel();
/// running.await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// The target can also be a [`StoreWriter`](crate::store::StoreWriter), for other keys than namespace and name, or a
/// store of your own that implements [`ReflectorStore`](crate::target::ReflectorStore).
///
/// - The target receives `ReplacedAll` first, then the changes, in order. After a gap it receives `ReplacedAll` again.
///   It never receives a part of a list.
/// - After a lost connection the watch resumes at the last version. The collection is fetched again only for a
///   [`RelistReason`].
/// - Failures are retried forever, with growing delays and at most 30 requests per minute. Each is passed to
///   [`on_stream_end`](ReflectorConfig::on_stream_end).
///
/// It does nothing before [`run`](Self::run), and leaves nothing behind when that future is dropped.
///
/// A target that receives the deltas themselves:
///
/// ```
/// use kube_informers::delta::Delta;
/// use kube_informers::reflector::Reflector;
/// use kube_informers::target::{Target, TargetError};
/// use k8s_openapi::api::core::v1::Pod;
///
/// struct Printer;
///
/// impl Target<Pod> for Printer {
///     fn accept(&self, delta: Delta<Pod>) -> Result<(), TargetError> {
///         println!("{}", delta.name());
///         Ok(())
///     }
/// }
///
/// # async fn example(source: impl kube_informers::source::ListerWatcher<Pod>) {
/// let reflector = Reflector::new(source, Printer);
/// let handle = reflector.handle();
/// let stop = tokio_util::sync::CancellationToken::new();
/// reflector.run(stop).await;
/// println!("{} lists", handle.stats().lists);
/// # }
/// ```
#[doc(alias = "NewReflector")]
#[doc(alias = "NewNamedReflector")]
#[must_use = "a reflector does nothing until it is run"]
pub struct Reflector<K> {
    parts: ReflectorParts<K>,
    status: StatusOwner,
}

impl<K: Object> fmt::Debug for Reflector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("source", &self.parts.source.describe())
            .finish_non_exhaustive()
    }
}

impl<K: Object> Reflector<K> {
    /// Creates a reflector from a source to a target, with the default configuration.
    pub fn new(source: impl ListerWatcher<K>, target: impl Target<K>) -> Self {
        Self::from_shared(Arc::new(source), target)
    }

    /// Creates a reflector from a shared source.
    pub fn from_shared(source: Arc<dyn ListerWatcher<K>>, target: impl Target<K>) -> Self {
        let status = StatusOwner::new(source.describe());
        let parts = ReflectorParts {
            shard: ShardTracker::new(source.shard()),
            source,
            target: Box::new(target),
            config: ReflectorConfig::default(),
            transform: None,
            known: None,
            should_resync: None,
        };
        Self { parts, status }
    }

    /// Sets the configuration.
    #[doc(alias = "NewReflectorWithOptions")]
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.parts.config = config;
        self
    }

    /// Sets a condition for resyncs. It is evaluated once per resync period; if it returns false, that resync is skipped.
    ///
    /// It runs on the reflector's task and must not block. A panic counts as false and is logged.
    #[doc(alias = "ShouldResync")]
    #[doc(alias = "ShouldResyncFunc")]
    pub fn should_resync(mut self, condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.parts.should_resync = Some(Box::new(condition));
        self
    }

    /// Sets a transform that changes or drops each object, exactly once, before the target receives it.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform<K>) -> Self {
        self.parts.transform = Some(transform);
        self
    }

    /// Sets the objects the target already holds, which a list need not decode again.
    pub fn known(mut self, known: Arc<dyn KnownObjects<K>>) -> Self {
        self.parts.known = Some(known);
        self
    }

    /// Sets the shard, which may be moved at any time.
    pub(crate) fn shard(mut self, shard: ShardTracker) -> Self {
        self.parts.shard = shard;
        self
    }

    /// Returns a handle to its state and counters.
    pub fn handle(&self) -> ReflectorHandle {
        ReflectorHandle::new(self.status.shared())
    }

    /// Runs until `stop` is cancelled. Stopping is immediate in every state, as is dropping the future.
    pub async fn run(self, stop: CancellationToken) {
        let Self { parts, status } = self;
        let watch_list = parts.source.watch_list() == WatchListSupport::Probe;
        let mut driver = Driver::new(parts, status.shared(), watch_list);
        // Both branches are cancel-safe: the token keeps its state, and dropping the driver closes its streams.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = driver.drive() => {}
        }
        // Then `status` is dropped, which reports the stop, also if this future is dropped.
        drop(driver);
    }
}
