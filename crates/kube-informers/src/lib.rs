//! client-go's informers for Rust.
#![forbid(unsafe_code)]

mod client;
pub mod codec;
mod delta;
mod event;
mod key;
mod object;
mod quarantine;
pub mod queue;
mod reflector;
mod scope;
mod selector;
pub mod source;
pub mod store;
mod target;
mod version;

pub use client::client;
pub use delta::{Delta, Replacement, Tombstone};
pub use event::{Cause, Event};
pub use key::{ObjectKey, ParseKeyError};
pub use object::{Object, OwnerRef};
pub use quarantine::{BadObject, Problem};
pub use reflector::{
    BackoffConfig, Deadlines, InitialList, Jitter, Operation, Reflector, ReflectorConfig, ReflectorHandle,
    ReflectorState, ReflectorStats, RelistReason, Resume, StreamEnd, Transform,
};
pub use scope::Scope;
pub use selector::{ParseSelectorError, Selector};
pub use source::{ListWatch, ListerWatcher, Script, SourceError};
pub use store::{Index, Snapshot, Store, UnknownIndex};
pub use target::{BoxFuture, Target, TargetError};
pub use version::{ParseVersionError, ResourceVersion};
