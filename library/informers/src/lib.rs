#![doc = include_str!("docs/crate.md")]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod bodies;
pub mod codec;
pub mod delta;
mod dispatcher;
mod errors;
mod event;
mod factory;
pub mod handler;
pub mod indexes;
mod informer;
mod key;
pub mod lazy;
mod lister;
mod lock;
mod log_limit;
mod object;
pub mod quarantine;
pub mod queue;
pub mod reflector;
mod registration;
mod scope;
mod selector;
pub mod shard;
pub mod source;
pub mod store;
mod subscription;
mod sync;
pub mod target;
mod task;
mod time;
mod version;
mod wire;

pub use event::{Cause, Event};
pub use factory::{FactoryBuilder, ResourceName, SharedInformerFactory, accessors};
pub use informer::{Informer, InformerBuilder, InformerTask, ShutdownReport};
pub use key::ObjectKey;
pub use lister::{Lister, NamespaceLister};
pub use object::{Object, OwnerRef};
pub use registration::Registration;
pub use scope::Scope;
pub use selector::Selector;
pub use source::listwatch::ListWatch;
pub use store::read::Store;
pub use subscription::Subscription;
pub use sync::{Synced, wait_for_sync, wait_for_sync_within};
pub use version::ResourceVersion;

/// Whether all informers of a process are synced and current, for a readiness endpoint.
pub mod readiness {
    pub use crate::informer::readiness::{InformerHealth, Observed, Readiness, ReadinessProblem};
}

/// The errors of the crate, except those of sources: [`SourceError`](source::SourceError) and
/// [`ApiError`](source::ApiError).
///
/// Errors have predicates for what programs usually decide by, such as [`WaitError::is_timeout`](error::WaitError::is_timeout).
/// `source()` leads to the underlying cause.
pub mod error {
    pub use crate::bodies::error::FetchError;
    pub use crate::codec::encoding::EncodingError;
    pub use crate::errors::{ParseError, StoppedError};
    pub use crate::factory::resource::ResourceError;
    pub use crate::informer::errors::{ScopeError, WaitError};
    pub use crate::informer::readiness::NotReadyError;
    pub use crate::lazy::error::LazyError;
    pub use crate::lister::NotFoundError;
    pub use crate::reflector::errors::SyncError;
    pub use crate::registration::HandlerEndedError;
    pub use crate::store::error::IndexError;
    pub use crate::task::TaskPanicError;
}

/// Counters of an informer, its watches and its handlers: [`Informer::stats`].
pub mod stats {
    pub use crate::informer::drift::{AuditStats, Drift};
    pub use crate::informer::stats::{HandlerStats, InformerStats, MemberStats, MemoryStats, Totals};
}

/// The pure stages of the pipeline, for simulators. Unstable: anything here may change in any release.
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim {
    use std::sync::Arc;

    pub use crate::codec::error_body::error_response;
    pub use crate::dispatcher::{Dispatcher, Leftovers, Listener};
    use crate::handler::{HandlerOptions, IntoHandler, erase};
    use crate::reflector::Reflector;
    pub use crate::reflector::machine::{Action, Context, EventKind, Input, Machine, Next, Report};
    pub use crate::reflector::report::Violation;
    pub use crate::shard::tracker::ShardTracker;
    use crate::store::Snapshot;
    pub use crate::store::delta_writer::{Applied, DeltaWriter, Origin, Prepared};
    use crate::task::Spawner;
    use crate::{Object, Registration, Subscription};

    /// Makes a reflector follow a shard, as in an informer.
    pub fn follow_shard<K: Object>(reflector: Reflector<K>, shard: ShardTracker) -> Reflector<K> {
        reflector.shard(shard)
    }

    /// Adds a handler that runs on a task of its own, once the dispatcher is [started](start).
    ///
    /// # Errors
    ///
    /// The dispatcher is closed. Returns the name of the handler.
    pub fn add_handler<K: Object, Kind>(
        dispatcher: &mut Dispatcher<K>,
        options: &HandlerOptions,
        handler: impl IntoHandler<K, Kind>,
        snapshot: Snapshot<K>,
        synced: bool,
    ) -> Result<Registration, Arc<str>> {
        let now = tokio::time::Instant::now();
        dispatcher.add(options, erase(handler), now, snapshot, synced)
    }

    /// Starts the handlers on the current runtime. Returns a function that counts the running tasks.
    pub fn start<K: Object>(dispatcher: &mut Dispatcher<K>) -> impl Fn() -> usize + use<K> {
        let spawner = Spawner::new(tokio::runtime::Handle::current(), tracing::Span::none());
        dispatcher.start(&spawner, tokio::time::Instant::now());
        move || spawner.running()
    }

    /// Reads what [`Dispatcher::subscribe`] queues, without a task.
    pub fn subscription<K: Object>(listener: Arc<Listener<K>>) -> Subscription<K> {
        Subscription::new(listener)
    }
}
