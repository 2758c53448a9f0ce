//! A small object, deltas of it, and the upstream tests that all queues share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::delta::{Delta, Replacement};
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::target::Target;
use kube_informers::{Object, ObjectKey};
use tokio::task::JoinSet;

/// A cluster-scoped object with a value and an optional version.
#[derive(Debug, PartialEq, Eq)]
pub struct Thing {
    pub name: String,
    pub value: u64,
    pub version: Option<String>,
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

/// Adds deltas, in order.
pub fn accept<Q: Target<Thing>>(queue: &Q, deltas: impl IntoIterator<Item = Delta<Thing>>) {
    for delta in deltas {
        queue.accept(delta).unwrap();
    }
}

/// Adds one value of a producer to a queue.
pub fn add_number<Q: Target<Thing>>(queue: &Q, producer: &str, number: u64) {
    accept(queue, [added(&format!("{producer}{number}"), number)]);
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
