//! A small object, deltas as text, a consumer's store, and the upstream tests that all queues share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::queue::{Batch, DeltaQueue, Failure, KnownKeys, PopInfo};
use kube_informers::{Object, ObjectKey};
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// A cluster-scoped object with a value and an optional version.
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

/// An object without a version, so that no queue reports a version.
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

/// An unreadable object. An empty name means none.
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

/// Adds deltas, in order.
pub fn accept<Q: DeltaQueue<Thing>>(queue: &Q, deltas: impl IntoIterator<Item = Delta<Thing>>) {
    for delta in deltas {
        queue.accept(delta).unwrap();
    }
}

/// Pops without waiting; `None` if the pop would have to wait.
pub fn try_pop<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q, max: usize) -> Option<Batch<Thing>> {
    queue.pop_batch(max).now_or_never().flatten()
}

/// Pops and processes one entry. Returns its deltas as text, and whether it was initial.
pub fn pop_flagged<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q) -> (Vec<String>, bool) {
    let batch = try_pop(queue, 1).expect("something to pop");
    let initial = batch.initial;
    (texts(&batch.done()), initial)
}

/// Pops and processes one entry. Returns its deltas as text.
pub fn pop<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q) -> Vec<String> {
    pop_flagged(queue).0
}

/// Pops and processes everything. Returns the batches as text.
pub fn drain<Q: DeltaQueue<Thing> + ?Sized>(queue: &Q, max: usize) -> Vec<Vec<String>> {
    std::iter::from_fn(|| try_pop(queue, max))
        .map(|batch| texts(&batch.done()))
        .collect()
}

/// Asserts that nothing can be popped within 50 ms of virtual time.
pub async fn assert_nothing_more<Q: DeltaQueue<Thing>>(queue: &Q) {
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

/// Upstream: TestFIFO_basic, TestDeltaFIFO_basic, TestRealFIFO_basic. Two producers add values, and the values of each
/// producer are popped in order. `add` and `pop` adapt the queue; a value is its producer and a number.
pub async fn producers_keep_their_order<Q>(
    queue: Arc<Q>,
    add: impl Fn(&Q, &str, u64) + Copy + Send + 'static,
    pop: impl AsyncFn(Arc<Q>) -> (String, u64),
) where
    Q: Send + Sync + 'static,
{
    const AMOUNT: u64 = 500;
    let mut producers = JoinSet::new();
    for producer in ["a", "b"] {
        let queue = queue.clone();
        producers.spawn(async move {
            for number in 1..=AMOUNT {
                add(&queue, producer, number);
            }
        });
    }

    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..2 * AMOUNT {
        let (producer, number) = pop(queue.clone()).await;
        let last = last.entry(producer).or_default();
        assert!(number > *last, "{number} was popped after {last}");
        *last = number;
    }

    assert_eq!(last, [("a".to_owned(), AMOUNT), ("b".to_owned(), AMOUNT)].into());
}

/// Adds one value of a producer to a delta queue.
pub fn add_number<Q: DeltaQueue<Thing>>(queue: &Q, producer: &str, number: u64) {
    queue
        .accept(added(&format!("{producer}{number}"), number))
        .unwrap();
}

/// The producer and the number of the newest of some deltas.
pub fn number_of(deltas: &[Delta<Thing>]) -> (String, u64) {
    let newest = deltas.last().and_then(Delta::object).unwrap();
    (newest.name[..1].to_owned(), newest.value)
}

/// Upstream: TestDeltaFIFO_HasSynced, TestRealFIFO_HasSynced. Each case is a delta, a number of pops, and whether the
/// queue is synced after them.
pub fn assert_synced_after_pops<Q: DeltaQueue<Thing>>(
    queue: impl Fn() -> Q,
    cases: impl IntoIterator<Item = (Option<Delta<Thing>>, usize, bool)>,
) {
    for (number, (delta, pops, synced)) in cases.into_iter().enumerate() {
        let queue = queue();
        accept(&queue, delta);

        for _ in 0..pops {
            pop(&queue);
        }

        assert_eq!(queue.has_synced(), synced, "case {number}");
    }
}

/// Upstream: TestFIFO_PopShouldUnblockWhenClosed and its copies. `pop` returns whether it failed because the queue is
/// closed.
pub async fn assert_close_ends_blocked_pops<Q, Pop>(queue: Q, pop: impl Fn(Arc<Q>) -> Pop, close: impl Fn(&Q))
where
    Pop: Future<Output = bool> + Send + 'static,
{
    let queue = Arc::new(queue);
    let mut pops = JoinSet::new();
    for _ in 0..10 {
        pops.spawn(pop(queue.clone()));
    }
    tokio::task::yield_now().await;
    assert_eq!(pops.len(), 10);

    close(&queue);

    let ended = tokio::time::timeout(Duration::from_millis(500), pops.join_all()).await;
    assert_eq!(ended.expect("all pops end"), [true; 10]);
}
