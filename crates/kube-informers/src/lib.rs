//! client-go's informers for Rust.
#![forbid(unsafe_code)]

mod client;
pub mod codec;
mod delta;
mod dispatcher;
mod event;
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
pub mod source;
pub mod store;
mod subscription;
mod target;
mod task;
mod version;

pub use client::client;
pub use delta::{Delta, Replacement, Tombstone};
pub use event::{Cause, Event};
pub use handler::{
    Asynchronous, Backlog, Blocking, EventHandler, Filtered, HandlerOptions, Handlers, OnPanic, asynchronous,
    blocking, filtered,
};
pub use informer::{
    HandlerStats, Informer, InformerBuilder, InformerStats, InformerTask, LowLevelInformer, MemberStats,
    NotReached, NotSynced, QueueKind, Stopped, Totals,
};
pub use key::{ObjectKey, ParseKeyError};
pub use lister::{Lister, NamespaceLister, NotFound};
pub use object::{Object, OwnerRef};
pub use quarantine::{BadObject, Problem};
pub use reflector::{
    BackoffConfig, Deadlines, InitialList, Jitter, Operation, Reflector, ReflectorConfig, ReflectorHandle,
    ReflectorState, ReflectorStats, RelistReason, Resume, StreamEnd, Transform,
};
pub use registration::{HandlerEnded, HandlerId, NotAdded, Registration, Removal};
pub use scope::Scope;
pub use selector::{ParseSelectorError, Selector};
pub use source::{ListWatch, ListerWatcher, Script, SourceError};
pub use store::{Index, Snapshot, Store, UnknownIndex};
pub use subscription::Subscription;
pub use target::{BoxFuture, Target, TargetError};
pub use task::TaskDied;
pub use version::{ParseVersionError, ResourceVersion};
