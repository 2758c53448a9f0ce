//! client-go's three work-queue benchmarks, for our queue and, if Go is installed, for client-go.
//!
//! `cargo bench -p kube-workqueue` prints a table: the time of one operation for both, and the ratio (below 1 is faster
//! than client-go). The peer is `verify/go/workqueue`; without Go or its modules, its column stays empty. Both sides do
//! the same work in several rounds and report the best, because interference on a shared machine only adds time; a
//! round is long enough to include Go's garbage collection.
#![allow(
    clippy::disallowed_methods,
    reason = "measures real time, also of a queue that runs on a paused clock"
)]

use kube_workqueue::{Key, WorkQueue, parallelize};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// The number of rounds and of operations in each. Equal to the constants of the peer.
#[derive(Clone, Copy)]
struct Size {
    queue: (u32, u32),
    parallel: (u32, u32),
    delayed: (u32, u32),
}

const FULL: Size = Size {
    queue: (30, 3_000),
    parallel: (30, 1_000),
    delayed: (5, 500_000),
};
/// For `cargo test --benches`: checks that it runs.
const SMOKE: Size = Size {
    queue: (1, 1),
    parallel: (1, 1),
    delayed: (1, 100),
};

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let size = if full { FULL } else { SMOKE };
    let rows = measure_all(size);
    let peer = if full {
        run_peer()
    } else {
        Err("not asked for; run `cargo bench`".to_owned())
    };
    println!("{}", table(&rows, &peer));
}

struct Row {
    name: String,
    /// The peer's name for it.
    peer: String,
    time: Duration,
}

/// The best of several rounds.
fn row(name: &str, peer: &str, rounds: u32, run: impl Fn() -> Duration) -> Row {
    let time = (0..rounds).map(|_| run()).min().unwrap_or_default();
    Row {
        name: name.to_owned(),
        peer: peer.to_owned(),
        time,
    }
}

fn measure_all(size: Size) -> Vec<Row> {
    let names: Vec<String> = (0..100).map(|n| format!("key-{n}")).collect();
    let shared: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    // Like a Go string: a copied pointer to bytes that are kept alive elsewhere.
    let leak = |name: &String| &*Box::leak(name.clone().into_boxed_str());
    let statics: Vec<&'static str> = names.iter().map(leak).collect();

    let (rounds, iterations) = size.queue;
    let plain = "queue";
    let timed = "queue with metrics";
    let mut rows = vec![
        row("queue, &'static str keys", plain, rounds, || {
            queue(&statics, false, iterations)
        }),
        row("queue, Arc<str> keys", plain, rounds, || {
            queue(&shared, false, iterations)
        }),
        row("queue, String keys", plain, rounds, || {
            queue(&names, false, iterations)
        }),
        row("queue with timings, &'static str keys", timed, rounds, || {
            queue(&statics, true, iterations)
        }),
        row("queue with timings, String keys", timed, rounds, || {
            queue(&names, true, iterations)
        }),
    ];

    let (rounds, runs) = size.parallel;
    for (pieces, workers, chunk) in [(1000, 10, 1), (1000, 10, 10), (1000, 10, 100), (999, 10, 13)] {
        let name = format!("parallelize {pieces}/{workers}/{chunk}");
        rows.push(row(&name, &name, rounds, || primes(pieces, workers, chunk, runs)));
    }

    // Last, because a clock that was once paused stays slower to read.
    let (rounds, keys) = size.delayed;
    rows.push(row("add after, String keys", "add after", rounds, || {
        add_after(keys)
    }));
    rows
}

/// BenchmarkQueue: adds, gets and finishes 100 distinct keys on a fresh queue.
fn queue<T: Key>(keys: &[T], timings: bool, iterations: u32) -> Duration {
    runtime(Builder::new_current_thread()).block_on(async {
        let mut total = Duration::ZERO;
        for _ in 0..iterations {
            let queue = WorkQueue::builder().timings(timings).build();
            let start = Instant::now();
            for key in keys {
                queue.add(key.clone());
                if let Some(item) = queue.get().await {
                    item.done();
                }
            }
            total += start.elapsed();
        }
        total / iterations
    })
}

