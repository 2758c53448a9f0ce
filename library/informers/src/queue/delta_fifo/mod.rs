//! `DeltaFifo`: per key the deltas since its last pop, in the order in which the keys arrived.
//!
//! It returns batches of whole keys. `KnownKeys` tells it which objects the consumer already holds.

mod key_function;
mod keyed;

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::batch::{self, Batch, Failure, PopError, PopInfo};
use super::gate::{Closed, Gate};
use super::gated::{DeltaContents, impl_delta_queue, trace_delta};
use super::{DEFAULT_CAPACITY, DeltaQueue, KnownKeys, QueueStats};
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::target::{Target, TargetError};
use keyed::KeyedDeltas;

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
/// use kube_informers::queue::DeltaFifo;
/// use kube_informers::store::StoreWriter;
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

    /// Sets the objects the consumer holds: usually its [`Store`](crate::Store), or your own
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

    /// Accepts a delta unless its key is queued, like [`accept`](Target::accept). Returns whether it did.
    ///
    /// A delta that concerns the whole collection has no key and is always accepted.
    #[doc(alias = "AddIfNotPresent")]
    pub fn add_if_absent(&self, delta: Delta<K>) -> bool {
        self.gate.change(|contents| {
            if contents
                .key_of(&delta)
                .is_some_and(|key| contents.is_queued(&key))
            {
                return false;
            }
            contents.accept(delta);
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
        batch::pop(self, process).await
    }
}

impl<K: Object> Default for DeltaFifo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl_delta_queue!(DeltaFifo, KeyedDeltas);
