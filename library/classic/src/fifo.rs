//! `Fifo`: per key the newest value, in the order in which the keys arrived.
//!
//! Holds values of any type, and passes them to a process function one at a time.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kube_informers::delta::Delta;
use kube_informers::queue::Closed;
use kube_informers::target::{Target, TargetError};
use kube_informers::{Object, ObjectKey};

use crate::gate::{Contents, Gate, QueueStats};
use crate::pop::{Failure, PopError, PopInfo};
use crate::population::Population;

/// A work list: each key once, with its newest value, in the order of first arrival.
///
/// Each key is processed once, with its newest value, and not at all if it was deleted in the meantime. Adding a value
/// under a queued key replaces the value and keeps the position.
///
/// ```
/// use kube_informers_classic::Fifo;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let line = Fifo::new(|(name, _): &(&str, u32)| *name);
/// line.add(("foo", 10));
/// line.add(("bar", 1));
/// line.add(("foo", 13));
///
/// let first = line.pop(|_, _| Ok(())).await?;
/// assert_eq!(*first, ("foo", 13));
/// # Ok::<(), kube_informers_classic::PopError>(())
/// # }).unwrap();
/// ```
#[doc(alias = "FIFO")]
pub struct Fifo<V, Q> {
    gate: Gate<FifoValues<V, Q>>,
    key_of: Box<dyn Fn(&V) -> Q + Send + Sync>,
}

