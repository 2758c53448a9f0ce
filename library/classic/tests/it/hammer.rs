//! Several producers and consumers on several threads: nothing is lost, processed concurrently or reordered, and no
//! wake-up is missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kube_informers::target::Target;
use kube_informers_classic::{Delta, DeltaFifo, Failure, Fifo, PopError};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::things::{Thing, added};

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

async fn hammer(queue: Arc<DeltaFifo<Thing>>) -> Arc<Seen> {
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
async fn a_delta_fifo_ends_with_the_newest_state_under_concurrent_load() {
    let queue = Arc::new(DeltaFifo::new().capacity(CAPACITY));

    let seen = hammer(queue.clone()).await;

    seen.assert_complete();
    assert!(queue.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fifo_ends_with_the_newest_value_under_concurrent_load() {
    let fifo = Arc::new(Fifo::new(|item: &(String, u64)| item.0.clone()));
    let seen = Arc::new(Seen::default());
    let pops = Arc::new(AtomicUsize::new(0));
    let mut poppers = JoinSet::new();
    for _ in 0..POPPERS {
        let (fifo, seen, pops) = (fifo.clone(), seen.clone(), pops.clone());
        poppers.spawn(async move {
            let mut ended = false;
            while !ended {
                let popped = fifo.pop(|item, _| {
                    if fails(&pops) {
                        return Err(Failure::requeue("not now"));
                    }
                    seen.process(std::iter::once((item.0.as_str(), item.1)));
                    Ok(())
                });
                ended = matches!(popped.await, Err(PopError::Closed(_)));
            }
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let fifo = fifo.clone();
        producers.spawn(async move {
            for round in 1..=ROUNDS {
                for key in 0..KEYS {
                    fifo.add((name(producer, key), round));
                }
                tokio::task::yield_now().await;
            }
        });
    }

    tokio::time::timeout(DEADLINE, producers.join_all())
        .await
        .expect("producers end");
    fifo.close();
    tokio::time::timeout(DEADLINE, poppers.join_all())
        .await
        .expect("poppers end");

    seen.assert_complete();
    assert!(fifo.is_empty());
}
