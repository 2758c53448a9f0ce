//! Statistics of a queue: plain numbers at one instant. No registry, no exporter and no background task; exporters read
//! [`WorkQueue::stats`](crate::WorkQueue::stats) on demand.

use std::time::Duration;

/// The state and counters of a queue at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "MetricsProvider")]
#[non_exhaustive]
pub struct Stats {
    /// Keys with outstanding work that has not started: ready keys, and keys added again while in flight.
    #[doc(alias = "workqueue_depth")]
    pub depth: usize,
    /// Keys that a worker could take now; the same as [`len`](crate::WorkQueue::len).
    pub ready: usize,
    /// Keys that wait for a later time.
    pub delayed: usize,
    /// Keys in flight.
    pub running: usize,
    /// Calls of [`get`](crate::WorkQueue::get) that are waiting.
    pub waiting_workers: usize,

    /// The number of times a key became outstanding. Adds of an outstanding key do not count.
    #[doc(alias = "workqueue_adds_total")]
    pub adds: u64,
    /// Delayed and rate-limited adds, including those without a delay.
    #[doc(alias = "workqueue_retries_total")]
    pub retries: u64,
    /// Items dropped without a verdict (a panic, a cancelled future, an early return) and retried.
    pub abandoned: u64,
    /// Panics of workers, each also counted in `abandoned`.
    pub panics: u64,
    /// Keys dropped by a shutdown: delayed keys, retries and adds after it, and keys still queued at the timeout of
    /// [`drain_within`](crate::WorkQueue::drain_within).
    pub discarded: u64,

    /// How long keys were outstanding before a worker took them.
    #[doc(alias = "workqueue_queue_duration_seconds")]
    pub queue_latency: Histogram,
    /// How long workers held keys.
    #[doc(alias = "workqueue_work_duration_seconds")]
    pub work_duration: Histogram,
    /// How long the longest running worker has held its key.
    #[doc(alias = "workqueue_longest_running_processor_seconds")]
    pub longest_running: Duration,
    /// The total time that workers have held their current keys. Grows steadily if one is stuck.
    #[doc(alias = "workqueue_unfinished_work_seconds")]
    pub unfinished_work: Duration,
}

/// A histogram with a fixed decimal scale, 10 ns to 1000 s (client-go's buckets).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Histogram::BOUNDS.len() + 1],
    /// The sum of all observations; 64 bits are 584 years.
    nanos: u64,
}

impl Histogram {
    /// The inclusive upper bound of each bucket. One more bucket holds larger observations.
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

    /// The upper bound of each bucket (`None`: unbounded) and its number of observations, not cumulative.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        Self::BOUNDS.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    pub(crate) fn observe(&mut self, value: Duration) {
        // The bounds are powers of ten starting at 10 ns, so the logarithm selects the bucket.
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

/// The counters of a queue; the rest of [`Stats`] is derived from its state.
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
    fn observation_is_counted_in_the_first_bucket_not_below_it() {
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
    fn mean_of_an_empty_histogram_is_zero() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.mean(), Duration::ZERO);

        histogram.observe(Duration::from_secs(1));
        histogram.observe(Duration::from_secs(2));
        assert_eq!(histogram.mean(), Duration::from_millis(1500));
    }

    #[test]
    fn sum_does_not_overflow() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::MAX);
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.sum(), Duration::from_nanos(u64::MAX));
        assert_eq!(histogram.count(), 2);
    }
}
