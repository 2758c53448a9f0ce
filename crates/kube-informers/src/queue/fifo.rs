//! `Fifo`: per key the newest value, in the order in which the keys came.
//!
//! Takes values of any type and a function that tells their keys; gives them to a process function, one at a
//! time. Knows nothing of deltas.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::QueueStats;
use super::batch::{Failure, PopError, PopInfo};
use super::gate::{Closed, Contents, Gate};
use super::population::Population;
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::target::{Target, TargetError};

/// A work list: each key once, with its newest value, in the order of first arrival.
///
/// For those who want to process each value once, the newest one, and not at all if it was deleted meanwhile.
/// Adding to a key that is queued replaces its value and keeps its place.
///
/// ```
/// use kube_informers::queue::Fifo;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let line = Fifo::new(|(name, _): &(&str, u32)| *name);
/// line.add(("foo", 10));
/// line.add(("bar", 1));
/// line.add(("foo", 13));
///
/// let first = line.pop(|_, _| Ok(())).await?;
/// assert_eq!(*first, ("foo", 13));
/// # Ok::<(), kube_informers::queue::PopError>(())
/// # }).unwrap();
/// ```
#[doc(alias = "FIFO")]
pub struct Fifo<V, Q> {
    gate: Gate<State<V, Q>>,
    key_of: Box<dyn Fn(&V) -> Q + Send + Sync>,
}

impl<V, Q: Hash + Eq + Clone> Fifo<V, Q> {
    /// An empty queue of values with these keys. The key of a value must never change.
    #[doc(alias = "NewFIFO")]
    #[doc(alias = "KeyFunc")]
    pub fn new(key_of: impl Fn(&V) -> Q + Send + Sync + 'static) -> Self {
        Self {
            gate: Gate::new(State::default()),
            key_of: Box::new(key_of),
        }
    }

    /// Adds a value, or replaces the value queued under its key.
    pub fn add(&self, value: impl Into<Arc<V>>) {
        let value = value.into();
        let key = (self.key_of)(&value);
        self.gate.change(|state| state.add(key, value));
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, value: impl Into<Arc<V>>) {
        self.add(value);
    }

    /// Adds a value unless something is queued under its key; returns whether it did.
    #[doc(alias = "AddIfNotPresent")]
    pub fn add_if_absent(&self, value: impl Into<Arc<V>>) -> bool {
        let value = value.into();
        let key = (self.key_of)(&value);
        self.gate.change(|state| state.add_if_absent(key, value))
    }

    /// Drops what is queued under this key; returns it.
    pub fn delete(&self, key: &Q) -> Option<Arc<V>> {
        self.gate.change(|state| state.delete(key))
    }

    /// Drops everything queued and queues these values instead, in this order.
    ///
    /// The first call, if nothing was added or deleted before, sets the initial population.
    pub fn replace(&self, values: impl IntoIterator<Item = impl Into<Arc<V>>>) {
        self.replace_but(values, &[]);
    }

    /// [`replace`](Self::replace), except that what is queued under these keys stays.
    fn replace_but(&self, values: impl IntoIterator<Item = impl Into<Arc<V>>>, kept: &[Q]) {
        let with_key = |value: Arc<V>| ((self.key_of)(&value), value);
        let values = values.into_iter().map(|value| with_key(value.into())).collect();
        self.gate.change(|state| state.replace(values, kept));
    }

    /// Waits for a value and processes it; returns it. Cancel-safe while it waits.
    ///
    /// The value is taken out before it is processed. Pops are processed one at a time, whoever makes them, and
    /// meanwhile the queue can be used, also by the process function. If that fails, the value is lost, or
    /// queued again if it asks for that, or panics, and nothing newer came under the key.
    ///
    /// # Errors
    ///
    /// The queue is closed and empty, or the process function failed.
    #[doc(alias = "Pop")]
    pub async fn pop(
        &self,
        process: impl FnOnce(Arc<V>, PopInfo) -> Result<(), Failure>,
    ) -> Result<Arc<V>, PopError> {
        let (key, entry) = self.gate.take(State::take).await.ok_or(Closed)?;
        let value = entry.value.clone();
        let info = PopInfo::new(entry.initial);
        let popped = Popped {
            gate: &self.gate,
            entry: Some((key, entry)),
        };
        match process(value.clone(), info).map_err(Failure::into_parts) {
            Ok(()) => {
                popped.end(false);
                Ok(value)
            }
            Err((error, requeue)) => {
                popped.end(requeue);
                Err(PopError::Process(error))
            }
        }
    }

    /// The value queued under this key.
    #[doc(alias = "GetByKey")]
    pub fn get(&self, key: &Q) -> Option<Arc<V>> {
        self.gate
            .read(|state| state.entries.get(key).map(|entry| entry.value.clone()))
    }

    /// The queued values, in the order in which they would be popped.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.gate
            .read(|state| state.queued().map(|(_, entry)| entry.value.clone()).collect())
    }

    /// The queued keys, in the order in which they would be popped.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<Q> {
        self.gate
            .read(|state| state.queued().map(|(key, _)| key.clone()).collect())
    }

    /// How many values are queued.
    pub fn len(&self) -> usize {
        self.gate.read(Contents::len)
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the queue: pops return what is left, then an error. What is added afterwards is still taken.
    pub fn close(&self) {
        self.gate.close();
    }

    /// Whether the queue has been closed. It may still hold values.
    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Whether everything in the first [`replace`](Self::replace) has been processed or deleted, or something
    /// was added or deleted before any `replace`.
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

    /// The numbers of this queue.
    pub fn stats(&self) -> QueueStats {
        self.gate.stats()
    }
}

