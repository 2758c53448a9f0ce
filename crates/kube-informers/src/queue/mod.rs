//! Queues between a reflector and what applies its deltas: order, limits, and nothing lost.
//!
//! | | holds | order | for |
//! |---|---|---|---|
//! | [`InOrderQueue`] | every delta, a list as one | as they came | informers; the default |
//! | [`DeltaFifo`] | per key, the deltas since its last pop | of the keys' first arrival | those who want one key's history at a time |
//! | [`Fifo`] | per key, the newest value | of the keys' first arrival | work lists of any value type, by hand |
//!
//! What is popped is processed by one at a time, whoever pops it: the next pop waits until the one before has
//! ended. That gives what client-go gets from processing under the queue's lock, without the lock: while
//! something is processed, the queue takes in more, can be read, and can be called by the process function.
//!
//! ```text
//!             accept                pop                  done
//! reflector ─────────▶  queued  ─────────▶  in process ───────▶  gone
//!                          ▲                    │
//!                          └──── requeue ◀──────┘   (or dropped, if something newer makes it pointless)
//! ```
//!
//! There is no task behind a queue. Pops are cancel-safe: a cancelled one has taken nothing.

mod batch;
mod delta_fifo;
mod fifo;
mod gate;
mod in_order;
mod population;

use std::sync::Arc;
use std::time::Duration;

use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::target::{BoxFuture, Target};

pub use batch::{Batch, BoxError, Failure, Finished, PopError, PopInfo};
pub use delta_fifo::DeltaFifo;
pub use fifo::Fifo;
pub use gate::Closed;
pub use in_order::InOrderQueue;

/// How many deltas a consumer should ask for at once; client-go's batch size.
pub const DEFAULT_BATCH: usize = 1000;

/// How many deltas a queue holds before its source has to wait.
///
/// client-go lets its queue grow freely up to two batches and then stalls the reflector.
pub const DEFAULT_CAPACITY: usize = 2 * DEFAULT_BATCH;

/// A queue that can drive an informer: a [`Target`] on one side, batches of deltas on the other.
#[doc(alias = "Queue")]
#[doc(alias = "QueueWithBatch")]
pub trait DeltaQueue<K>: Target<K> {
    /// Waits for deltas and hands out about `max` of them; `None` when the queue is closed and drained.
    ///
    /// One batch is out at a time: the next call waits until the batch before it is done, requeued or dropped.
    /// (Holding one batch while waiting for the next in the same task waits for ever.) Cancel-safe.
    #[doc(alias = "Pop")]
    #[doc(alias = "PopBatch")]
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Option<Batch<K>>>;

    /// Whether the versions of the deltas come in the order of the collection's history.
    ///
    /// If so, whoever applies a delta has reached its version. If not, a version has been reached only when a
    /// [`Delta::Bookmark`] says so.
    fn in_order(&self) -> bool;

    /// Ends the queue: pops hand out what is left, then `None`. What is put in afterwards is still taken.
    fn close(&self);

    /// Whether the queue has been closed. It may still hold deltas.
    fn is_closed(&self) -> bool;

    /// Whether the initial population has been *processed*: every entry of the first list, or nothing at all
    /// if a change came before any list.
    fn has_synced(&self) -> bool;

    /// Waits until [`has_synced`](Self::has_synced) is true. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The queue was closed and drained before that.
    #[doc(alias = "HasSyncedChecker")]
    fn synced(&self) -> BoxFuture<'_, Result<(), Closed>>;

    /// What is queued about one object, oldest first. What a queued list says of it counts.
    #[doc(alias = "GetByKey")]
    fn get(&self, key: &ObjectKey) -> Vec<Delta<K>>;

    /// All queued deltas, in the order in which they would be popped.
    fn list(&self) -> Vec<Delta<K>>;

    /// The keys of the queued objects, in the order in which they would be popped, each once.
    #[doc(alias = "ListKeys")]
    fn keys(&self) -> Vec<ObjectKey>;

    /// The numbers of this queue.
    fn stats(&self) -> QueueStats;

    /// How many deltas are queued.
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

/// What the consumer of a [`DeltaFifo`] holds already: usually its store.
///
/// It is asked while the queue is locked, so that queue and consumer are seen at one moment: it must be quick
/// and must not call the queue. The consumer must have applied a batch before it ends it.
#[doc(alias = "KeyListerGetter")]
#[doc(alias = "KnownObjects")]
pub trait KnownKeys<K>: Send + Sync + 'static {
    /// The keys of everything held.
    ///
    /// A key that is held without an object, because it never could be read, is among them: otherwise its
    /// deletion would not get through.
    #[doc(alias = "ListKeys")]
    fn keys(&self) -> Vec<ObjectKey>;

    /// One object, if it is held and could be read.
    #[doc(alias = "GetByKey")]
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// Whether [`keys`](Self::keys) has this key.
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

/// The numbers of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// How many deltas (for a [`Fifo`]: values) are queued.
    #[doc(alias = "queued_items")]
    pub len: usize,
    /// How many pops have been processed.
    pub pops: u64,
    /// How long the processing of the last one took.
    #[doc(alias = "processing_latency_seconds")]
    pub last_pop: Option<Duration>,
}

/// At trace level the way of one object can be followed through the queue.
fn trace_queued<K: Object>(delta: &Delta<K>) {
    tracing::trace!(
        delta = delta.name(),
        key = delta.key().as_ref().map(ObjectKey::as_str),
        "queued"
    );
}

/// See [`trace_queued`].
fn trace_popped<K: Object>(deltas: &[Delta<K>]) {
    if tracing::enabled!(tracing::Level::TRACE) {
        for delta in deltas {
            tracing::trace!(
                delta = delta.name(),
                key = delta.key().as_ref().map(ObjectKey::as_str),
                "popped"
            );
        }
    }
}
