//! A small object, deltas as text, and a consumer's store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::queue::{Batch, DeltaQueue, Failure, KnownKeys, PopInfo};
use kube_informers::{Object, ObjectKey};
use parking_lot::Mutex;

/// A cluster-scoped object with a value and, if wanted, a version.
#[derive(Debug, PartialEq, Eq)]
pub struct Thing {
    pub name: String,
    pub value: u64,
    version: Option<String>,
}

impl Object for Thing {
    fn object_name(&self) -> &str {
        &self.name
    }

    fn object_namespace(&self) -> Option<&str> {
        None
    }

    fn object_uid(&self) -> Option<&str> {
        None
    }

    fn object_version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

/// An object without a version, so that no queue has a version to tell.
pub fn thing(name: &str, value: u64) -> Arc<Thing> {
    Arc::new(Thing {
        name: name.to_owned(),
        value,
        version: None,
    })
}

/// An object whose value is also its version.
pub fn versioned(name: &str, version: u64) -> Arc<Thing> {
    Arc::new(Thing {
        name: name.to_owned(),
        value: version,
        version: Some(version.to_string()),
    })
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name)
}

pub fn added(name: &str, value: u64) -> Delta<Thing> {
    Delta::Added(thing(name, value))
}

pub fn updated(name: &str, value: u64) -> Delta<Thing> {
    Delta::Updated(thing(name, value))
}

pub fn deleted(name: &str, value: u64) -> Delta<Thing> {
    Delta::Deleted(thing(name, value))
}

pub fn bookmark(version: u64) -> Delta<Thing> {
    Delta::Bookmark {
        resource_version: version.to_string(),
    }
}

/// An object that could not be read; an empty name stands for none.
pub fn bad(name: &str, version: Option<u64>) -> BadObject {
    BadObject {
        key: (!name.is_empty()).then(|| key(name)),
        uid: None,
        resource_version: version.map(|version| version.to_string()),
        problem: Problem::Decode("spec: invalid type".to_owned()),
        size: 10,
    }
}

/// A list without a version.
pub fn replaced(objects: &[(&str, u64)]) -> Delta<Thing> {
    Delta::ReplacedAll(Replacement {
        shard: None,
        objects: objects.iter().map(|(name, value)| thing(name, *value)).collect(),
        unreadable: Vec::new(),
        resource_version: None,
    })
}

/// A list at a version.
pub fn replaced_at(version: u64, objects: &[(&str, u64)]) -> Delta<Thing> {
    Delta::ReplacedAll(Replacement {
        shard: None,
        objects: objects.iter().map(|(name, value)| thing(name, *value)).collect(),
        unreadable: Vec::new(),
        resource_version: Some(version.to_string()),
    })
}

/// `Added foo=10`, `Vanished foo=10`, `ReplacedAll@20[foo=15]`, `Bookmark@7`.
pub fn text(delta: &Delta<Thing>) -> String {
    let of = |object: &Thing| format!("{}={}", object.name, object.value);
    match delta {
        Delta::ReplacedAll(list) => {
            let objects = list.objects.iter().map(|object| of(object));
            let unreadable = list.unreadable.iter().map(|bad| match &bad.key {
                Some(key) => format!("{key}=?"),
                None => "?".to_owned(),
            });
            let items: Vec<String> = objects.chain(unreadable).collect();
            let version = list.resource_version.as_deref().unwrap_or("-");
            format!("ReplacedAll@{version}[{}]", items.join(" "))
        }
        Delta::Bookmark { resource_version } => format!("Bookmark@{resource_version}"),
        Delta::SyncAll => "SyncAll".to_owned(),
        other => match (other.object(), other.key()) {
            (Some(object), _) => format!("{} {}", other.name(), of(object)),
            (None, Some(key)) => format!("{} {key}", other.name()),
            (None, None) => other.name().to_owned(),
        },
    }
}

pub fn texts(deltas: &[Delta<Thing>]) -> Vec<String> {
    deltas.iter().map(text).collect()
}

/// Puts deltas in, one after the other.
pub fn accept<Q: DeltaQueue<Thing>>(queue: &Q, deltas: impl IntoIterator<Item = Delta<Thing>>) {
    for delta in deltas {
        queue.accept(delta).unwrap();
    }
}

/// What a pop gives without waiting; `None` if it would have to wait.
pub fn try_pop<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q, max: usize) -> Option<Batch<Thing>> {
    queue.pop_batch(max).now_or_never().flatten()
}

/// Pops and processes one entry: its deltas as text, and whether it was initial.
pub fn pop_flagged<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q) -> (Vec<String>, bool) {
    let batch = try_pop(queue, 1).expect("something to pop");
    let initial = batch.initial;
    (texts(&batch.done()), initial)
}

/// Pops and processes one entry: its deltas as text.
pub fn pop<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q) -> Vec<String> {
    pop_flagged(queue).0
}

/// Pops and processes everything: the batches as text.
pub fn drain<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q, max: usize) -> Vec<Vec<String>> {
    std::iter::from_fn(|| try_pop(queue, max))
        .map(|batch| texts(&batch.done()))
        .collect()
}

/// Waits 50 ms of virtual time for something more.
pub async fn assert_nothing_more<Q: DeltaQueue<Thing>>(queue: &Q) {
    let more = tokio::time::timeout(Duration::from_millis(50), queue.pop_batch(1)).await;
    if let Ok(more) = more {
        panic!("unexpected: {more:?}");
    }
}

/// A process function that is content with everything.
pub fn fine(_: &[Delta<Thing>], _: PopInfo) -> Result<(), Failure> {
    Ok(())
}

/// What a consumer holds; `None` stands for an object that never could be read. Clones share it.
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

    /// Applies a delta as a store does.
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
