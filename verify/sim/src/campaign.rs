//! Many seeds on all cores, until one fails.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::generate::{Profile, tape};
use crate::tape::Kind;
use crate::world::{Failure, ReflectorPhase, run};

/// A seed that violated an invariant.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The profile.
    pub profile: Profile,
    /// Where and what.
    pub failure: Failure,
    /// The hash of the trace.
    pub hash: u64,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, profile) = (self.seed, self.profile.name());
        let (step, violation) = (self.failure.step, &self.failure.violation);
        write!(
            f,
            "seed={seed} profile={profile} step={step} invariant={} hash={:016x}: {}; \
             replay: cargo run -p kube-sim -- replay --seed {seed} --profile {profile}",
            violation.invariant, self.hash, violation.detail,
        )
    }
}

/// How often each pair of state and fault occurred.
pub type Coverage = BTreeMap<(ReflectorPhase, Kind), u64>;

/// The result of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of schedules.
    pub schedules: u64,
    /// The failure with the lowest seed among those found.
    pub found: Option<Found>,
    /// What was reached.
    pub coverage: Coverage,
}

/// Runs `count` seeds, distributed over the profiles or of one of them. Ends soon after the first failure.
pub fn campaign(from: u64, count: u64, only: Option<Profile>, threads: usize) -> Report {
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    let work = || {
        let mut own = Report::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(count) {
                break;
            }
            let profile = only.unwrap_or_else(|| profile_of(seed));
            let outcome = run(&tape(seed, profile), false);
            own.schedules += 1;
            for pair in outcome.coverage {
                *own.coverage.entry(pair).or_default() += 1;
            }
            if let Some(failure) = outcome.failure {
                own.found = Some(Found {
                    seed,
                    profile,
                    failure,
                    hash: outcome.hash,
                });
                stop.store(true, Ordering::Relaxed);
            }
        }
        let mut report = report.lock();
        report.schedules += own.schedules;
        for (pair, count) in own.coverage {
            *report.coverage.entry(pair).or_default() += count;
        }
        let is_lower = |found: &Found| report.found.as_ref().is_none_or(|first| found.seed < first.seed);
        if own.found.as_ref().is_some_and(is_lower) {
            report.found = own.found;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    report.into_inner()
}

/// Runs `count` seeds on several threads. Returns the number of those that were run, and the message of the lowest seed among
/// those that failed; ends soon after the first failure.
pub fn every_seed(
    from: u64,
    count: u64,
    threads: usize,
    run: impl Fn(u64) -> Option<String> + Sync,
) -> (u64, Option<String>) {
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let found = Mutex::new(None::<(u64, String)>);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from.saturating_add(count) {
                break;
            }
            done.fetch_add(1, Ordering::Relaxed);
            if let Some(message) = run(seed) {
                stop.store(true, Ordering::Relaxed);
                let mut found = found.lock();
                if found.as_ref().is_none_or(|(first, _)| seed < *first) {
                    *found = Some((seed, message));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    (done.into_inner(), found.into_inner().map(|(_, message)| message))
}

/// Four in ten seeds are swarms.
pub fn profile_of(seed: u64) -> Profile {
    let number = (seed % 10) as usize;
    Profile::ALL.get(number).copied().unwrap_or(Profile::Swarm)
}

/// The number of threads that runs are distributed over.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
