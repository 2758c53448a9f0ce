//! The cache: a table of objects with indexes. Any thread can read it at any time.
//!
//! [`Store`] is the read side, and a [`View`] is a store at one moment. [`StoreWriter`] fills a store by hand; an informer fills its
//! store itself. [`TtlStore`] drops values after some time, and [`Overlay`] shows the program's own writes before the watch
//! delivers them.
//!
//! A [`Reflector`](crate::reflector::Reflector) can also fill a store without an informer:
//! [`Reflector::with_store`](crate::reflector::Reflector::with_store) for a store by namespace and name, or a
//! [`StoreWriter`] or [`TtlStore`] as its target for other keys.
//!
//! Go's `UndeltaStore`, which calls a function with the whole list after each write, and `Heap` have no counterpart: use
//! [`Store::list`] after a write, and `std::collections::BinaryHeap`.

mod as_target;
pub(crate) mod delta_writer;
mod error;
mod held;
mod index;
mod index_values;
mod key_map;
mod keyed_objects;
mod lookup;
mod memory;
mod overlay;
mod plan;
mod progress;
mod quarantined;
mod read;
mod shared_table;
mod slots;
mod snapshot;
mod table;
mod ttl;
mod view;
mod writer;

pub(crate) use delta_writer::{Applied, DeltaWriter, Origin, Prepared};
pub use error::{DuplicateIndexError, IndexPanicError, TransactionError, UnknownIndexError};
pub(crate) use held::Held;
pub use index::Index;
pub use lookup::{KeyRef, Lookup};
pub use overlay::{Overlay, OverlayOptions};
pub use read::{NAMESPACE_INDEX, QuarantineChanges, Quarantined, Served, Store};
pub use snapshot::Snapshot;
pub use ttl::TtlStore;
pub use view::View;
pub use writer::{StoreWriter, Transaction};
