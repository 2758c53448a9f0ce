//! The cache: deltas in, events out; read by anybody at any time.
//!
//! [`Store`] is the read side. [`DeltaWriter`] is the write side of an informer: it applies deltas and returns
//! events, and calls nobody. [`StoreWriter`] fills a store by hand. [`TtlStore`] forgets what grows old, and
//! [`Overlay`] shows your own writes before the watch brings them.
//!
//! Go's `UndeltaStore` (call a function with the whole list after each write) and `Heap` have no counterpart:
//! the first is [`Store::list`] after a write of your own, the second is `std::collections::BinaryHeap`.

mod delta_writer;
mod index;
mod listed;
mod overlay;
mod own_writes;
mod plan;
mod planner;
mod postings;
mod reached;
mod read;
mod rows;
mod rules;
mod shared;
mod slot_set;
mod slots;
mod snapshot;
mod table;
mod ttl;
mod writer;

pub use delta_writer::{Applied, DeltaWriter, Origin, Prepared};
pub use index::{DuplicateIndex, Index, UnknownIndex};
pub use overlay::{Overlay, OverlayOptions};
pub use read::{NAMESPACE_INDEX, Quarantined, Served, Store};
pub use snapshot::Snapshot;
pub use ttl::TtlStore;
pub use writer::{IndexPanic, StoreWriter, Transaction, TransactionError};
