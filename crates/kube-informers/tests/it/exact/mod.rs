//! Exactness under random trouble: whatever the server does short of lying, the cache equals the collection at the
//! version it reports, and every handler was told a history that leads there.
//!
//! Each run is made by one seed and can be repeated: `KUBE_INFORMERS_SEED=17 cargo test exact`.

mod model;
mod observer;
mod run;
mod trouble;

use run::{Plan, run};

/// Runs each seed of the range, or the one that is asked for.
fn seeds(range: std::ops::Range<u64>, plan: fn(u64) -> Plan) {
    let only = std::env::var("KUBE_INFORMERS_SEED").ok();
    let only: Option<u64> = only.map(|seed| seed.parse().expect("KUBE_INFORMERS_SEED is a number"));
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
    }
}

#[test]
fn the_cache_is_exact_through_watch_lists_and_trouble() {
    seeds(0..80, |_| Plan::watch_list());
}

#[test]
fn the_cache_is_exact_through_pages_and_trouble() {
    seeds(1000..1080, |_| Plan::pages());
}

#[test]
fn the_cache_is_exact_behind_a_keyed_queue_whenever_it_reports_a_version() {
    seeds(2000..2060, |seed| {
        let plan = if seed % 2 == 0 {
            Plan::watch_list()
        } else {
            Plan::pages()
        };
        plan.keyed()
    });
}

/// A shard moves about, on a server that knows shards and on one that does not.
#[test]
fn the_cache_is_exact_while_its_shard_moves() {
    seeds(4000..4080, |seed| {
        let plan = if seed % 4 < 2 {
            Plan::watch_list()
        } else {
            Plan::pages()
        };
        plan.sharded(seed % 2 == 0)
    });
}

#[test]
fn the_cache_is_exact_while_its_shard_moves_behind_a_keyed_queue() {
    seeds(5000..5040, |seed| {
        let plan = if seed % 4 < 2 {
            Plan::watch_list()
        } else {
            Plan::pages()
        };
        plan.keyed().sharded(seed % 2 == 0)
    });
}

/// Without trouble nothing is listed twice, nothing is missed and nothing fails.
#[test]
fn the_cache_is_exact_on_a_good_day() {
    seeds(3000..3020, |_| Plan::watch_list().calm());
}
