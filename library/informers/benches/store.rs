//! Benchmarks of the store with 100,000 small objects, keys of about 45 bytes and two indexes (64 namespaces,
//! 5,000 nodes).
//!
//! `cargo bench -p kube-informers --bench store [-- memory|writes|reads|contention]`

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kube_informers::delta::{Delta, Replacement};
use kube_informers::sim::{DeltaWriter, Origin, Prepared};
use kube_informers::{Object, ObjectKey};
use tokio::time::Instant;

const OBJECTS: usize = 100_000;

struct Small {
    namespace: String,
    name: String,
    uid: String,
    version: String,
    node: String,
}

impl Object for Small {
    fn object_name(&self) -> &str {
        &self.name
    }

    fn object_namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn object_uid(&self) -> Option<&str> {
        Some(&self.uid)
    }

    fn object_version(&self) -> Option<&str> {
        Some(&self.version)
    }
}

fn small(number: usize, version: usize) -> Arc<Small> {
    Arc::new(Small {
        namespace: format!("team-{:02}-production", number % 64),
        name: format!("deployment-{number:06}-7d9f-x2x"),
        uid: format!("uid-{number:012}"),
        version: version.to_string(),
        node: format!("node-{:04}", number * 7919 % 5000),
    })
}

fn smalls(version: usize) -> Vec<Arc<Small>> {
    (0..OBJECTS)
        .map(|number| small(number, version + number))
        .collect()
}

fn list(objects: Vec<Arc<Small>>, version: usize) -> Vec<Delta<Small>> {
    vec![Delta::ReplacedAll(Replacement {
        shard: None,
        objects,
        unreadable: Vec::new(),
        resource_version: Some(version.to_string()),
    })]
}

fn writer() -> DeltaWriter<Small> {
    let writer = DeltaWriter::new();
    let index = writer
        .store()
        .add_index("node", |object: &Small| [object.node.clone()]);
    assert!(index.is_ok());
    writer
}

fn apply(writer: &mut DeltaWriter<Small>, deltas: Vec<Delta<Small>>) -> usize {
    let mut events = Vec::new();
    let prepared = Prepared::new(&writer.store(), Origin::default(), deltas);
    writer.apply(prepared, &mut events);
    events.len()
}

fn filled() -> DeltaWriter<Small> {
    let mut writer = writer();
    assert_eq!(apply(&mut writer, list(smalls(1), OBJECTS)), OBJECTS);
    writer
}

/// Runs a short operation often and prints the median, which other load on the machine hardly changes.
fn short(what: &str, count: usize, runs: usize, mut run: impl FnMut() -> Duration) {
    let mut times: Vec<Duration> = (0..runs).map(|_| run()).collect();
    times.sort_unstable();
    print(what, times[runs / 2], count);
}

/// Runs a long operation five times and prints the shortest CPU time.
fn long(what: &str, count: usize, mut run: impl FnMut() -> Duration) {
    let shortest = (0..5).map(|_| run()).min();
    print(what, shortest.unwrap_or_default(), count);
}

fn print(what: &str, elapsed: Duration, count: usize) {
    let each = elapsed.as_nanos() as f64 / count.max(1) as f64;
    println!(
        "{what:<58} {each:>12.1} ns each {:>10.3} ms",
        elapsed.as_secs_f64() * 1e3
    );
}

/// A fixed pseudo-random sequence of numbers below `OBJECTS`.
fn scattered() -> impl Iterator<Item = usize> {
    let mut state = 88_172_645_463_325_252_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % OBJECTS
    })
}

fn memory() {
    // Resident pages of this process; the page size of every platform we run on.
    let resident = || -> Option<usize> {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        statm
            .split_whitespace()
            .nth(1)?
            .parse::<usize>()
            .ok()
            .map(|pages| pages * 4096)
    };
    let objects = smalls(1);
    let mut writer = writer();
    let mut objects = objects.into_iter().peekable();
    let before = resident();
    while objects.peek().is_some() {
        let batch = objects.by_ref().take(500).map(Delta::Added).collect();
        apply(&mut writer, batch);
    }
    drop(objects);
    if let (Some(before), Some(after)) = (before, resident()) {
        let each = after.saturating_sub(before) / OBJECTS;
        println!("{:<58} {each:>12} bytes each", "memory beside the objects");
    }
    assert_eq!(writer.store().len(), OBJECTS);
}

/// The CPU time of this thread, which other load on the machine hardly changes; the clock
/// where the system does not report it. Too coarse for short times.
fn processor_clock() -> Duration {
    let spent = || {
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let nanos = schedstat.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    };
    spent().unwrap_or_else(|| ORIGIN.get_or_init(Instant::now).elapsed())
}

