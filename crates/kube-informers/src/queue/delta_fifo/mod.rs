//! `DeltaFifo`: per key its deltas since the last pop, in the order in which the keys came.
//!
//! Takes deltas, gives batches of whole keys. Asks its consumer, through `KnownKeys`, what that holds already.

mod state;

use std::sync::Arc;

use super::batch::{self, Batch, Failure, PopError, PopInfo};
use super::gate::{Closed, Gate};
use super::{DEFAULT_CAPACITY, DeltaQueue, KnownKeys, QueueStats, trace_popped, trace_queued};
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::target::{BoxFuture, Target, TargetError};
use state::State;

/// client-go's classic queue: one key at a time, with all that happened to it since it was last popped.
///
/// * Keys are popped in the order of their first arrival; the deltas of one key stay in order and together.
///   Across keys the order of events is lost, so that the versions of the deltas tell nothing about the
///   collection: when a pop empties the queue, its batch ends with a [`Delta::Bookmark`] that says which
///   version has been reached.
/// * A list becomes one [`Delta::Replaced`] per object and one [`Delta::Vanished`] for each key that the list
///   lacks and that is queued, in process, or [known](Self::known). An object that could not be read is part
///   of the list all the same.
/// * A resync becomes one [`Delta::Sync`] per known object, except those that are queued or in process.
/// * A deletion is taken only if its key is queued, in process or known: anything else was told already.
/// * Compressed are two deletions in a row, to the more telling one, and nothing else: a history holds each
///   change. Unreadable objects without a name have no key; they are popped first, on their own.
/// * Bounded: when it holds its capacity in deltas, [`has_room`](Target::has_room) says no and the reflector
///   stops reading. What is put in nevertheless is still taken, so that a list always fits.
/// * A requeued key goes to the end of the line, and yields if something newer came under it meanwhile.
///
/// Differs from client-go: a list always makes `Replaced`, never `Sync`; and sync is reached when the last
/// entry of the first list has been processed, not when it has been popped.
#[doc(alias = "DeltaFIFO")]
pub struct DeltaFifo<K> {
    gate: Arc<Gate<State<K>>>,
    known: Option<Arc<dyn KnownKeys<K>>>,
    capacity: usize,
}

impl<K: Object> DeltaFifo<K> {
    /// An empty queue with the [default capacity](DEFAULT_CAPACITY) whose consumer holds nothing it knows of.
    #[doc(alias = "NewDeltaFIFO")]
    pub fn new() -> Self {
        Self {
            gate: Arc::new(Gate::new(State::default())),
            known: None,
            capacity: DEFAULT_CAPACITY,
        }
    }

    /// Says what the consumer holds; usually its store.
    ///
    /// Without it, a deletion of a key that is not queued is ignored, lists make no deletions for what has been
    /// popped, and resyncs do nothing.
    #[doc(alias = "KnownObjects")]
    pub fn known(mut self, known: impl KnownKeys<K>) -> Self {
        self.known = Some(Arc::new(known));
        self
    }

    /// Holds about so many deltas before its source has to wait; `usize::MAX` for no limit, at least 1.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// Puts a delta in unless something is queued under its key; returns whether it did.
    ///
    /// Whatever it puts in, it puts in as [`accept`](Target::accept) does. A delta about the whole collection has
    /// no key and is always put in.
    #[doc(alias = "AddIfNotPresent")]
    pub fn add_if_absent(&self, delta: Delta<K>) -> bool {
        self.gate.change(|state| {
            if delta.key().is_some_and(|key| state.is_queued(&key)) {
                return false;
            }
            state.accept(delta, self.known.as_deref());
            true
        })
    }

    /// Waits for one key and processes its deltas; returns them. Cancel-safe while it waits.
    ///
    /// The process function may call the queue. If it fails, the deltas are lost, or put back if it asks for
    /// that; if it panics, they are put back.
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

impl<K: Object> Target<K> for DeltaFifo<K> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        trace_queued(&delta);
        self.gate
            .change(|state| state.accept(delta, self.known.as_deref()));
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.gate.has_room(|state| state.deltas() < self.capacity)
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.gate.room(|state| state.deltas() < self.capacity))
    }
}

impl<K: Object> DeltaQueue<K> for DeltaFifo<K> {
    /// See [`DeltaQueue::pop_batch`]. The deltas of one key are never split, even if they are more than `max`.
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Option<Batch<K>>> {
        Box::pin(async move {
            let (deltas, initial) = self.gate.take(|state| state.take(max)).await?;
            trace_popped(&deltas);
            let gate = self.gate.clone();
            Some(Batch::new(deltas, initial, move |finished| {
                gate.finish(|state| state.finish(finished));
            }))
        })
    }

    fn in_order(&self) -> bool {
        false
    }

    fn close(&self) {
        self.gate.close();
    }

    fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    fn has_synced(&self) -> bool {
        self.gate.has_synced()
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Closed>> {
        Box::pin(self.gate.synced())
    }

    fn get(&self, key: &ObjectKey) -> Vec<Delta<K>> {
        self.gate.read(|state| state.get(key).to_vec())
    }

    fn list(&self) -> Vec<Delta<K>> {
        self.gate.read(State::list)
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.gate.read(State::keys)
    }

    fn stats(&self) -> QueueStats {
        self.gate.stats()
    }
}
