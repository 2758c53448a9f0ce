//! `InOrderQueue`: every delta in the order in which it came, a whole list as one.
//!
//! Takes deltas, gives batches of them. Knows no store: what a list lacks is found out when it is applied.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::batch::{self, Batch, Failure, Finished, PopError, PopInfo};
use super::gate::{Closed, Contents, Gate};
use super::population::Population;
use super::{DEFAULT_CAPACITY, DeltaQueue, QueueStats, trace_popped, trace_queued};
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::target::{BoxFuture, Target, TargetError};

/// The queue of an informer unless told otherwise: deltas leave it exactly as they came.
///
/// * A list stays one [`Delta::ReplacedAll`], so that nobody ever sees half of it, and a resync one
///   [`Delta::SyncAll`]. Both are handed out alone; everything else is handed out in batches.
/// * Of two bookmarks, or two resyncs, with nothing in between, the later one is kept.
/// * Bounded: when it holds its capacity in objects, [`has_room`](Target::has_room) says no and the reflector
///   stops reading. What is put in nevertheless is still taken, so that a list, which may be larger than any
///   capacity, always fits.
/// * A requeued batch goes back to the front: the order is the promise of this queue, so that nothing overtakes
///   a delta that failed.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::queue::{DeltaQueue, InOrderQueue};
/// use kube_informers::delta::Delta;
/// use kube_informers::target::Target;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let queue = InOrderQueue::new();
/// queue.accept(Delta::Added(Arc::new(Pod::default())))?;
/// queue.close();
///
/// while let Some(batch) = queue.pop_batch(1000).await {
///     for delta in batch.done() {
///         println!("{}", delta.name());
///     }
/// }
/// # Ok::<(), kube_informers::target::TargetError>(())
/// # }).unwrap();
/// ```
#[doc(alias = "RealFIFO")]
#[doc(alias = "AtomicFIFO")]
pub struct InOrderQueue<K> {
    gate: Arc<Gate<State<K>>>,
    capacity: usize,
}

impl<K: Object> InOrderQueue<K> {
    /// An empty queue with the [default capacity](DEFAULT_CAPACITY).
    #[doc(alias = "NewRealFIFO")]
    pub fn new() -> Self {
        Self {
            gate: Arc::new(Gate::new(State::default())),
            capacity: DEFAULT_CAPACITY,
        }
    }

    /// Holds about so many objects before its source has to wait; `usize::MAX` for no limit, at least 1.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// Waits for one delta and processes it; returns it. Cancel-safe while it waits.
    ///
    /// The process function may call the queue. If it fails, the delta is lost, or put back to the front if
    /// it asks for that; if it panics, the delta is put back.
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

impl<K: Object> Default for InOrderQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Target<K> for InOrderQueue<K> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        trace_queued(&delta);
        self.gate.change(|state| state.accept(delta));
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.gate.has_room(|state| state.weight < self.capacity)
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.gate.room(|state| state.weight < self.capacity))
    }
}

impl<K: Object> DeltaQueue<K> for InOrderQueue<K> {
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Option<Batch<K>>> {
        Box::pin(async move {
            let (deltas, initial) = self.gate.take(|state| state.take(max)).await?;
            trace_popped(&deltas);
            let gate = self.gate.clone();
            Some(Batch::new(deltas, initial, move |finished| {
                gate.finish(|state| state.finish(initial, finished));
            }))
        })
    }

    fn in_order(&self) -> bool {
        true
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
        self.gate
            .read(|state| state.deltas().flat_map(|delta| about(delta, key)).collect())
    }

    fn list(&self) -> Vec<Delta<K>> {
        self.gate.read(|state| state.deltas().cloned().collect())
    }

    fn keys(&self) -> Vec<ObjectKey> {
        let mut seen = HashSet::new();
        let mut keys: Vec<ObjectKey> = self.gate.read(|state| state.deltas().flat_map(keys_of).collect());
        keys.retain(|key| seen.insert(key.clone()));
        keys
    }

    fn stats(&self) -> QueueStats {
        self.gate.stats()
    }
}

