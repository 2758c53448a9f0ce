//! Several producers and consumers on several threads: nothing is lost, processed concurrently or reordered, and no
//! wake-up is missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kube_informers::delta::Delta;
use kube_informers::queue::InOrderQueue;
use kube_informers::target::Target;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::support::{Thing, added};

const PRODUCERS: usize = 4;
const POPPERS: usize = 4;
const KEYS: usize = 5;
const ROUNDS: u64 = 400;
const CAPACITY: usize = 16;
const DEADLINE: Duration = Duration::from_secs(600);

/// Shared by all consumers of one queue.
#[derive(Default)]
struct Seen {
    /// The newest value of each name.
    newest: Mutex<HashMap<String, u64>>,
    /// The number of distinct values.
    count: AtomicUsize,
    /// Whether a pop is in flight.
    inside: AtomicBool,
}

impl Seen {
    /// Processes popped values. Asserts that no other pop is in flight and that each name is in order.
    fn process<'a>(&self, values: impl Iterator<Item = (&'a str, u64)>) {
        assert!(
            !self.inside.swap(true, Ordering::SeqCst),
            "two pops processed at once"
        );
        for (name, value) in values {
            let mut newest = self.newest.lock();
            let newest = newest.entry(name.to_owned()).or_default();
            assert!(value > *newest, "{name}: {value} after {newest}");
            *newest = value;
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        assert!(self.inside.swap(false, Ordering::SeqCst));
    }

    fn assert_complete(&self) {
        let newest = self.newest.lock();
        assert_eq!(newest.len(), PRODUCERS * KEYS);
        assert!(newest.values().all(|value| *value == ROUNDS));
    }
}

fn name(producer: usize, key: usize) -> String {
    format!("p{producer}k{key}")
}

/// Whether the pop with this number is requeued first.
fn fails(pops: &AtomicUsize) -> bool {
    pops.fetch_add(1, Ordering::SeqCst).is_multiple_of(3)
}

async fn hammer(queue: Arc<InOrderQueue<Thing>>) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let pops = Arc::new(AtomicUsize::new(0));
    let mut poppers = JoinSet::new();
    for _ in 0..POPPERS {
        let (queue, seen, pops) = (queue.clone(), seen.clone(), pops.clone());
        poppers.spawn(async move {
            while let Some(batch) = queue.pop_batch(7).await {
                if fails(&pops) {
                    batch.requeue();
                    continue;
                }
                // Other tasks may try to pop while this batch is in flight.
                tokio::task::yield_now().await;
                let objects = batch.deltas.iter().filter_map(Delta::object);
                seen.process(objects.map(|object| (object.name.as_str(), object.value)));
                batch.done();
            }
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let queue = queue.clone();
        producers.spawn(async move {
            for round in 1..=ROUNDS {
                for key in 0..KEYS {
                    queue.room().await;
                    queue.accept(added(&name(producer, key), round)).unwrap();
                    let len = queue.len();
                    assert!(len <= CAPACITY + PRODUCERS + 7, "{len} queued");
                }
            }
        });
    }

    tokio::time::timeout(DEADLINE, producers.join_all())
        .await
        .expect("producers end");
    queue.close();
    tokio::time::timeout(DEADLINE, poppers.join_all())
        .await
        .expect("poppers end");
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_in_order_queue_loses_nothing_under_concurrent_load() {
    let queue = Arc::new(InOrderQueue::new().capacity(CAPACITY));

    let seen = hammer(queue.clone()).await;

    seen.assert_complete();
    assert_eq!(
        seen.count.load(Ordering::SeqCst),
        PRODUCERS * KEYS * usize::try_from(ROUNDS).unwrap()
    );
    assert!(queue.is_empty());
}

/// Each side waits for the other after every delta, so that one missed wake-up blocks both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_capacity_one_misses_no_wake_up() {
    const HAND_OVERS: u64 = 30_000;
    let queue = Arc::new(InOrderQueue::new().capacity(1));
    let mut sides = JoinSet::new();
    let producer = queue.clone();
    sides.spawn(async move {
        for value in 1..=HAND_OVERS {
            producer.room().await;
            producer.accept(added("foo", value)).unwrap();
        }
        producer.close();
        HAND_OVERS
    });
    let popper = queue.clone();
    sides.spawn(async move {
        let mut count = 0;
        while popper.pop_batch(1).await.is_some() {
            count += 1;
        }
        count
    });

    let ended = tokio::time::timeout(DEADLINE, sides.join_all())
        .await
        .expect("both sides end");

    assert_eq!(ended, [HAND_OVERS, HAND_OVERS]);
}
