//! A stress test with real threads and real time: producers, delays, cancelled workers, panics. No key may be in flight
//! twice, and every add must be followed by a run.

use crate::millis;
use kube_workqueue::limiter::ExponentialBackoff;
use kube_workqueue::{AddOptions, Item, Priority, WorkQueue, workers};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

const KEYS: usize = 50;

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[derive(Default)]
struct Slot {
    /// Incremented before each add.
    wanted: AtomicU64,
    /// The value of `wanted` at the start of the latest successful run.
    seen: AtomicU64,
    busy: AtomicBool,
}

struct World {
    slots: Vec<Slot>,
    overlaps: AtomicUsize,
    runs: AtomicUsize,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            slots: (0..KEYS).map(|_| Slot::default()).collect(),
            overlaps: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        })
    }

    /// One run of a key: reads what is wanted at its start, and checks that no other run is active.
    async fn run(&self, item: &Item<usize>) -> u64 {
        let slot = &self.slots[**item];
        if slot.busy.swap(true, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let _idle = Idle(slot);
        let wanted = slot.wanted.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.runs.fetch_add(1, Ordering::SeqCst);
        wanted
    }

    fn succeeded(&self, key: usize, wanted: u64) {
        self.slots[key].seen.fetch_max(wanted, Ordering::SeqCst);
    }
}

/// Marks the slot idle again, even if the run is cancelled or panics.
struct Idle<'a>(&'a Slot);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::SeqCst);
    }
}

async fn produce(queue: WorkQueue<usize>, world: Arc<World>, seed: u64) {
    let mut random = Random(seed);
    for step in 0..5000 {
        let key = random.below(KEYS as u64) as usize;
        world.slots[key].wanted.fetch_add(1, Ordering::SeqCst);
        let options = AddOptions::new().priority(Priority(random.below(3) as i32));
        match random.below(4) {
            0 => queue.add_with(key, options.after(Duration::from_micros(random.below(3000)))),
            _ => queue.add_with(key, options),
        }
        if step % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn queue() -> WorkQueue<usize> {
    WorkQueue::new(ExponentialBackoff::new(Duration::from_micros(50), millis(2)))
}

/// Waits until no key is queued, delayed or running.
async fn idle(queue: &WorkQueue<usize>) {
    let calm = async {
        loop {
            let stats = queue.stats();
            if stats.depth + stats.delayed + stats.running == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), calm)
        .await
        .expect("the queue should become idle");
}

fn assert_all_seen(world: &World) {
    assert_eq!(
        world.overlaps.load(Ordering::SeqCst),
        0,
        "a key was in flight twice"
    );
    for (key, slot) in world.slots.iter().enumerate() {
        let (wanted, seen) = (
            slot.wanted.load(Ordering::SeqCst),
            slot.seen.load(Ordering::SeqCst),
        );
        assert_eq!(wanted, seen, "an add of key {key} was not followed by a run");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_add_is_lost_when_workers_fail_panic_or_are_cancelled() {
    let (queue, world) = (queue(), World::new());

    // Half of the workers are tasks that fail and panic sometimes …
    let failing = {
        let world = world.clone();
        let calls = Arc::new(AtomicU64::new(0));
        workers(4, &queue, move |item: Item<usize>| {
            let (world, call) = (world.clone(), calls.fetch_add(1, Ordering::SeqCst));
            async move {
                let wanted = world.run(&item).await;
                match call % 50 {
                    7 => std::panic::resume_unwind(Box::new("no hook, no noise")),
                    11 | 13 => return Err("fails now and then"),
                    _ => world.succeeded(*item, wanted),
                }
                Ok(())
            }
        })
    };
    // … the others cancel `get` and their work all the time.
    let mut hasty = JoinSet::new();
    for seed in 1..5u64 {
        let (queue, world) = (queue.clone(), world.clone());
        hasty.spawn(async move {
            let mut random = Random(seed * 7919);
            while !queue.is_shutting_down() || !queue.is_empty() {
                let limit = Duration::from_micros(random.below(1500));
                let hopeless = random.below(3) == 0;
                let work = queue.process(async |item| {
                    let wanted = world.run(&item).await;
                    if hopeless {
                        std::future::pending::<()>().await;
                    }
                    world.succeeded(*item, wanted);
                    Ok::<(), ()>(())
                });
                let _ = timeout(limit, work).await;
            }
        });
    }

    let producers: JoinSet<()> = (1..5)
        .map(|seed| produce(queue.clone(), world.clone(), seed * 104_729))
        .collect();
    producers.join_all().await;
    idle(&queue).await;
    assert_all_seen(&world);

    timeout(Duration::from_secs(60), queue.drain())
        .await
        .expect("drain should end");
    failing.join().await;
    hasty.join_all().await;
    let stats = queue.stats();
    assert!(stats.panics > 0 && stats.abandoned > stats.panics, "{stats:?}");
    assert_eq!(stats.waiting_workers, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn drain_during_adds_ends_with_nothing_left() {
    for round in 1..20u64 {
        let (queue, world) = (queue(), World::new());
        let workers = {
            let world = world.clone();
            workers(3, &queue, move |item: Item<usize>| {
                let world = world.clone();
                async move {
                    world.run(&item).await;
                }
            })
        };
        let producers: JoinSet<()> = (1..4)
            .map(|seed| produce(queue.clone(), world.clone(), seed * round * 31))
            .collect();
        while world.runs.load(Ordering::SeqCst) < 50 {
            tokio::task::yield_now().await;
        }

        timeout(Duration::from_secs(60), queue.drain())
            .await
            .expect("drain should end");

        let stats = queue.stats();
        assert_eq!((stats.depth, stats.running, stats.delayed), (0, 0, 0));
        producers.join_all().await;
        workers.join().await;
        assert_eq!(world.overlaps.load(Ordering::SeqCst), 0);
    }
}
