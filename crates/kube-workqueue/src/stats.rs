//! What a queue tells about itself: plain numbers, taken at one instant. No registry, no exporter, no task that
//! keeps gauges up to date; whoever exports reads [`WorkQueue::stats`](crate::WorkQueue::stats) when asked.

use std::time::Duration;

/// The state and the history of a queue at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "MetricsProvider")]
#[non_exhaustive]
pub struct Stats {
    /// Keys that have work outstanding and not begun: those ready, and those asked for again while they are
    /// being worked on.
    #[doc(alias = "workqueue_depth")]
    pub depth: usize,
    /// Keys that a worker could take now; what [`len`](crate::WorkQueue::len) tells.
    pub ready: usize,
    /// Keys that wait for a later time.
    pub delayed: usize,
    /// Keys being worked on.
    pub running: usize,
    /// Calls of [`get`](crate::WorkQueue::get) that wait for work.
    pub waiting_workers: usize,

    /// Times a key became outstanding. Adds of a key that was outstanding already do not count.
    #[doc(alias = "workqueue_adds_total")]
    pub adds: u64,
    /// Delayed and rate-limited adds, also those without a delay.
    #[doc(alias = "workqueue_retries_total")]
    pub retries: u64,
    /// Items that ended without a verdict (by a panic, a cancelled future, an early return) and came back.
    pub abandoned: u64,
    /// Panics of worker bodies, each also counted in `abandoned`.
    pub panics: u64,
    /// Keys dropped by a shutdown: delayed ones, retries and adds that came after it, and what was still queued
    /// when the limit of [`shutdown_within`](crate::WorkQueue::shutdown_within) passed.
    pub discarded: u64,

    /// How long keys were outstanding before a worker took them.
    #[doc(alias = "workqueue_queue_duration_seconds")]
    pub queue_latency: Histogram,
    /// How long workers held keys.
    #[doc(alias = "workqueue_work_duration_seconds")]
    pub work_duration: Histogram,
    /// How long the worker that has been at it longest has held its key.
    #[doc(alias = "workqueue_longest_running_processor_seconds")]
    pub longest_running: Duration,
    /// The sum of how long each worker has held the key it is working on. Grows steadily if one is stuck.
    #[doc(alias = "workqueue_unfinished_work_seconds")]
    pub unfinished_work: Duration,
}

/// How many observations fell into each bucket of a fixed decimal scale, 10 ns to 1000 s (client-go's buckets).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Histogram::BOUNDS.len() + 1],
    /// The sum of all observations; 64 bits are 584 years.
    nanos: u64,
}

impl Histogram {
    /// The upper bound of each bucket, inclusive. One more bucket holds what is above the last.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_nanos(10),
        Duration::from_nanos(100),
        Duration::from_micros(1),
        Duration::from_micros(10),
        Duration::from_micros(100),
        Duration::from_millis(1),
        Duration::from_millis(10),
        Duration::from_millis(100),
        Duration::from_secs(1),
        Duration::from_secs(10),
        Duration::from_secs(100),
        Duration::from_secs(1000),
    ];

    /// The number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all observations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// The mean observation; zero if there is none.
    pub fn mean(&self) -> Duration {
        self.nanos
            .checked_div(self.count())
            .map_or(Duration::ZERO, Duration::from_nanos)
    }

    /// Each bucket's upper bound (`None`: no bound) and how many observations are in it, not cumulated.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        Self::BOUNDS.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    pub(crate) fn observe(&mut self, value: Duration) {
        // The bounds are the powers of ten from 10 ns on, so the logarithm names the bucket.
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        let bucket = if nanos <= 10 {
            0
        } else {
            (nanos - 1).ilog10() as usize
        };
        self.counts[bucket.min(Self::BOUNDS.len())] += 1;
        self.nanos = self.nanos.saturating_add(nanos);
    }
}

/// The counters a queue keeps as it goes; the rest of [`Stats`] is read off its state.
#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) abandoned: u64,
    pub(crate) panics: u64,
    pub(crate) discarded: u64,
    pub(crate) queue_latency: Histogram,
    pub(crate) work_duration: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_falls_into_the_first_bucket_that_is_not_below_it() {
        let mut histogram = Histogram::default();
        for nanos in [0, 10, 11, 100, 1_000_000_000_000, 1_000_000_000_001] {
            histogram.observe(Duration::from_nanos(nanos));
        }

        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();

        assert_eq!(counts, [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.buckets().last(), Some((None, 1)));
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.mean(), Duration::ZERO);

        histogram.observe(Duration::from_secs(1));
        histogram.observe(Duration::from_secs(2));
        assert_eq!(histogram.mean(), Duration::from_millis(1500));
    }

    #[test]
    fn the_sum_does_not_overflow() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::MAX);
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.sum(), Duration::from_nanos(u64::MAX));
        assert_eq!(histogram.count(), 2);
    }
}
