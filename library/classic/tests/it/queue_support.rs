//! A consumer's objects, and pops of a `DeltaFifo` as text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::ObjectKey;
use kube_informers_classic::{Batch, Delta, DeltaFifo, Failure, KnownKeys, PopInfo};
use parking_lot::Mutex;

pub use crate::things::*;

/// An object whose value is also its version.
pub fn versioned(name: &str, version: u64) -> Arc<Thing> {
    Arc::new(Thing {
        name: name.to_owned(),
        value: version,
        version: Some(version.to_string()),
    })
}

/// `Added foo=10`, `Vanished foo=10`, `Bookmark@7`.
pub fn text(delta: &Delta<Thing>) -> String {
    match delta {
        Delta::Bookmark { resource_version } => format!("Bookmark@{resource_version}"),
        other => match (other.object(), other.key()) {
            (Some(object), _) => format!("{} {}={}", other.name(), object.name, object.value),
            (None, Some(key)) => format!("{} {key}", other.name()),
            (None, None) => other.name().to_owned(),
        },
    }
}

pub fn texts(deltas: &[Delta<Thing>]) -> Vec<String> {
    deltas.iter().map(text).collect()
}

/// Pops without waiting; `None` if the pop would have to wait.
pub fn try_pop(queue: &DeltaFifo<Thing>, max: usize) -> Option<Batch<Thing>> {
    queue.pop_batch(max).now_or_never().flatten()
}

/// Pops and processes one entry. Returns its deltas as text, and whether it was initial.
pub fn pop_flagged(queue: &DeltaFifo<Thing>) -> (Vec<String>, bool) {
    let batch = try_pop(queue, 1).expect("something to pop");
    let initial = batch.initial;
    (texts(&batch.done()), initial)
}

/// Pops and processes one entry. Returns its deltas as text.
pub fn pop(queue: &DeltaFifo<Thing>) -> Vec<String> {
    pop_flagged(queue).0
}

/// Pops and processes everything. Returns the batches as text.
pub fn drain(queue: &DeltaFifo<Thing>, max: usize) -> Vec<Vec<String>> {
    std::iter::from_fn(|| try_pop(queue, max))
        .map(|batch| texts(&batch.done()))
        .collect()
}

/// Asserts that nothing can be popped within 50 ms of virtual time.
pub async fn assert_nothing_more(queue: &DeltaFifo<Thing>) {
    let more = tokio::time::timeout(Duration::from_millis(50), queue.pop_batch(1)).await;
    if let Ok(more) = more {
        panic!("unexpected: {more:?}");
    }
}

/// A process function that always succeeds.
pub fn fine(_: &[Delta<Thing>], _: PopInfo) -> Result<(), Failure> {
    Ok(())
}

/// The objects of a consumer; `None` for an object that was never readable. Clones share the contents.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<BTreeMap<ObjectKey, Option<Arc<Thing>>>>>);

impl Held {
    pub fn of(objects: &[(&str, u64)]) -> Self {
        let held = Self::default();
        for (name, value) in objects {
            held.insert(thing(name, *value));
        }
        held
    }

    pub fn insert(&self, object: Arc<Thing>) {
        self.0.lock().insert(ObjectKey::of(&*object), Some(object));
    }

    /// Applies a delta like a store.
    pub fn apply(&self, delta: &Delta<Thing>) {
        let Some(key) = delta.key() else { return };
        let mut held = self.0.lock();
        match delta.object() {
            _ if delta.is_deletion() => {
                held.remove(&key);
            }
            Some(object) => {
                held.insert(key, Some(object.clone()));
            }
            None => {
                held.entry(key).or_default();
            }
        }
    }

    pub fn values(&self) -> BTreeMap<String, Option<u64>> {
        let held = self.0.lock();
        held.iter()
            .map(|(key, object)| (key.to_string(), object.as_ref().map(|object| object.value)))
            .collect()
    }
}

impl KnownKeys<Thing> for Held {
    fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().keys().cloned().collect()
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<Thing>> {
        self.0.lock().get(key).cloned().flatten()
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        self.0.lock().contains_key(key)
    }
}

/// The producer and the number of the newest of some deltas.
pub fn number_of(deltas: &[Delta<Thing>]) -> (String, u64) {
    let newest = deltas.last().and_then(Delta::object).unwrap();
    (newest.name[..1].to_owned(), newest.value)
}