/// BenchmarkDelayingQueue_AddAfter: delays many keys by random times below ten minutes, advances the clock and takes
/// them all.
fn add_after(keys: u32) -> Duration {
    runtime(Builder::new_current_thread().enable_time().start_paused(true)).block_on(async {
        let queue = WorkQueue::default();
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        let mut items = Vec::with_capacity(keys as usize);
        let start = Instant::now();
        for key in 0..keys {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            queue.add_after(key.to_string(), Duration::from_nanos(random % 600_000_000_000));
        }
        tokio::time::advance(Duration::from_secs(660)).await;
        for _ in 0..keys {
            // Not finished, as upstream.
            items.push(queue.get().await);
        }
        let took = start.elapsed();
        assert!(items.iter().all(Option::is_some), "every key came due");
        took / keys
    })
}

/// BenchmarkParallelizeUntil: looks for primes among the numbers of the pieces.
fn primes(pieces: usize, workers: usize, chunk: usize, runs: u32) -> Duration {
    let work = async move {
        let found: Arc<Vec<AtomicBool>> = Arc::new((0..pieces).map(|_| AtomicBool::new(false)).collect());
        let start = Instant::now();
        for _ in 0..runs {
            let found = found.clone();
            parallelize(workers, pieces, chunk, move |piece| {
                found[piece].store(prime(piece), Ordering::Relaxed)
            })
            .await;
        }
        let took = start.elapsed();
        let visited = found
            .iter()
            .enumerate()
            .all(|(piece, found)| found.load(Ordering::Relaxed) == prime(piece));
        assert!(visited, "every piece was visited");
        took / runs
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = runtime(Builder::new_multi_thread().worker_threads(threads));
    // On a worker thread, as in a program.
    runtime
        .block_on(runtime.spawn(work))
        .expect("the benchmark does not panic")
}

fn prime(number: usize) -> bool {
    number > 1
        && (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

fn runtime(mut builder: impl std::borrow::BorrowMut<Builder>) -> Runtime {
    builder.borrow_mut().build().expect("a runtime can be built")
}

/// The peer's measurements by name, or the reason there are none.
fn run_peer() -> Result<HashMap<String, Duration>, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../verify/go/workqueue");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workqueue-client-go");
    let build = Command::new("go")
        .current_dir(source)
        .arg("build")
        .arg("-o")
        .arg(&program)
        .arg(".")
        .output();
    let build = build.map_err(|error| format!("`go` cannot be run ({error})"))?;
    if !build.status.success() {
        return Err(format!(
            "it does not build: {}",
            String::from_utf8_lossy(&build.stderr).trim()
        ));
    }
    let run = Command::new(&program)
        .output()
        .map_err(|error| format!("it cannot be run ({error})"))?;
    if !run.status.success() {
        return Err(format!(
            "it failed: {}",
            String::from_utf8_lossy(&run.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&run.stdout)
        .lines()
        .filter_map(measurement)
        .collect())
}

/// Parses `{"benchmark":"queue","ns_per_op":20730.3}`.
fn measurement(line: &str) -> Option<(String, Duration)> {
    let (name, rest) = line.strip_prefix(r#"{"benchmark":""#)?.split_once('"')?;
    let nanos: f64 = rest
        .strip_prefix(r#","ns_per_op":"#)?
        .strip_suffix('}')?
        .parse()
        .ok()?;
    Some((name.to_owned(), Duration::try_from_secs_f64(nanos / 1e9).ok()?))
}

fn table(rows: &[Row], peer: &Result<HashMap<String, Duration>, String>) -> String {
    let mut text = format!(
        "{:<40} {:>12} {:>12} {:>8}\n",
        "benchmark", "ns/op", "client-go", "ratio"
    );
    for Row {
        name,
        peer: peer_name,
        time,
    } in rows
    {
        let ours = time.as_nanos();
        let _ = match peer.as_ref().ok().and_then(|peer| peer.get(peer_name)) {
            Some(theirs) => {
                let ratio = time.as_secs_f64() / theirs.as_secs_f64();
                writeln!(
                    text,
                    "{name:<40} {ours:>12} {:>12} {ratio:>8.2}",
                    theirs.as_nanos()
                )
            }
            None => writeln!(text, "{name:<40} {ours:>12} {:>12} {:>8}", "-", "-"),
        };
    }
    if let Err(reason) = peer {
        let _ = writeln!(text, "client-go was not measured: {reason}");
    }
    text
}
