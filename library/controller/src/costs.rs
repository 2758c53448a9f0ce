//! `Costs`: which keys a controller spends its time on. Bounded; no I/O and no clock.

use std::collections::HashMap;
use std::time::Duration;

use kube_workqueue::Key;

/// The number of keys that are tracked.
const TRACKED: usize = 256;

/// What a key has cost a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCost<T> {
    /// The key.
    pub key: T,
    /// Its runs.
    pub runs: u64,
    /// Those that failed or panicked.
    pub failures: u64,
    /// The time of all its runs.
    pub busy: Duration,
}

/// The results of a controller's runs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunCounts {
    /// Runs that ended.
    #[doc(alias = "controller_runtime_reconcile_total")]
    pub runs: u64,
    /// Runs that returned an error.
    #[doc(alias = "controller_runtime_reconcile_errors_total")]
    pub errors: u64,
    /// Runs that panicked.
    #[doc(alias = "controller_runtime_reconcile_panics_total")]
    pub panics: u64,
    /// Runs that asked for another one later.
    pub requeued: u64,
    /// Keys given up after the last retry.
    #[doc(alias = "controller_runtime_terminal_reconcile_errors_total")]
    pub exhausted: u64,
    /// Runs postponed because a cache did not hold the controller's own writes.
    pub stale: u64,
}

/// The most expensive keys. When it is full, a new key replaces the cheapest one and inherits its time, so that an
/// expensive key is never displaced by a stream of cheap ones.
pub(crate) struct Costs<T> {
    keys: HashMap<T, Cost>,
    pub(crate) counts: RunCounts,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    runs: u64,
    failures: u64,
    busy: Duration,
    /// The time of the keys it replaced.
    inherited: Duration,
}

impl<T> Default for Costs<T> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            counts: RunCounts::default(),
        }
    }
}

impl<T: Key> Costs<T> {
    pub(crate) fn add(&mut self, key: &T, took: Duration, failed: bool) {
        let mut inherited = Duration::ZERO;
        if self.keys.len() >= TRACKED && !self.keys.contains_key(key) {
            let cheapest = self
                .keys
                .iter()
                .min_by_key(|(_, cost)| cost.busy + cost.inherited);
            if let Some((cheapest, cost)) = cheapest.map(|(key, cost)| (key.clone(), *cost)) {
                self.keys.remove(&cheapest);
                inherited = cost.busy + cost.inherited;
            }
        }
        let cost = self.keys.entry(key.clone()).or_insert(Cost {
            inherited,
            ..Cost::default()
        });
        cost.runs += 1;
        cost.failures += u64::from(failed);
        cost.busy += took;
    }

    /// The most expensive keys first.
    pub(crate) fn top(&self, limit: usize) -> Vec<KeyCost<T>> {
        let mut keys: Vec<_> = self.keys.iter().collect();
        keys.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.busy));
        let costs = keys.into_iter().take(limit).map(|(key, cost)| KeyCost {
            key: key.clone(),
            runs: cost.runs,
            failures: cost.failures,
            busy: cost.busy,
        });
        costs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn expensive_key_survives_a_stream_of_cheap_ones() {
        let mut costs = Costs::default();
        for key in 0..10_000_u32 {
            costs.add(&key, MS, false);
            costs.add(&7, 100 * MS, true);
        }

        let top = costs.top(3);

        assert_eq!(costs.keys.len(), TRACKED);
        assert_eq!(top.len(), 3);
        assert_eq!((top[0].key, top[0].failures), (7, 10_000));
        assert_eq!(top[0].busy, 10_000 * 100 * MS + MS);
    }
}
