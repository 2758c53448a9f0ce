//! client-go's informers for Rust: a local, indexed, exact copy of Kubernetes objects, and ordered events about
//! every change.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_informers::{Event, Informer};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = kube_informers::client(kube::Config::infer().await?)?;
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
//! # The line
//!
//! ```text
//!  API server
//!     │ list · watch · watch-list
//!     ▼
//!  ListWatch ─▶ Reflector ─▶ queue ─▶ Store + indexes ─▶ handlers · subscriptions
//!                                         └─ read side: Store · Index  (any thread, any time)
//! ```
//!
//! [`Informer`] is all of it in one; its documentation has the promises. Each part can be used alone:
//!
//! - [`ListWatch`] asks an API server for typed, dynamic, metadata-only or projected objects in a [`Scope`]; the
//!   trait behind it is [`ListerWatcher`], and [`Script`] plays one in tests.
//! - [`Reflector`] keeps any [`Target`] equal to what a source shows.
//! - [`queue`] holds the queues between a reflector and what applies its deltas; [`LowLevelInformer`] joins a source,
//!   a queue and a function of yours.
//! - [`store`] holds the cache, also to be filled by hand, a store that forgets, and one that shows your own writes.
//!
//! [`SharedInformerFactory`] shares informers in a program: `factory.informer::<Pod>()`, `factory.core().v1().pods()`.
//! [`Lister`] reads the cache by label selector, namespace, name and owner; [`indexes`] has the usual indexes.
//!
//! Several replicas can share the work: [`Scope::shard`] keeps a part of a collection, [`Informer::set_shard`] moves it.
//!
//! Handlers are closures, [`Handlers`] (one closure per kind of event), or anything that is an [`EventHandler`];
//! [`filtered`], [`asynchronous`] and [`blocking`] adapt them. [`Subscription`] gives the same events as a stream.
//!
//! # Testing
//!
//! The crate `kube-testserver` is an API server for the inside of a test. Everything here uses tokio's clock, so tests
//! can pause it:
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
//! Search this documentation for the Go name: `SharedIndexInformer`, `AddEventHandler`, `DeletedFinalStateUnknown` …
//! lead to their counterparts. Objects are `Arc<K>`: nobody can change what is cached.
//!
//! ```compile_fail
//! # fn example(pods: kube_informers::Store<k8s_openapi::api::core::v1::Pod>) {
//! let pod = pods.get_by(Some("shop"), "cart").unwrap();
//! pod.metadata.labels = None; // an Arc gives no mutable access
//! # }
//! ```
#![forbid(unsafe_code)]

mod client;
pub mod codec;
mod delta;
mod dispatcher;
mod event;
mod factory;
mod handler;
pub mod indexes;
mod informer;
mod key;
mod lister;
mod object;
mod quarantine;
pub mod queue;
mod reflector;
mod registration;
mod scope;
mod selector;
mod shard;
pub mod source;
pub mod store;
mod subscription;
mod target;
mod task;
mod version;
mod wire;

pub use client::client;
pub use delta::{Delta, Replacement, Tombstone};
pub use event::{Cause, Event};
pub use factory::{
    FactoryBuilder, FactoryNotSynced, ResourceError, ResourceName, SharedInformerFactory, UnknownNamespaces,
    accessors,
};
pub use handler::{
    Asynchronous, Backlog, Blocking, EventHandler, Filtered, HandlerOptions, Handlers, OnPanic, asynchronous,
    blocking, filtered,
};
pub use informer::{
    HandlerStats, Informer, InformerBuilder, InformerStats, InformerTask, LowLevelInformer, MemberStats,
    NotMoved, NotReached, NotSynced, QueueKind, Stopped, Totals,
};
pub use key::{ObjectKey, ParseKeyError};
pub use lister::{Lister, NamespaceLister, NotFound};
pub use object::{Object, OwnerRef};
pub use quarantine::{BadObject, Problem};
pub use reflector::{
    BackoffConfig, Deadlines, InitialList, Jitter, Operation, Reflector, ReflectorConfig, ReflectorHandle,
    ReflectorState, ReflectorStats, RelistReason, Resume, ShardSupport, StreamEnd, Transform,
};
pub use registration::{HandlerEnded, HandlerId, NotAdded, Registration, Removal};
pub use scope::Scope;
pub use selector::{ParseSelectorError, Selector};
pub use shard::{BadRange, FieldsDiffer, Shard, ShardField, ShardRange, shard_hash};
#[cfg(any(test, feature = "test-util"))]
pub use source::Script;
pub use source::{ListWatch, ListerWatcher, SourceError};
pub use store::{Index, Snapshot, Store, UnknownIndex};
pub use subscription::Subscription;
pub use target::{Target, TargetError};
pub use task::TaskDied;
pub use version::{ParseVersionError, ResourceVersion};

/// The snippets of the guides are compiled with the tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/coming-from-go.md")]
    struct ComingFromGo;
}
