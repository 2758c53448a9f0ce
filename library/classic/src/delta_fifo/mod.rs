//! `DeltaFifo`: per key the deltas since its last pop, in the order in which the keys arrived.
//!
//! It returns batches of whole keys. `KnownKeys` tells it which objects the consumer already holds.

mod key_function;
mod keyed;

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use kube_informers::delta;
use kube_informers::queue::{Closed, DEFAULT_CAPACITY};
use kube_informers::target::{Target, TargetError};
use kube_informers::{Object, ObjectKey};

use crate::batch::Batch;
use crate::delta::Delta;
use crate::gate::{Contents, Gate, QueueStats};
use crate::known::KnownKeys;
use crate::pop::{Failure, PopError, PopInfo};
pub(crate) use keyed::KeyedDeltas;

/// client-go's classic queue: one key at a time, with all of its deltas since it was last popped.
///
/// * Keys are popped in the order of their first arrival. The deltas of one key stay in order and together. The order
///   across keys is lost, so the versions of the deltas do not show which version has been reached. When a pop empties
///   the queue, its batch therefore ends with a [`Delta::Bookmark`] of that version.
/// * A list becomes one [`Delta::Replaced`] per object and one [`Delta::Vanished`] for each key that is not in the list
///   and is queued, in process, or [known](Self::known). An unreadable object counts as part of the list.
/// * A resync becomes one [`Delta::Sync`] per known object, except for objects that are queued or in process.
/// * A deletion is accepted only if its key is queued, in process or known. Any other deletion has been delivered.
/// * An `Added` or `Updated` of an object that does not exist is ignored if its version is older than the last list or
///   delta: a server that repeats an old event must not restore a deleted object.
/// * If two deletions of one key are consecutive, only the more informative one is kept. Nothing else is compressed.
///   Unreadable objects without a name have no key. They are popped first, in batches of their own.
/// * Bounded: when it holds its capacity in deltas, [`has_room`](Target::has_room) returns false and the reflector
///   stops reading. Further deltas are still accepted, because a list may be larger than any capacity.
/// * A requeued key goes to the end of the queue. Its deltas are dropped if newer ones have arrived.
///
/// Go's options are methods: [`key`](Self::key), [`known`](Self::known), [`emit_replaced`](Self::emit_replaced).
/// Transforms belong to the reflector: objects in the queue are shared and cannot be changed.
///
/// Differs from client-go: a list becomes `Replaced` by default. The queue is synced when the last entry of the
/// first list has been processed, not when it has been popped.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::ObjectKey;
/// use kube_informers::store::StoreWriter;
/// use kube_informers_classic::DeltaFifo;
///
/// let by_uid = |pod: &Pod| ObjectKey::cluster(pod.metadata.uid.as_deref().unwrap_or_default());
/// let indexer = StoreWriter::with_key(by_uid);
/// let queue = DeltaFifo::new().key(by_uid).known(indexer.store());
/// ```
#[doc(alias = "DeltaFIFO")]
#[doc(alias = "DeltaFIFOOptions")]
pub struct DeltaFifo<K> {
    gate: Arc<Gate<KeyedDeltas<K>>>,
    capacity: usize,
}

/// Without the objects, which may be Secrets.
impl<K> fmt::Debug for DeltaFifo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl<K: Object> DeltaFifo<K> {
    /// Creates a queue with the [default capacity](DEFAULT_CAPACITY) and without known objects.
    #[doc(alias = "NewDeltaFIFO")]
    #[doc(alias = "NewDeltaFIFOWithOptions")]
    pub fn new() -> Self {
        Self {
            gate: Arc::new(Gate::new(KeyedDeltas::default())),
            capacity: DEFAULT_CAPACITY,
        }
    }

    /// Sets the objects the consumer holds: usually its [`Store`](kube_informers::Store), or your own
    /// [`KnownKeys`].
    ///
    /// Without it, a deletion of a key that is not queued is ignored, a list causes no deletions of popped keys, and a
    /// resync does nothing.
    #[doc(alias = "KnownObjects")]
    pub fn known(self, known: impl KnownKeys<K>) -> Self {
        self.gate.change(|contents| contents.set_known(Arc::new(known)));
        self
    }

    /// Queues objects under custom keys instead of namespace and name: `|pod| ObjectKey::cluster(uid_of(pod))`.
    ///
    /// Tombstones, unreadable objects and dropped ones carry these keys as well, and [`known`](Self::known) is queried
    /// with them. If an object that could not be read is deleted, the consumer receives [`Delta::Vanished`] with its
    /// key and last state. [`Delta::key`] of the other deltas still returns namespace and name.
    ///
    /// The function is called while the queue is locked, so it must be fast and must not call the queue. It must always
    /// return the same key for an object. If it panics, the object is queued by namespace and name, and the panic is
    /// logged.
    #[doc(alias = "KeyFunction")]
    #[doc(alias = "KeyFunc")]
    pub fn key(self, key: impl Fn(&K) -> ObjectKey + Send + Sync + 'static) -> Self {
        self.gate.change(|contents| contents.key = Some(Box::new(key)));
        self
    }

