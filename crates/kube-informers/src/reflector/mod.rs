//! The reflector: keeps a target equal to a collection of objects by list and watch.
//!
//! Takes a source, gives deltas. The decisions are in `machine`, a state machine without I/O; `driver` performs
//! them. It knows nothing of stores, handlers or what becomes of the deltas.

mod backoff;
mod config;
mod consistency;
mod driver;
mod gather;
mod machine;
mod report;
mod shared;
mod steps;
mod transform;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::object::Object;
use crate::shard::ShardTracker;
use crate::source::{Known, KnownObjects, ListerWatcher, WatchListSupport};
use crate::target::Target;
use driver::Driver;
use shared::Shared;

pub(crate) use backoff::Backoff;
pub use backoff::BackoffConfig;
pub use config::{Deadlines, InitialList, Jitter, ReflectorConfig};
pub use report::{Operation, ReflectorState, RelistReason, Resume, StreamEnd};
pub use shared::{ReflectorHandle, ReflectorStats, ShardSupport};
pub use transform::Transform;

/// Sees the ends of lists and watches.
pub(crate) type StreamEndHook = Arc<dyn Fn(&StreamEnd<'_>) + Send + Sync>;

/// What a reflector is made of.
struct Parts<K> {
    source: Arc<dyn ListerWatcher<K>>,
    target: Box<dyn Target<K>>,
    config: ReflectorConfig,
    transform: Option<Transform<K>>,
    known: Known<K>,
    on_stream_end: Option<StreamEndHook>,
    shard: ShardTracker,
}

/// Keeps a [`Target`] equal to the collection a [`ListerWatcher`] shows: lists, watches, and lists again only
/// when it must.
///
/// An [`Informer`](crate::Informer) has one inside; use it alone to feed a store of your own.
///
/// - The target first gets `ReplacedAll`, then what happens, in order. After a gap it gets `ReplacedAll`
///   again; it is never told half a list.
/// - A broken connection resumes at the last version. The collection is fetched again only for a
///   [`RelistReason`].
/// - Failures are retried for ever, with growing pauses; [`on_stream_end`](Self::on_stream_end) sees each.
///
/// Nothing happens before [`run`](Self::run), and nothing is left of it after its future is gone.
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
    parts: Parts<K>,
    shared: Arc<Shared>,
}

impl<K: Object> Reflector<K> {
    /// A reflector from a source to a target, with the default configuration.
    pub fn new(source: impl ListerWatcher<K>, target: impl Target<K>) -> Self {
        Self::from_shared(Arc::new(source), target)
    }

    /// The same for a source that is shared with others.
    pub fn from_shared(source: Arc<dyn ListerWatcher<K>>, target: impl Target<K>) -> Self {
        let parts = Parts {
            shard: ShardTracker::new(source.shard()),
            source,
            target: Box::new(target),
            config: ReflectorConfig::default(),
            transform: None,
            known: None,
            on_stream_end: None,
        };
        Self {
            parts,
            shared: Shared::new(),
        }
    }

    /// How it lists, watches and waits.
    #[doc(alias = "NewReflectorWithOptions")]
    pub fn config(mut self, config: ReflectorConfig) -> Self {
        self.parts.config = config;
        self
    }

    /// Changes or drops each object, exactly once, before the target sees it.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform<K>) -> Self {
        self.parts.transform = Some(transform);
        self
    }

    /// What the target holds already: a list need not decode it again.
    pub fn known(mut self, known: Arc<dyn KnownObjects<K>>) -> Self {
        self.parts.known = Some(known);
        self
    }

    /// Called at every end of a list or watch, from the reflector's task: quick work only.
    #[doc(alias = "SetWatchErrorHandler")]
    #[doc(alias = "WatchErrorHandler")]
    pub fn on_stream_end(mut self, hook: impl Fn(&StreamEnd<'_>) + Send + Sync + 'static) -> Self {
        self.parts.on_stream_end = Some(Arc::new(hook));
        self
    }

    pub(crate) fn on_stream_end_shared(mut self, hook: Option<StreamEndHook>) -> Self {
        self.parts.on_stream_end = hook;
        self
    }

    /// The shard to reflect, which may be moved at any time.
    pub(crate) fn shard(mut self, shard: ShardTracker) -> Self {
        self.parts.shard = shard;
        self
    }

    /// A view of its state and counters, before and while it runs.
    pub fn handle(&self) -> ReflectorHandle {
        ReflectorHandle::new(self.shared.clone())
    }

    /// Reflects until told to stop. Stopping is immediate in every state; dropping the future does the same.
    pub async fn run(self, stop: CancellationToken) {
        let Self { parts, shared } = self;
        let watch_list = parts.source.watch_list() == WatchListSupport::Probe;
        let mut driver = Driver::new(parts, shared.clone(), watch_list);
        // Both branches are cancel-safe: the token keeps its state, and everything the driver has open is
        // closed by dropping it.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = driver.drive() => {}
        }
        drop(driver);
        shared.stopped();
    }
}
