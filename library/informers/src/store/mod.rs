//! The cache: a table of objects with indexes. Any thread can read it at any time.
//!
//! [`Store`] is the read side, and a [`View`] is a store at one moment. [`StoreWriter`] fills a store by hand; an informer fills its
//! store itself.
//!
//! A [`Reflector`](crate::reflector::Reflector) can also fill a store without an informer:
//! [`Reflector::with_store`](crate::reflector::Reflector::with_store) for a store by namespace and name, or a
//! [`StoreWriter`] as its target for other keys.
//!
//! Go's `Heap` has no counterpart: use `std::collections::BinaryHeap`.

mod as_target;
pub(crate) mod delta_writer;
pub(crate) mod error;
mod held;
mod index;
mod index_values;
mod key_map;
mod keyed_objects;
mod lookup;
mod memory;
mod plan;
mod planned;
mod postings;
mod progress;
mod quarantined;
pub(crate) mod read;
mod shared_table;
mod slots;
mod snapshot;
mod table;
mod view;
mod writer;

pub(crate) use delta_writer::{Applied, DeltaWriter, Origin, Prepared};
pub(crate) use error::IndexError;
pub use error::TransactionError;
pub(crate) use held::Held;
pub use index::Index;
pub use lookup::{KeyRef, Lookup};
pub(crate) use read::Store;
pub use read::{NAMESPACE_INDEX, QuarantineChanges, Quarantined, Served};
pub use snapshot::Snapshot;
pub use view::View;
pub use writer::{StoreWriter, Transaction};
