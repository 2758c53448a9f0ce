//! The queue between a reflector and the consumer of its deltas.
//!
//! Batches are processed one at a time: the next pop waits until the processing of the previous one has ended. This
//! provides the guarantee that client-go gets from processing under the queue's lock, without the lock.
//!
//! ```text
//!             accept                pop                  done
//! reflector ─────────▶  queued  ─────────▶  in process ───────▶  gone
//!                          ▲                    │
//!                          └──── requeue ◀──────┘
//! ```
//!
//! client-go's keyed queues, `FIFO` and `DeltaFIFO`, are in the crate `kube-informers-classic`.

mod batch;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::lock::Mutex;
use crate::object::Object;
use crate::target::{Target, TargetError};

pub use batch::Batch;

/// The recommended batch size, which is client-go's.
pub const DEFAULT_BATCH: usize = 1000;

/// The number of deltas after which the source must wait: two batches, as in client-go.
pub const DEFAULT_CAPACITY: usize = 2 * DEFAULT_BATCH;

/// The queue is closed: the awaited condition can no longer become true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
pub struct Closed;

/// The statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The number of queued deltas.
    #[doc(alias = "queued_items")]
    pub len: usize,
    /// Whether a batch is in flight: it was popped, and its processing has not ended.
    pub in_flight: bool,
    /// The number of processed batches.
    pub pops: u64,
    /// The processing time of the last batch.
    #[doc(alias = "processing_latency_seconds")]
    pub last_pop: Option<Duration>,
}

impl QueueStats {
    /// Whether everything that was queued has been processed.
    pub fn is_idle(&self) -> bool {
        self.len == 0 && !self.in_flight
    }
}

/// The queue of an informer: deltas are popped in the order of arrival. It is a [`Target`] for a reflector.
///
/// * A list is one [`Delta::ReplacedAll`], so that readers never observe a part of it, and a resync is one
///   [`Delta::SyncAll`]. Each is a batch of its own. All other deltas are popped in larger batches.
/// * If two bookmarks or resyncs are consecutive, only the later one is kept.
/// * Bounded: when it holds its capacity in objects, [`has_room`](Target::has_room) returns false and the reflector
///   stops reading. Further deltas are still accepted, because a list may be larger than any capacity.
/// * A requeued batch returns to the front, so that no delta overtakes a failed one.
///
/// It has no task and does not depend on a store: missed deletes are detected when a list is applied.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::queue::InOrderQueue;
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
#[doc(alias = "Queue")]
#[doc(alias = "QueueWithBatch")]
pub struct InOrderQueue<K> {
    shared: Arc<Shared<K>>,
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

impl<K> InOrderQueue<K> {
    /// Creates a queue with the [default capacity](DEFAULT_CAPACITY).
    #[doc(alias = "NewRealFIFO")]
    pub fn new() -> Self {
        let shared = Shared {
            line: Mutex::new(Line::default()),
            ready: Notify::new(),
            progress: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
            capacity: DEFAULT_CAPACITY,
        }
    }

    /// Sets the number of objects after which the source must wait: at least 1, `usize::MAX` for no limit.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// Closes the queue: pops return the remaining deltas, then `None`. Deltas are still accepted.
    pub fn close(&self) {
        self.shared.line.lock().is_closed = true;
        self.shared.wake();
    }

    /// Whether the queue has been closed. It may still hold deltas.
    pub fn is_closed(&self) -> bool {
        self.shared.line.lock().is_closed
    }

    /// Whether the first list has been *processed*, or a change arrived before any list.
    pub fn has_synced(&self) -> bool {
        self.shared.line.lock().population == Population::Processed
    }

    /// Waits until [`has_synced`](Self::has_synced) is true. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The queue was closed and drained before that.
    #[doc(alias = "HasSyncedChecker")]
    pub async fn synced(&self) -> Result<(), Closed> {
        wait_for(&self.shared.progress, || {
            let line = self.shared.line.lock();
            let is_drained = line.is_closed && line.busy.is_none() && line.items.is_empty();
            match line.population {
                Population::Processed => Some(Ok(())),
                _ => is_drained.then_some(Err(Closed)),
            }
        })
        .await
    }

    /// The statistics of the queue.
    pub fn stats(&self) -> QueueStats {
        let line = self.shared.line.lock();
        QueueStats {
            len: line.items.len(),
            in_flight: line.busy.is_some(),
            pops: line.pops,
            last_pop: line.last_pop,
        }
    }

    /// The number of queued deltas.
    pub fn len(&self) -> usize {
        self.shared.line.lock().items.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Object> InOrderQueue<K> {
    /// Waits for deltas and returns at most `max` of them; `None` when the queue is closed and drained.
    ///
    /// One batch is in flight at a time: the next call waits until the previous batch is done, requeued or dropped. A
    /// task that waits for the next batch while it holds one waits forever. Cancel-safe.
    #[doc(alias = "Pop")]
    #[doc(alias = "PopBatch")]
    pub async fn pop_batch(&self, max: usize) -> Option<Batch<K>> {
        let (deltas, initial) = wait_for(&self.shared.ready, || self.shared.try_take(max)).await?;
        for delta in &deltas {
            trace_delta(delta, "popped");
        }
        Some(Batch::new(deltas, initial, self.shared.clone()))
    }
}

impl<K> Default for InOrderQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Target<K> for InOrderQueue<K> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        self.accept_all(&mut std::iter::once(delta));
        Ok(())
    }

    fn accept_all(&self, deltas: &mut dyn Iterator<Item = Delta<K>>) -> Vec<TargetError> {
        {
            let mut line = self.shared.line.lock();
            for delta in deltas {
                trace_delta(&delta, "queued");
                line.accept(delta);
            }
        }
        self.shared.wake();
        Vec::new()
    }