    /// Whether the objects of a list are queued as [`Delta::Replaced`]. If not, they are queued as [`Delta::Sync`], as
    /// client-go's queue does unless this option is set. Default: true.
    #[doc(alias = "EmitDeltaTypeReplaced")]
    pub fn emit_replaced(self, replaced: bool) -> Self {
        self.gate.change(|contents| contents.lists_as_sync = !replaced);
        self
    }

    /// Sets the number of deltas after which the source must wait: at least 1, `usize::MAX` for no limit.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// Queues a delta of one object. A reflector calls [`accept`](Target::accept) instead.
    #[doc(alias = "Add")]
    #[doc(alias = "Update")]
    #[doc(alias = "Delete")]
    pub fn add(&self, delta: Delta<K>) {
        self.gate.change(|contents| contents.add(delta));
    }

    /// Queues a delta unless its key is queued. Returns whether it did. A delta without a key is always queued.
    #[doc(alias = "AddIfNotPresent")]
    pub fn add_if_absent(&self, delta: Delta<K>) -> bool {
        self.gate.change(|contents| {
            if contents
                .key_of(&delta)
                .is_some_and(|key| contents.is_queued(&key))
            {
                return false;
            }
            contents.add(delta);
            true
        })
    }

    /// Waits for one key, processes its deltas and returns them. Cancel-safe while it waits.
    ///
    /// The process function may call the queue. If it fails, the deltas are dropped, or requeued if the function
    /// requests it. If it panics, they are requeued.
    ///
    /// # Errors
    ///
    /// The queue is closed and empty, or the process function failed.
    #[doc(alias = "Pop")]
    pub async fn pop(
        &self,
        process: impl FnOnce(&[Delta<K>], PopInfo) -> Result<(), Failure>,
    ) -> Result<Vec<Delta<K>>, PopError> {
        let batch = self.pop_batch(1).await.ok_or(Closed)?;
        batch.process(process).map_err(PopError::Process)
    }

    /// Waits for deltas and returns those of whole keys, about `max` of them; `None` when the queue is closed and drained.
    ///
    /// One batch is in flight at a time: the next call waits until the previous batch is done, requeued or dropped. A
    /// task that waits for the next batch while it holds one waits forever. Cancel-safe.
    #[doc(alias = "PopBatch")]
    pub async fn pop_batch(&self, max: usize) -> Option<Batch<K>> {
        let (deltas, initial) = self.gate.take(|contents| contents.take(max)).await?;
        Some(Batch::new(deltas, initial, self.gate.clone()))
    }

    /// The queued deltas of one key, oldest first.
    #[doc(alias = "GetByKey")]
    pub fn get(&self, key: &ObjectKey) -> Vec<Delta<K>> {
        self.gate.read(|contents| contents.get(key))
    }

    /// All queued deltas, in pop order.
    pub fn list(&self) -> Vec<Delta<K>> {
        self.gate.read(KeyedDeltas::list)
    }

    /// The queued keys, in pop order.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.gate.read(KeyedDeltas::keys)
    }

    /// The number of queued deltas.
    pub fn len(&self) -> usize {
        self.gate.read(Contents::len)
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue: pops return the remaining deltas, then `None`. Deltas are still accepted.
    pub fn close(&self) {
        self.gate.close();
    }

    /// Whether the queue has been closed. It may still hold deltas.
    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Whether the initial population has been *processed*: every entry of the first list. The population is empty if a
    /// change arrives before any list.
    pub fn has_synced(&self) -> bool {
        self.gate.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced) is true. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The queue was closed and drained before that.
    #[doc(alias = "HasSyncedChecker")]
    pub async fn synced(&self) -> Result<(), Closed> {
        self.gate.synced().await
    }

    /// The statistics of the queue.
    pub fn stats(&self) -> QueueStats {
        self.gate.stats()
    }
}

impl<K: Object> Default for DeltaFifo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Target<K> for DeltaFifo<K> {
    fn accept(&self, delta: delta::Delta<K>) -> Result<(), TargetError> {
        self.gate.change(|contents| contents.accept(delta));
        Ok(())
    }

    fn accept_all(&self, deltas: &mut dyn Iterator<Item = delta::Delta<K>>) -> Vec<TargetError> {
        self.gate
            .change(|contents| deltas.for_each(|delta| contents.accept(delta)));
        Vec::new()
    }

    fn has_room(&self) -> bool {
        self.gate.has_room(|contents| contents.len() < self.capacity)
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.gate.room(|contents| contents.len() < self.capacity))
    }
}
