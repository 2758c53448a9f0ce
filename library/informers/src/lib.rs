//! client-go's informers for Rust: a local, indexed, exact copy of Kubernetes objects, with ordered change events.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informers::{Event, Informer};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = kube::Client::try_default().await?;
//! let pods = Informer::<Pod>::all(client).start();
//! let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
//!
//! pods.add_event_handler(|event: Event<Pod>| match event {
//!     Event::Added { object, initial } => println!("added {:?} (initial: {initial})", object.metadata.name),
//!     Event::Updated { old, new, .. } if old.spec != new.spec => println!("changed {:?}", new.metadata.name),
//!     Event::Updated { .. } => {}
//!     Event::Deleted { object, cause } => println!("deleted {:?} ({cause:?})", object.metadata.name),
//! })?;
//!
//! pods.synced().await?;
//! println!("{} pods on worker-1", by_node.get("worker-1").len());
//! # Ok(())
//! # }
//! ```
//!
//! # Pipeline
//!
//! ```text
//!  API server
//!     │ list · watch · watch-list
//!     ▼
//!  ListWatch ─▶ Reflector ─▶ queue ─▶ Store + indexes ─▶ handlers · subscriptions
//!                                         └─ read side: Store · Index  (any thread, any time)
//! ```
//!
//! [`Informer`] combines all stages; its documentation states the guarantees. Each stage can be used alone:
//!
//! - [`ListWatch`] lists and watches typed, dynamic, metadata-only or projected objects in a [`Scope`]; the trait behind
//!   it is [`ListerWatcher`](source::ListerWatcher).
//! - [`Reflector`](reflector::Reflector) keeps any [`Target`](target::Target) equal to its source.
//! - [`queue`] holds the queue between a reflector and its consumer.
//! - [`store`] holds the cache, and a store that programs fill themselves.
//!
//! [`SharedInformerFactory`] shares informers in a program: `factory.informer::<Pod>()`, `factory.core().v1().pods()`.
//! [`Lister`] reads the cache by label selector, namespace, name and owner; [`indexes`] has the usual indexes.
//!
//! [`Lazy`](lazy::Lazy) objects stay encoded in the cache, take a fraction of the memory, and are decoded on access. [`bodies`]
//! fetches whole objects where only metadata is cached.
//!
//! Several replicas can share the work: [`Scope::shard`] selects part of a collection, [`Informer::set_shard`] changes
//! that part.
//!
//! A handler is a closure, [`Handlers`](handler::Handlers) (one closure per kind of event), or any
//! [`EventHandler`](handler::EventHandler) or [`AsyncEventHandler`](handler::AsyncEventHandler);
//! [`filtered`](handler::filtered) and [`blocking`](handler::blocking) adapt them, and [`handler`] shows how to write adapters. [`Subscription`] returns the
//! same events as a stream.
//!
//! # Waiting
//!
//! Waits come in pairs: `x()` has no limit, and `x_within(timeout)` ends with an error or a report that says what it was
//! still waiting for.
//!
//! - [`synced`](Informer::synced) and [`synced_within`](Informer::synced_within), of an informer, a [`Registration`] and a
//!   [`ReflectorHandle`](reflector::ReflectorHandle); [`wait_for_sync`] and [`wait_for_sync_within`] for several of them.
//! - [`settled`](Informer::settled) and [`settled_within`](Informer::settled_within), after a change of the scope.
//! - [`wait_for`](Informer::wait_for) and [`wait_for_within`](Informer::wait_for_within), and the same for an object, a key and
//!   a condition.
//! - [`drain`](Informer::drain) and [`drain_within`](Informer::drain_within).
//!
//! No other method takes a timeout, and every wait ends when the informer stops.
//!
//! # Testing
//!
//! The crate `kube-testserver` is an API server that runs inside a test. All time is tokio's, so tests can pause the clock:
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informers::Informer;
//! use kube_testserver::{TestServer, builders::pod};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let server = TestServer::new();
//! server.create(pod("shop", "cart"));
//! let pods = Informer::<Pod>::all(server.client()).start();
//! let mut events = pods.subscribe();
//! pods.synced().await?;
//!
//! server.delete::<Pod>("shop", "cart");
//!
//! assert_eq!(events.next().await.unwrap().to_string(), "added shop/cart (initial)");
//! assert_eq!(events.next().await.unwrap().to_string(), "deleted shop/cart");
//! pods.shutdown().await;
//! server.assert_nothing_open();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Coming from Go
//!
//! Search this documentation for Go names: `SharedIndexInformer`, `AddEventHandler`, `DeletedFinalStateUnknown` and others
//! lead to their counterparts. Cached objects are `Arc<K>` and cannot be modified.
//!
//! ```compile_fail
//! # fn example(pods: kube_informers::Store<k8s_openapi::api::core::v1::Pod>) {
//! let pod = pods.get(("shop", "cart")).unwrap();
//! pod.metadata.labels = None; // an Arc has no mutable access
//! # }
//! ```
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
    pub use crate::bodies::FetchError;
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