static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

fn busy<T>(work: impl FnOnce() -> T) -> Duration {
    let start = processor_clock();
    let result = black_box(work());
    let elapsed = processor_clock().saturating_sub(start);
    // Dropped after the clock was read.
    drop(result);
    elapsed
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(work());
    let elapsed = start.elapsed();
    drop(result);
    elapsed
}

fn writes() {
    long("first list: prepare (index functions)", OBJECTS, || {
        let (store, deltas) = (writer(), list(smalls(1), OBJECTS));
        busy(|| store.prepare(Origin::default(), deltas))
    });
    long("first list: apply", OBJECTS, || {
        let mut store = writer();
        let prepared = store.prepare(Origin::default(), list(smalls(1), OBJECTS));
        let mut events = Vec::new();
        busy(|| store.apply(prepared, &mut events))
    });
    let mut store = writer();
    let mut number = 0;
    short(
        "insert by watch, batches of 100: prepare and apply",
        100,
        OBJECTS / 100,
        || {
            let batch = (number..number + 100).map(|number| Delta::Added(small(number, 1 + number)));
            let batch = batch.collect();
            number += 100;
            let mut events = Vec::with_capacity(100);
            timed(|| {
                let prepared = store.prepare(Origin::default(), batch);
                store.apply(prepared, &mut events)
            })
        },
    );
    let mut version = 1_000_000;
    let mut numbers = scattered();
    for size in [1, 100, 1000] {
        let what = format!("update, batches of {size}: prepare and apply");
        short(&what, size, 100_000 / size, || {
            let batch = numbers.by_ref().take(size).map(|number| {
                version += 1;
                Delta::Updated(small(number, version))
            });
            let batch = batch.collect();
            let mut events = Vec::with_capacity(size);
            timed(|| {
                let prepared = store.prepare(Origin::default(), batch);
                store.apply(prepared, &mut events)
            })
        });
    }
    long("relist, same objects", OBJECTS, || {
        let objects: Vec<_> = store.store().list().iter().cloned().collect();
        version += 1;
        busy(|| assert_eq!(apply(&mut store, list(objects, version)), 0))
    });
    long("relist, 1 % changed", OBJECTS, || {
        version += OBJECTS;
        let mut objects: Vec<_> = store.store().list().iter().cloned().collect();
        for number in (0..OBJECTS).step_by(100) {
            objects[number] = small(number, version + number);
        }
        busy(|| assert_eq!(apply(&mut store, list(objects, version)), OBJECTS / 100))
    });
    long("relist, all changed", OBJECTS, || {
        version += OBJECTS;
        let objects = smalls(version);
        let mut events = Vec::new();
        busy(|| {
            let prepared = store.prepare(Origin::default(), list(objects, version));
            store.apply(prepared, &mut events)
        })
    });
}

fn reads() {
    let writer = filled();
    let store = writer.store();
    let keys: Vec<ObjectKey> = (scattered().take(OBJECTS))
        .map(|number| ObjectKey::of(&*small(number, 1)))
        .collect();
    let mut some_keys = keys.chunks(1000).cycle();
    let mut some_keys = move || some_keys.next().unwrap_or_default();
    short("get", 1000, 300, || {
        let keys = some_keys();
        timed(|| keys.iter().filter(|key| store.get(*key).is_some()).count())
    });
    short("get by namespace and name", 1000, 300, || {
        let keys = some_keys();
        timed(|| {
            let found = keys
                .iter()
                .filter_map(|key| store.get((key.namespace(), key.name())));
            found.count()
        })
    });
    short("get in a view", 1000, 300, || {
        let keys = some_keys();
        timed(|| {
            let view = store.view();
            keys.iter()
                .filter(|key| black_box(view.get(*key)).is_some())
                .count()
        })
    });
    short("list (a snapshot)", 1000, 100, || {
        timed(|| (0..1000).map(|_| black_box(store.list()).len()).sum::<usize>())
    });
    short("list and copy every pointer, per object", OBJECTS, 50, || {
        timed(|| store.list().iter().cloned().collect::<Vec<_>>())
    });
    short("list and look at every object, per object", OBJECTS, 50, || {
        timed(|| {
            store
                .list()
                .iter()
                .map(|object| object.version.len())
                .sum::<usize>()
        })
    });
    short("index, 1,560 objects a value, per object", OBJECTS / 64, 640, {
        let mut number = 0;
        let store = &store;
        move || {
            number += 1;
            let namespace = format!("team-{:02}-production", number % 64);
            timed(|| store.namespace(&namespace))
        }
    });
    let index = store.index("node");
    short("index, 20 objects a value, per object", 2000, 50, || {
        timed(|| {
            let nodes = (0..100).map(|number| format!("node-{:04}", number * 47));
            let found = nodes.filter_map(|node| Some(index.as_ref()?.get(&node).len()));
            found.sum::<usize>()
        })
    });
    let mut number = 0;
    long("add an index late, per object", OBJECTS, || {
        number += 1;
        busy(|| store.add_index(&format!("late {number}"), |object: &Small| [object.node.clone()]))
    });
}