/// What a delta says about one object. A list says it as if it had been taken apart.
fn about<K: Object>(delta: &Delta<K>, key: &ObjectKey) -> Vec<Delta<K>> {
    match delta {
        Delta::ReplacedAll(list) => {
            let objects = list
                .objects
                .iter()
                .filter(|object| ObjectKey::of(&***object) == *key);
            let unreadable = list.unreadable.iter().filter(|bad| bad.key.as_ref() == Some(key));
            objects
                .map(|object| Delta::Replaced(object.clone()))
                .chain(unreadable.map(|bad| Delta::Unreadable(bad.clone())))
                .collect()
        }
        other if other.key().as_ref() == Some(key) => vec![other.clone()],
        _ => Vec::new(),
    }
}

/// The keys a delta is about, those inside a list included.
fn keys_of<K: Object>(delta: &Delta<K>) -> Vec<ObjectKey> {
    match delta {
        Delta::ReplacedAll(list) => {
            let objects = list.objects.iter().map(|object| ObjectKey::of(&**object));
            let unreadable = list.unreadable.iter().filter_map(|bad| bad.key.clone());
            objects.chain(unreadable).collect()
        }
        other => other.key().into_iter().collect(),
    }
}

/// The decisions: no lock, no clock, no waiting.
struct State<K> {
    items: VecDeque<Item<K>>,
    /// The sum of the items' weights.
    weight: usize,
    population: Population,
}

struct Item<K> {
    delta: Delta<K>,
    /// Whether this is the first list.
    ///
    /// Differs from client-go, which counts what was queued before the first list, bookmarks say, into the
    /// initial population.
    initial: bool,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            weight: 0,
            population: Population::default(),
        }
    }
}

impl<K> Contents for State<K> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn has_synced(&self) -> bool {
        self.population.has_synced()
    }
}

impl<K> State<K> {
    fn deltas(&self) -> impl Iterator<Item = &Delta<K>> {
        self.items.iter().map(|item| &item.delta)
    }

    fn accept(&mut self, delta: Delta<K>) {
        let mut initial = false;
        match &delta {
            Delta::ReplacedAll(_) => {
                if self.population.is_awaited() {
                    initial = true;
                    self.population.begin(1);
                }
            }
            Delta::Bookmark { .. } | Delta::SyncAll => {
                if let Some(last) = self.items.back_mut()
                    && last.delta.name() == delta.name()
                {
                    last.delta = delta;
                    return;
                }
            }
            Delta::Sync(_) => {}
            _ => self.population.changed(),
        }
        self.weight = self.weight.saturating_add(weight(&delta));
        self.items.push_back(Item { delta, initial });
    }

    /// Up to `max` deltas from the front that may go together, and whether they are the initial population.
    ///
    /// The first list is never mixed with anything, as no list is.
    ///
    /// Differs from client-go, which also ends a batch at a second delta of the same key and at a bookmark:
    /// our store applies a batch in order, under one lock, and knows each intermediate state.
    fn take(&mut self, max: usize) -> Option<(Vec<Delta<K>>, bool)> {
        let initial = self.items.front()?.initial;
        let mut batch = Vec::new();
        while let Some(item) = self.items.front()
            && (batch.is_empty()
                || (batch.len() < max && item.initial == initial && !goes_alone(&item.delta)))
            && let Some(item) = self.items.pop_front()
        {
            self.weight = self.weight.saturating_sub(weight(&item.delta));
            let alone = goes_alone(&item.delta);
            batch.push(item.delta);
            if alone {
                break;
            }
        }
        Some((batch, initial))
    }

    fn finish(&mut self, initial: bool, finished: Finished<K>) {
        match finished {
            Finished::Requeued(rest) if !rest.is_empty() => {
                for delta in rest.into_iter().rev() {
                    self.weight = self.weight.saturating_add(weight(&delta));
                    self.items.push_front(Item { delta, initial });
                }
            }
            _ if initial => self.population.settle(1),
            _ => {}
        }
    }
}

/// Whether a delta is about the whole collection and so much work that it makes a batch of its own.
fn goes_alone<K>(delta: &Delta<K>) -> bool {
    matches!(delta, Delta::ReplacedAll(_) | Delta::SyncAll)
}

/// What a delta counts towards the capacity: the objects it holds, and at least 1.
fn weight<K>(delta: &Delta<K>) -> usize {
    match delta {
        Delta::ReplacedAll(list) => (list.objects.len() + list.unreadable.len()).max(1),
        _ => 1,
    }
}