    /// A closed queue has room: it may never be drained.
    fn has_room(&self) -> bool {
        let line = self.shared.line.lock();
        line.is_closed || line.weight < self.capacity
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(wait_for(&self.shared.progress, || self.has_room().then_some(())))
    }
}

/// What the queue and the batch in flight share.
struct Shared<K> {
    line: Mutex<Line<K>>,
    /// For pops: something was queued, the previous batch has ended, or the queue was closed.
    ready: Notify,
    /// For waiters for room or sync: something was popped or processed, or the queue was closed.
    progress: Notify,
}

impl<K> Shared<K> {
    /// `None`: not yet. `Some(None)`: closed and drained.
    fn try_take(&self, max: usize) -> Option<Option<(Vec<Delta<K>>, bool)>> {
        let mut line = self.line.lock();
        if line.busy.is_some() {
            // Even if closed: the deltas in flight may be requeued.
            return None;
        }
        let Some(taken) = line.take(max) else {
            return line.is_closed.then_some(None);
        };
        line.busy = Some(Instant::now());
        drop(line);
        self.progress.notify_waiters();
        Some(Some(taken))
    }

    /// Ends the processing of the batch in flight, except for the rest, and admits the next pop.
    fn finish(&self, initial: bool, rest: Vec<Delta<K>>) {
        let (elapsed, depth) = {
            let mut line = self.line.lock();
            line.finish(initial, rest);
            let elapsed = line.busy.take().map(|since| since.elapsed());
            line.pops += 1;
            line.last_pop = elapsed.or(line.last_pop);
            (elapsed.unwrap_or_default(), line.items.len())
        };
        self.wake();

        // As in client-go: a pop of over 100 ms while more than ten entries are queued.
        if depth > 10 && elapsed > Duration::from_millis(100) {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(elapsed_ms, depth, "slow processing delays the queue");
        }
    }

    fn wake(&self) {
        // Wakes all waiters: a single wake-up could go to a pop that is then cancelled.
        self.ready.notify_waiters();
        self.progress.notify_waiters();
    }
}

/// The queued deltas: the decisions, without lock or waiting.
struct Line<K> {
    items: VecDeque<Delta<K>>,
    /// The sum of the weights of the items.
    weight: usize,
    population: Population,
    is_closed: bool,
    /// The start of the processing of the batch in flight.
    busy: Option<Instant>,
    pops: u64,
    last_pop: Option<Duration>,
}

/// The state of the first list. A change that arrives before any list makes the population empty.
///
/// Differs from client-go, where deltas queued before the first list, such as bookmarks, belong to the initial population.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Population {
    #[default]
    Awaited,
    Queued,
    Processed,
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            weight: 0,
            population: Population::default(),
            is_closed: false,
            busy: None,
            pops: 0,
            last_pop: None,
        }
    }
}

impl<K> Line<K> {
    fn accept(&mut self, delta: Delta<K>) {
        let is_awaited = self.population == Population::Awaited;
        match &delta {
            Delta::Bookmark { .. } | Delta::SyncAll => {
                if let Some(last) = self.items.back_mut()
                    && last.name() == delta.name()
                {
                    *last = delta;
                    return;
                }
            }
            Delta::ReplacedAll(_) if is_awaited => self.population = Population::Queued,
            _ if is_awaited => self.population = Population::Processed,
            _ => {}
        }
        self.weight = self.weight.saturating_add(weight(&delta));
        self.items.push_back(delta);
    }

    /// Takes deltas from the front, and whether they are the first list.
    ///
    /// Differs from client-go, which also ends a batch at a second delta of the same key and at a bookmark. The store
    /// applies a batch in order and under one lock, so this is not necessary.
    fn take(&mut self, max: usize) -> Option<(Vec<Delta<K>>, bool)> {
        // Until it has been processed, no other list can be in front of it.
        let is_list = matches!(self.items.front()?, Delta::ReplacedAll(_));
        let initial = is_list && self.population == Population::Queued;
        let mut batch = Vec::new();
        while let Some(delta) = self.items.front()
            && (batch.is_empty() || (batch.len() < max && !is_collective(delta)))
            && let Some(delta) = self.items.pop_front()
        {
            self.weight = self.weight.saturating_sub(weight(&delta));
            let alone = is_collective(&delta);
            batch.push(delta);
            if alone {
                break;
            }
        }
        Some((batch, initial))
    }

    fn finish(&mut self, initial: bool, rest: Vec<Delta<K>>) {
        if rest.is_empty() {
            if initial {
                self.population = Population::Processed;
            }
            return;
        }
        for delta in rest.into_iter().rev() {
            self.weight = self.weight.saturating_add(weight(&delta));
            self.items.push_front(delta);
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

/// At trace level an object can be followed through the queue.
fn trace_delta<K: Object>(delta: &Delta<K>, step: &'static str) {
    if tracing::enabled!(tracing::Level::TRACE) {
        let key = delta.key();
        tracing::trace!(
            delta = delta.name(),
            key = key.as_ref().map(ObjectKey::as_str),
            "{step}"
        );
    }
}

/// Evaluates a condition, and again after each `notify_waiters`, until it returns a value.
async fn wait_for<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        // Created before the check, so that it receives every `notify_waiters` from here on. Otherwise a change
        // between the check and the wait would be missed.
        let change = changed.notified();
        if let Some(value) = check() {
            return value;
        }
        change.await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_between_the_check_and_the_wait_is_not_missed() {
        let changed = Notify::new();
        let mut checks = 0;

        let value = wait_for(&changed, || {
            checks += 1;
            // As if another thread changed the contents between the check and the wait.
            changed.notify_waiters();
            (checks == 3).then_some("seen")
        });

        assert_eq!(value.now_or_never(), Some("seen"));
    }
}
