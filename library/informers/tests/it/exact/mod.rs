//! Exactness under random faults: unless the server reports wrong versions, the cache equals the collection at the version
//! it reports, and the events of every handler lead to that state.
//!
//! The whole stack runs here, with HTTP and the decoders, on the paused clock: the second layer of the simulator, see
//! `docs/evidence/simulation.md`. Each run is determined by a seed and can be repeated: `KUBE_INFORMERS_SEED=17 cargo test exact`.
//! `KUBE_INFORMERS_SEEDS=130` runs as many in each test, and `KUBE_INFORMERS_SEED_OFFSET=100000` other seeds than those of every
//! test run.

mod faults;
mod model;
mod observer;
mod run;

use run::{RunKind, run};

/// Runs each seed of the range, or the one in the environment.
fn seeds(range: std::ops::Range<u64>, plan: fn(u64) -> RunKind) {
    let only = std::env::var("KUBE_INFORMERS_SEED").ok();
    let only: Option<u64> = only.map(|seed| seed.parse().expect("KUBE_INFORMERS_SEED is a number"));
    let offset = std::env::var("KUBE_INFORMERS_SEED_OFFSET").ok();
    let offset: u64 = offset.map_or(0, |offset| {
        offset.parse().expect("KUBE_INFORMERS_SEED_OFFSET is a number")
    });
    // What a test run has time for.
    let most = std::env::var("KUBE_INFORMERS_SEEDS").ok();
    let most: u64 = most.map_or(25, |most| most.parse().expect("KUBE_INFORMERS_SEEDS is a number"));
    let end = match only {
        Some(_) => range.end,
        None => range.end.min(range.start + most),
    };
    let range = range.start + offset..end + offset;
    let mut schedules = 0;
    for seed in range.filter(|seed| only.is_none_or(|only| only == *seed)) {
        let result = std::panic::catch_unwind(|| run(seed, &plan(seed)));
        if let Err(panic) = result {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("(no text)");
            panic!("seed {seed}: {text}");
        }
        schedules += 1;
    }
    // `kube-sim soak` adds them up.
    println!("whole stack: {schedules} schedules");
}

#[test]
fn the_cache_is_exact_with_watch_lists_and_faults() {
    seeds(0..130, |_| RunKind::watch_list());
}

#[test]
fn the_cache_is_exact_with_paged_lists_and_faults() {
    seeds(1000..1130, |_| RunKind::pages());
}

/// A shard moves, on servers with and without support for shards.
#[test]
fn the_cache_is_exact_while_its_shard_moves() {
    seeds(4000..4100, |seed| {
        let plan = if seed % 4 < 2 {
            RunKind::watch_list()
        } else {
            RunKind::pages()
        };
        plan.sharded(seed % 2 == 0)
    });
}

/// Namespaces come and go.
#[test]
fn the_cache_is_exact_while_its_namespaces_change() {
    seeds(6000..6100, |seed| {
        let plan = if seed % 2 == 0 {
            RunKind::watch_list()
        } else {
            RunKind::pages()
        };
        plan.namespaced()
    });
}

/// Without faults there are no relists, no missed deletes and no errors.
#[test]
fn the_cache_is_exact_without_faults() {
    seeds(3000..3020, |_| RunKind::watch_list().calm());
}
