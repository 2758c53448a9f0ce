//! The time from "the server is ready again" to the first new event, over many seeds and lengths of outages.
//!
//! `cargo test -p kube-informers --test it recovery::outages -- --nocapture` prints the figures of `docs/evidence/recovery.md`.

use std::time::Duration;

use kube_informers::reflector::Jitter;
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};
use tokio::time::Instant;

use super::assert_ceiling;
use crate::support::*;

/// The lengths of the outages, in seconds.
const OUTAGES: [u64; 5] = [2, 10, 20, 40, 300];
/// Runs per length. The percentiles are taken over all runs of one kind of outage.
const SEEDS: u64 = 60;

#[derive(Clone, Copy, Debug)]
enum Outage {
    /// The process is gone: connections are refused.
    Down,
    /// A proxy in front of a dead server answers with 502, 503 or 504.
    Gateway,
    /// The server drops its history while it is down, so that a list is necessary.
    DownAndCompacted,
}

/// Runs one outage. Returns the time until the first new event.
async fn recovery(outage: Outage, length: Duration, seed: u64) -> Duration {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    let builder = pods(&server).configure(|config| config.jitter = Jitter::Seeded(seed));
    let informer = synced(builder).await;
    server.create(pod("ns", "b"));
    wait_for("the watch is productive", || informer.store().len() == 2).await;

    let proxy = match outage {
        Outage::Down | Outage::DownAndCompacted => {
            server.refuse_connections(true);
            None
        }
        Outage::Gateway => {
            let code = [502, 503, 504][seed as usize % 3];
            Some(server.fault(RequestMatcher::any().forever(), Fault::status(code)))
        }
    };
    server.break_watches();
    pass(length).await;
    if matches!(outage, Outage::DownAndCompacted) {
        server.skip_versions(5);
        server.compact();
    }
    server.create(pod("ns", "c"));
    let ready = Instant::now();
    server.refuse_connections(false);
    if let Some(proxy) = proxy {
        proxy.clear();
    }
    wait_for("it recovers", || informer.store().len() == 3).await;
    let took = ready.elapsed();

    pass(secs(60)).await;
    let times: Vec<_> = server.requests().iter().map(|request| request.at).collect();
    assert_ceiling(&times);
    let lists = informer.stats().members[0].reflector.lists;
    let expected = match outage {
        Outage::DownAndCompacted => 2,
        Outage::Down | Outage::Gateway => 1,
    };
    assert_eq!(lists, expected, "a list only if the version is gone");
    took
}

async fn assert_recovers(outage: Outage) {
    let mut times = Vec::new();
    for length in OUTAGES {
        let mut of_length = Vec::new();
        for seed in 0..SEEDS {
            // The outage ends at a different moment between two attempts each time.
            let length = secs(length) + Duration::from_millis(fastrand::Rng::with_seed(seed).u64(0..5000));
            of_length.push(recovery(outage, length, seed).await);
        }
        of_length.sort();
        let median = of_length[of_length.len() / 2];
        println!(
            "{outage:?} of {length} s: median {median:?}, longest {:?}",
            of_length[of_length.len() - 1]
        );
        assert!(median <= secs(5), "{outage:?} of {length} s: median {median:?}");
        times.extend(of_length);
    }
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    assert!(p99 <= secs(8), "{outage:?}: 99th percentile {p99:?}");
    println!(
        "{outage:?}: median {:?}, 99th percentile {p99:?}, longest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_current_within_seconds_after_an_outage_of_any_length() {
    assert_recovers(Outage::Down).await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_current_within_seconds_after_an_outage_behind_a_proxy() {
    assert_recovers(Outage::Gateway).await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_current_within_seconds_when_the_history_is_gone() {
    assert_recovers(Outage::DownAndCompacted).await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_of_a_productive_watch_costs_no_event() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    server.create(pod("ns", "a"));
    wait_for("the watch is productive", || informer.store().len() == 1).await;

    let broken = Instant::now();
    server.break_watches();
    settle().await;
    // What follows is compacted soon. A watch that waits would have to list, and would miss the states in between.
    server.create(pod("ns", "b"));
    wait_for("it is delivered", || informer.store().len() == 2).await;

    assert!(
        broken.elapsed() < Duration::from_millis(100),
        "{:?}",
        broken.elapsed()
    );
    assert_eq!(informer.stats().members[0].reflector.lists, 1);
}

#[tokio::test(start_paused = true)]
async fn f24_a_server_that_asks_for_time_gets_it() {
    let server = TestServer::new();
    let informer = synced_pods(&server).await;
    server.fault(
        RequestMatcher::any().forever(),
        Fault::status(429).retry_after(20),
    );
    server.break_watches();
    pass(minutes(10)).await;

    let requests = server.requests();
    let times: Vec<_> = requests.iter().skip(2).map(|request| request.at).collect();
    assert!(times.len() > 5, "{times:?}");
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= secs(20), "{times:?}");
    }
    drop(informer);
}