impl<K: Object> Fifo<K, ObjectKey> {
    /// An empty queue of Kubernetes objects under their usual key. A reflector can feed it.
    pub fn of_objects() -> Self {
        Self::new(|object: &K| ObjectKey::of(object))
    }
}

/// Holds the objects that exist, newest state only: deletions take them out, bookmarks and resyncs are nothing
/// to it, and an unreadable object changes nothing and is refused, so that the reflector reports it.
impl<K: Object> Target<K> for Fifo<K, ObjectKey> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                self.add(object);
            }
            Delta::Deleted(object) => {
                self.delete(&(self.key_of)(&object));
            }
            Delta::Vanished(tombstone) => {
                self.delete(&tombstone.key);
            }
            Delta::Dropped { key, .. } => {
                self.delete(&key);
            }
            Delta::DeletedUnreadable(bad) => match &bad.key {
                Some(key) => {
                    self.delete(key);
                }
                None => return Err(bad.to_string().into()),
            },
            Delta::Unreadable(bad) => return Err(bad.to_string().into()),
            Delta::ReplacedAll(list) => {
                // What cannot be read exists nevertheless: what is queued of it stays.
                let kept: Vec<ObjectKey> = list.unreadable.into_iter().filter_map(|bad| bad.key).collect();
                self.replace_but(list.objects, &kept);
            }
            Delta::SyncAll | Delta::Bookmark { .. } => {}
        }
        Ok(())
    }
}

/// A value being processed. Dropped in a panic, it goes back like one that asked for it.
struct Popped<'a, V, Q: Hash + Eq + Clone> {
    gate: &'a Gate<State<V, Q>>,
    entry: Option<(Q, Entry<V>)>,
}

impl<V, Q: Hash + Eq + Clone> Popped<'_, V, Q> {
    fn end(mut self, requeue: bool) {
        self.finish(requeue);
    }

    fn finish(&mut self, requeue: bool) {
        if let Some((key, entry)) = self.entry.take() {
            self.gate.finish(|state| {
                if requeue {
                    state.requeue(key, entry);
                } else if entry.initial {
                    state.population.settle(1);
                }
            });
        }
    }
}

impl<V, Q: Hash + Eq + Clone> Drop for Popped<'_, V, Q> {
    fn drop(&mut self) {
        self.finish(true);
    }
}

/// The decisions: no lock, no clock, no waiting.
struct State<V, Q> {
    entries: HashMap<Q, Entry<V>>,
    /// Keys by number of arrival. Each key is in here exactly once.
    ///
    /// Differs from client-go, whose deleted keys stay in line until they are popped, so that adding and
    /// deleting alone makes it grow.
    order: BTreeMap<u64, Q>,
    arrivals: u64,
    population: Population,
}

struct Entry<V> {
    value: Arc<V>,
    arrival: u64,
    /// Whether it is part of the initial population.
    initial: bool,
}

impl<V, Q> Default for State<V, Q> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            arrivals: 0,
            population: Population::default(),
        }
    }
}

impl<V, Q> Contents for State<V, Q> {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn has_synced(&self) -> bool {
        self.population.has_synced()
    }
}

impl<V, Q: Hash + Eq + Clone> State<V, Q> {
    fn queued(&self) -> impl Iterator<Item = (&Q, &Entry<V>)> {
        self.order
            .values()
            .filter_map(|key| self.entries.get_key_value(key))
    }

    fn add(&mut self, key: Q, value: Arc<V>) {
        self.population.changed();
        match self.entries.get_mut(&key) {
            Some(entry) => entry.value = value,
            None => self.append(key, value, false),
        }
    }

    fn add_if_absent(&mut self, key: Q, value: Arc<V>) -> bool {
        self.population.changed();
        if self.entries.contains_key(&key) {
            return false;
        }
        self.append(key, value, false);
        true
    }

    fn delete(&mut self, key: &Q) -> Option<Arc<V>> {
        self.population.changed();
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.arrival);
        self.population.settle(usize::from(entry.initial));
        Some(entry.value)
    }

    fn replace(&mut self, values: Vec<(Q, Arc<V>)>, kept: &[Q]) {
        let initial = self.population.is_awaited();
        let kept: Vec<(Q, Entry<V>)> = kept
            .iter()
            .filter_map(|key| self.entries.remove_entry(key))
            .collect();
        // What is dropped here will never be processed, so nobody may wait for it.
        let dropped = self.entries.values().filter(|entry| entry.initial).count();
        self.population.settle(dropped);
        self.entries.clear();
        self.order.clear();
        for (key, entry) in kept {
            self.append(key, entry.value, entry.initial || initial);
        }
        for (key, value) in values {
            match self.entries.get_mut(&key) {
                Some(entry) => entry.value = value,
                None => self.append(key, value, initial),
            }
        }
        if initial {
            self.population.begin(self.entries.len());
        }
    }

    fn append(&mut self, key: Q, value: Arc<V>, initial: bool) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.order.insert(arrival, key.clone());
        let entry = Entry {
            value,
            arrival,
            initial,
        };
        self.entries.insert(key, entry);
    }

    fn take(&mut self) -> Option<(Q, Entry<V>)> {
        let (_, key) = self.order.pop_first()?;
        self.entries.remove_entry(&key)
    }

    /// Queues a value again that could not be processed; it yields to a newer one.
    ///
    /// Its part in the initial population goes with the key: sync is reached when the key has been processed.
    fn requeue(&mut self, key: Q, failed: Entry<V>) {
        match self.entries.get_mut(&key) {
            Some(newer) if newer.initial => self.population.settle(usize::from(failed.initial)),
            Some(newer) => newer.initial = failed.initial,
            None => self.append(key, failed.value, failed.initial),
        }
    }
}