/// Without the values, which may be Secrets.
impl<V, Q: Hash + Eq + Clone> fmt::Debug for Fifo<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<V, Q: Hash + Eq + Clone> Fifo<V, Q> {
    /// Creates a queue whose values have these keys. The key of a value must never change.
    #[doc(alias = "NewFIFO")]
    #[doc(alias = "KeyFunc")]
    pub fn new(key_of: impl Fn(&V) -> Q + Send + Sync + 'static) -> Self {
        Self {
            gate: Gate::new(FifoValues::default()),
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

    /// Adds a value unless its key is queued. Returns whether it did.
    #[doc(alias = "AddIfNotPresent")]
    pub fn add_if_absent(&self, value: impl Into<Arc<V>>) -> bool {
        let value = value.into();
        let key = (self.key_of)(&value);
        self.gate.change(|state| state.add_if_absent(key, value))
    }

    /// Removes and returns the value queued under this key.
    pub fn delete(&self, key: &Q) -> Option<Arc<V>> {
        self.gate.change(|state| state.delete(key))
    }

    /// Replaces all queued values by these, in this order.
    ///
    /// The first call sets the initial population, if nothing was added or deleted before.
    pub fn replace(&self, values: impl IntoIterator<Item = impl Into<Arc<V>>>) {
        self.replace_but(values, &[]);
    }

    /// Like [`replace`](Self::replace), but keeps the values queued under these keys.
    fn replace_but(&self, values: impl IntoIterator<Item = impl Into<Arc<V>>>, kept: &[Q]) {
        let with_key = |value: Arc<V>| ((self.key_of)(&value), value);
        let values = values.into_iter().map(|value| with_key(value.into())).collect();
        self.gate.change(|state| state.replace(values, kept));
    }

    /// Waits for a value, processes it and returns it. Cancel-safe while it waits.
    ///
    /// The value is removed before it is processed. Pops are processed one at a time. The process function may call the
    /// queue. If it fails, the value is dropped. If it requests a requeue or panics, the value is queued again unless a
    /// newer one has arrived.
    ///
    /// # Errors
    ///
    /// The queue is closed and empty, or the process function failed.
    #[doc(alias = "Pop")]
    pub async fn pop(
        &self,
        process: impl FnOnce(Arc<V>, PopInfo) -> Result<(), Failure>,
    ) -> Result<Arc<V>, PopError> {
        let (key, entry) = self.gate.take(FifoValues::take).await.ok_or(Closed)?;
        let value = entry.value.clone();
        let info = PopInfo {
            initial: entry.initial,
        };
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

    /// The queued values, in pop order.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.gate
            .read(|state| state.queued().map(|(_, entry)| entry.value.clone()).collect())
    }

    /// The queued keys, in pop order.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<Q> {
        self.gate
            .read(|state| state.queued().map(|(key, _)| key.clone()).collect())
    }

    /// The number of queued values.
    pub fn len(&self) -> usize {
        self.gate.read(Contents::len)
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue: pops return the remaining values, then an error. Values are still accepted.
    pub fn close(&self) {
        self.gate.close();
    }

    /// Whether the queue has been closed. It may still hold values.
    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Whether all values of the first [`replace`](Self::replace) have been processed or deleted, or a value was added or
    /// deleted before any `replace`.
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

impl<K: Object> Fifo<K, ObjectKey> {
    /// Creates a queue of Kubernetes objects, which can be the target of a reflector.
    pub fn of_objects() -> Self {
        Self::new(|object: &K| ObjectKey::of(object))
    }
}

/// Holds the newest state of each existing object. Deletions remove objects, and bookmarks and resyncs are ignored. An
/// unreadable object is rejected, so that the reflector reports it.
impl<K: Object> Target<K> for Fifo<K, ObjectKey> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        match delta {
            Delta::Added(object) | Delta::Updated(object) => self.add(object),
            Delta::Deleted(object) => {
                self.delete(&(self.key_of)(&object));
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
                // Unreadable objects exist, so their queued values are kept.
                let kept: Vec<ObjectKey> = list.unreadable.into_iter().filter_map(|bad| bad.key).collect();
                self.replace_but(list.objects, &kept);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A value being processed. If it is dropped by a panic, it is requeued.
struct Popped<'a, V, Q: Hash + Eq + Clone> {
    gate: &'a Gate<FifoValues<V, Q>>,
    entry: Option<(Q, FifoEntry<V>)>,
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

/// The queued values.
struct FifoValues<V, Q> {
    entries: HashMap<Q, FifoEntry<V>>,
    /// The keys by arrival number, without duplicates.
    ///
    /// Differs from client-go, where deleted keys stay in the queue until they are popped, so that it grows by adding and
    /// deleting alone.
    order: BTreeMap<u64, Q>,
    arrivals: u64,
    population: Population,
}

struct FifoEntry<V> {
    value: Arc<V>,
    arrival: u64,
    /// Whether the value belongs to the initial population.
    initial: bool,
}

impl<V, Q> Default for FifoValues<V, Q> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            arrivals: 0,
            population: Population::default(),
        }
    }
}

impl<V, Q> Contents for FifoValues<V, Q> {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn has_synced(&self) -> bool {
        self.population.has_synced()
    }
}

impl<V, Q: Hash + Eq + Clone> FifoValues<V, Q> {
    fn queued(&self) -> impl Iterator<Item = (&Q, &FifoEntry<V>)> {
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
        let kept: Vec<(Q, FifoEntry<V>)> = kept
            .iter()
            .filter_map(|key| self.entries.remove_entry(key))
            .collect();
        // Dropped values are never processed, so sync must not wait for them.
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
        let entry = FifoEntry {
            value,
            arrival,
            initial,
        };
        self.entries.insert(key, entry);
    }

    fn take(&mut self) -> Option<(Q, FifoEntry<V>)> {
        let (_, key) = self.order.pop_first()?;
        self.entries.remove_entry(&key)
    }

    /// Requeues a value that could not be processed, unless a newer one is queued.
    ///
    /// The key stays part of the initial population: the queue is synced when the key has been processed.
    fn requeue(&mut self, key: Q, failed: FifoEntry<V>) {
        match self.entries.get_mut(&key) {
            Some(newer) if newer.initial => self.population.settle(usize::from(failed.initial)),
            Some(newer) => newer.initial = failed.initial,
            None => self.append(key, failed.value, failed.initial),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_the_length_and_no_value() {
        let fifo = Fifo::new(|value: &&'static str| *value);
        fifo.replace(["c4n4ry"]);

        assert_eq!(format!("{fifo:?}"), "Fifo { len: 1, .. }");
    }
}
