//! `InOrderQueue`: all deltas in the order of arrival, with a whole list as one delta.
//!
//! It does not depend on a store: missed deletes are detected when a list is applied.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::batch::{self, Batch, Failure, Finished, PopError, PopInfo};
use super::gate::{Closed, Contents, Gate};
use super::gated::{DeltaContents, impl_delta_queue, trace_delta};
use super::population::Population;
use super::{DEFAULT_CAPACITY, DeltaQueue, QueueStats};
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::target::{Target, TargetError};

/// The default queue of an informer: deltas are popped in the order of arrival.
///
/// * A list is one [`Delta::ReplacedAll`], so that readers never observe a part of it, and a resync is one
///   [`Delta::SyncAll`]. Each is a batch of its own. All other deltas are popped in larger batches.
/// * If two bookmarks or resyncs are consecutive, only the later one is kept.
/// * Bounded: when it holds its capacity in objects, [`has_room`](Target::has_room) returns false and the reflector
///   stops reading. Further deltas are still accepted, because a list may be larger than any capacity.
/// * A requeued batch returns to the front, so that no delta overtakes a failed one.
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
#[doc(alias = "RealFIFOOptions")]
#[doc(alias = "NewRealFIFOWithOptions")]
#[doc(alias = "RealFIFO")]
#[doc(alias = "AtomicFIFO")]
pub struct InOrderQueue<K> {
    gate: Arc<Gate<InOrderDeltas<K>>>,
    capacity: usize,
}

/// Without the objects, which may be Secrets.
impl<K> fmt::Debug for InOrderQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrderQueue")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl<K: Object> InOrderQueue<K> {
    /// Creates a queue with the [default capacity](DEFAULT_CAPACITY).
    #[doc(alias = "NewRealFIFO")]
    pub fn new() -> Self {
        Self {
            gate: Arc::new(Gate::new(InOrderDeltas::default())),
            capacity: DEFAULT_CAPACITY,
        }
    }

    /// Sets the number of objects after which the source must wait: at least 1, `usize::MAX` for no limit.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// Waits for one delta, processes it and returns it. Cancel-safe while it waits.
    ///
    /// The process function may call the queue. If it fails, the delta is dropped, or returned to the front if the
    /// function requests it. If it panics, the delta is returned to the front.
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

impl_delta_queue!(InOrderQueue, InOrderDeltas);

/// The parts of a delta that concern one object. A list is treated as one delta per object.
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
                .chain(unreadable.map(|bad| Delta::ReplacedUnreadable(bad.clone())))
                .collect()
        }
        other if other.key().as_ref() == Some(key) => vec![other.clone()],
        _ => Vec::new(),
    }
}

/// The keys a delta concerns, including those of a list.
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

/// The queued deltas.
pub(super) struct InOrderDeltas<K> {
    items: VecDeque<QueuedDelta<K>>,
    /// The sum of the weights of the items.
    weight: usize,
    population: Population,
}

struct QueuedDelta<K> {
    delta: Delta<K>,
    /// Whether this is the first list.
    ///
    /// Differs from client-go, where deltas queued before the first list, such as bookmarks, belong to the initial
    /// population.
    initial: bool,
}

impl<K> Default for InOrderDeltas<K> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            weight: 0,
            population: Population::default(),
        }
    }
}

impl<K> Contents for InOrderDeltas<K> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn has_synced(&self) -> bool {
        self.population.has_synced()
    }
}

impl<K> InOrderDeltas<K> {
    fn deltas(&self) -> impl Iterator<Item = &Delta<K>> {
        self.items.iter().map(|item| &item.delta)
    }
}

impl<K: Object> DeltaContents<K> for InOrderDeltas<K> {
    const IN_ORDER: bool = true;

    fn weight(&self) -> usize {
        self.weight
    }

    fn get(&self, key: &ObjectKey) -> Vec<Delta<K>> {
        self.deltas().flat_map(|delta| about(delta, key)).collect()
    }

    fn list(&self) -> Vec<Delta<K>> {
        self.deltas().cloned().collect()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        let mut seen = HashSet::new();
        let mut keys: Vec<ObjectKey> = self.deltas().flat_map(keys_of).collect();
        keys.retain(|key| seen.insert(key.clone()));
        keys
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
        self.items.push_back(QueuedDelta { delta, initial });
    }

    /// Differs from client-go, which also ends a batch at a second delta of the same key and at a bookmark. The store
    /// applies a batch in order and under one lock, so this is not necessary.
    fn take(&mut self, max: usize) -> Option<(Vec<Delta<K>>, bool)> {
        let initial = self.items.front()?.initial;
        let mut batch = Vec::new();
        while let Some(item) = self.items.front()
            && (batch.is_empty()
                || (batch.len() < max && item.initial == initial && !is_collective(&item.delta)))
            && let Some(item) = self.items.pop_front()
        {
            self.weight = self.weight.saturating_sub(weight(&item.delta));
            let alone = is_collective(&item.delta);
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
                    self.items.push_front(QueuedDelta { delta, initial });
                }
            }
            _ if initial => self.population.settle(1),
            _ => {}
        }
    }
}

/// Whether a delta concerns the whole collection and therefore is a batch of its own.
fn is_collective<K>(delta: &Delta<K>) -> bool {
    matches!(delta, Delta::ReplacedAll(_) | Delta::SyncAll)
}

/// The weight of a delta: the number of its objects, at least 1.
fn weight<K>(delta: &Delta<K>) -> usize {
    match delta {
        Delta::ReplacedAll(list) => (list.objects.len() + list.unreadable.len()).max(1),
        _ => 1,
    }
}
