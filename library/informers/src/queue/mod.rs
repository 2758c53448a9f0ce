//! Queues between a reflector and the consumer of its deltas.
//!
//! | | holds | order | use |
//! |---|---|---|---|
//! | [`InOrderQueue`] | all deltas, a list as one | order of arrival | informers (default) |
//! | [`DeltaFifo`] | per key, the deltas since its last pop | first arrival of the keys | processing the history of one key at a time |
//!
//! Pops are processed one at a time: the next pop waits until the processing of the previous one has ended. This
//! provides the guarantee that client-go gets from processing under the queue's lock, without the lock. During the
//! processing, the queue accepts deltas, can be read, and can be called by the process function.
//!
//! ```text
//!             accept                pop                  done
//! reflector ─────────▶  queued  ─────────▶  in process ───────▶  gone
//!                          ▲                    │
//!                          └──── requeue ◀──────┘   (or dropped, if newer deltas have arrived)
//! ```
//!
//! A queue has no task. Pops are cancel-safe: a cancelled pop has taken nothing.

mod batch;
mod delta_fifo;
mod gate;
mod gated;
mod in_order;
mod population;

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;

use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::target::Target;

pub use batch::{Batch, BoxError, Failure, Finished, PopError, PopInfo};
pub use delta_fifo::DeltaFifo;
pub use gate::Closed;
pub use in_order::InOrderQueue;

/// The recommended batch size, which is client-go's.
pub const DEFAULT_BATCH: usize = 1000;

/// The number of deltas after which the source must wait: two batches, as in client-go.
pub const DEFAULT_CAPACITY: usize = 2 * DEFAULT_BATCH;

/// A queue that can drive an informer. It is a [`Target`] for the reflector and returns batches of deltas.
#[doc(alias = "Queue")]
#[doc(alias = "QueueWithBatch")]
pub trait DeltaQueue<K>: Target<K> {
    /// Waits for deltas and returns about `max` of them; `None` when the queue is closed and drained.
    ///
    /// One batch is in flight at a time: the next call waits until the previous batch is done, requeued or dropped. A
    /// task that waits for the next batch while it holds one waits forever. Cancel-safe.
    #[doc(alias = "Pop")]
    #[doc(alias = "PopBatch")]
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Option<Batch<K>>>;

    /// Whether the versions of the deltas come in the order of the collection's history.
    ///
    /// If so, a consumer that has applied a delta has reached its version. If not, only a [`Delta::Bookmark`] shows
    /// that a version has been reached.
    fn in_order(&self) -> bool;

    /// Closes the queue: pops return the remaining deltas, then `None`. Deltas are still accepted.
    fn close(&self);

    /// Whether the queue has been closed. It may still hold deltas.
    fn is_closed(&self) -> bool;

    /// Whether the initial population has been *processed*: every entry of the first list. The population is empty if a
    /// change arrives before any list.
    fn has_synced(&self) -> bool;

    /// Waits until [`has_synced`](Self::has_synced) is true. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The queue was closed and drained before that.
    #[doc(alias = "HasSyncedChecker")]
    fn synced(&self) -> BoxFuture<'_, Result<(), Closed>>;

    /// The queued deltas of one object, oldest first, including its state in a queued list.
    #[doc(alias = "GetByKey")]
    fn get(&self, key: &ObjectKey) -> Vec<Delta<K>>;

    /// All queued deltas, in pop order.
    fn list(&self) -> Vec<Delta<K>>;

    /// The keys of the queued objects, in pop order, without duplicates.
    #[doc(alias = "ListKeys")]
    fn keys(&self) -> Vec<ObjectKey>;

    /// The statistics of the queue.
    fn stats(&self) -> QueueStats;

    /// The number of queued deltas.
    fn len(&self) -> usize {
        self.stats().len
    }

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, T: DeltaQueue<K> + ?Sized> DeltaQueue<K> for Arc<T> {
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Option<Batch<K>>> {
        (**self).pop_batch(max)
    }

    fn in_order(&self) -> bool {
        (**self).in_order()
    }

    fn close(&self) {
        (**self).close();
    }

    fn is_closed(&self) -> bool {
        (**self).is_closed()
    }

    fn has_synced(&self) -> bool {
        (**self).has_synced()
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Closed>> {
        (**self).synced()
    }

    fn get(&self, key: &ObjectKey) -> Vec<Delta<K>> {
        (**self).get(key)
    }

    fn list(&self) -> Vec<Delta<K>> {
        (**self).list()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        (**self).keys()
    }

    fn stats(&self) -> QueueStats {
        (**self).stats()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }
}

/// The objects the consumer of a [`DeltaFifo`] holds, usually those of its store.
///
/// It is called while the queue is locked, so it must be fast and must not call the queue. The consumer must apply a
/// batch before it ends the batch.
#[doc(alias = "KeyListerGetter")]
#[doc(alias = "KnownObjects")]
pub trait KnownKeys<K>: Send + Sync + 'static {
    /// All keys, including those of objects that could never be read. Otherwise their deletion would be ignored.
    #[doc(alias = "ListKeys")]
    fn keys(&self) -> Vec<ObjectKey>;

    /// Returns an object, if it is held and readable.
    #[doc(alias = "GetByKey")]
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// Whether [`keys`](Self::keys) contains this key.
    fn contains(&self, key: &ObjectKey) -> bool;
}

impl<K, T: KnownKeys<K> + ?Sized> KnownKeys<K> for Arc<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        (**self).keys()
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        (**self).get(key)
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        (**self).contains(key)
    }
}

/// The statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The number of queued deltas.
    #[doc(alias = "queued_items")]
    pub len: usize,
    /// Whether a pop is in flight: it was taken from the queue, and its processing has not ended.
    pub in_flight: bool,
    /// The number of processed pops.
    pub pops: u64,
    /// The processing time of the last pop.
    #[doc(alias = "processing_latency_seconds")]
    pub last_pop: Option<Duration>,
}

impl QueueStats {
    /// Whether everything that was queued has been processed.
    pub fn is_idle(&self) -> bool {
        self.len == 0 && !self.in_flight
    }
}