/// The duration of single updates, at 20,000 per second, with a concurrent reader in a loop.
fn writer_beside(what: &str, writer: &mut DeltaWriter<Small>, from: usize, read: impl Fn(usize) + Sync) {
    let updates: Vec<_> = (scattered().take(60_000).enumerate())
        .map(|(version, number)| Delta::Updated(small(number, from + version)))
        .collect();
    let mut latencies = Vec::with_capacity(updates.len());
    let rounds = beside(read, || {
        let mut due = Instant::now();
        let mut events = Vec::new();
        for update in updates {
            due += Duration::from_micros(50);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            let prepared = writer.prepare(Origin::default(), vec![update]);
            let start = Instant::now();
            writer.apply(prepared, &mut events);
            latencies.push(start.elapsed());
            events.clear();
        }
    });
    percentiles(what, latencies, rounds);
}

/// Runs `work` while another thread calls `read` in a loop; returns the number of calls.
fn beside(read: impl Fn(usize) + Sync, work: impl FnOnce()) -> usize {
    let done = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                read(rounds.fetch_add(1, Ordering::Relaxed));
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
    rounds.into_inner()
}

fn percentiles(what: &str, mut latencies: Vec<Duration>, rounds: usize) {
    latencies.sort_unstable();
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
    let (half, most, nearly_all, all) = (at(0.5), at(0.99), at(0.999), at(1.0));
    println!(
        "{what:<58} p50 {half:?}, p99 {most:?}, p99.9 {nearly_all:?}, max {all:?} ({rounds} rounds beside)"
    );
}

fn contention() {
    let mut writer = filled();
    let store = writer.store();
    let other = filled().store();
    let keys: Vec<ObjectKey> = (scattered().take(10_000))
        .map(|number| ObjectKey::of(&*small(number, 1)))
        .collect();
    writer_beside("update, alone", &mut writer, 1_000_000, |_| {
        std::thread::yield_now()
    });
    writer_beside(
        "update, another store being listed",
        &mut writer,
        2_000_000,
        |_| {
            black_box(
                other
                    .list()
                    .iter()
                    .map(|object| object.version.len())
                    .sum::<usize>(),
            );
        },
    );
    writer_beside(
        "update, being listed and looked at",
        &mut writer,
        3_000_000,
        |_| {
            black_box(
                store
                    .list()
                    .iter()
                    .map(|object| object.version.len())
                    .sum::<usize>(),
            );
        },
    );
    writer_beside("update, being listed and copied", &mut writer, 4_000_000, |_| {
        black_box(store.list().iter().cloned().collect::<Vec<_>>());
    });
    writer_beside(
        "update, single objects being got",
        &mut writer,
        5_000_000,
        |round| {
            black_box(store.get(&keys[round % keys.len()]));
        },
    );
    writer_beside(
        "update, namespaces being listed",
        &mut writer,
        6_000_000,
        |round| {
            black_box(store.namespace(&format!("team-{:02}-production", round % 64)));
        },
    );

    let longest = AtomicU64::new(0);
    let read = |round: usize| {
        let start = Instant::now();
        black_box(store.get(&keys[round % keys.len()]));
        longest.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    };
    for (what, lists) in [
        (
            "longest get beside a relist, all changed",
            [smalls(7_000_000), smalls(8_000_000)],
        ),
        (
            "longest get beside lists of nothing and everything",
            [Vec::new(), smalls(9_000_000)],
        ),
    ] {
        longest.store(0, Ordering::Relaxed);
        let mut version = 7_500_000;
        beside(read, || {
            for objects in lists {
                version += 1;
                apply(&mut writer, list(objects, version));
            }
        });
        println!(
            "{what:<58} {:?}",
            Duration::from_nanos(longest.load(Ordering::Relaxed))
        );
    }
}

fn main() {
    let parts: [(&str, fn()); 4] = [
        ("memory", memory),
        ("writes", writes),
        ("reads", reads),
        ("contention", contention),
    ];
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, run) in parts {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            run();
        }
    }
}
