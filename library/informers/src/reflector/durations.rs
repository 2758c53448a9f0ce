//! `ListDurations`: how long lists took, as a histogram.

use std::iter::Sum;
use std::time::Duration;

/// How long completed lists took, in buckets from 10 ms to 5 minutes.
///
/// A list is measured from the request to the last object, without failed attempts and pauses. The sum over several
/// reflectors is their common histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListDurations {
    counts: [u64; ListDurations::BOUNDS.len() + 1],
    sum: Duration,
}

impl ListDurations {
    /// The inclusive upper bound of each bucket. One more bucket holds longer lists.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_millis(10),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2500),
        Duration::from_secs(5),
        Duration::from_secs(10),
        Duration::from_secs(30),
        Duration::from_secs(60),
        Duration::from_secs(120),
        Duration::from_secs(300),
    ];

    /// The number of lists.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of their durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The upper bound of each bucket (`None`: unbounded) and its number of lists, not cumulative.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        Self::BOUNDS.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    pub(super) fn observe(&mut self, took: Duration) {
        let bucket = Self::BOUNDS.partition_point(|bound| *bound < took);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(took);
    }
}

impl<'a> Sum<&'a ListDurations> for ListDurations {
    fn sum<I: Iterator<Item = &'a ListDurations>>(all: I) -> Self {
        all.fold(Self::default(), |mut total, one| {
            for (sum, count) in total.counts.iter_mut().zip(one.counts) {
                *sum += count;
            }
            total.sum = total.sum.saturating_add(one.sum);
            total
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_longer_lists_have_a_bucket_of_their_own() {
        let mut durations = ListDurations::default();
        for millis in [0, 10, 11, 300_000, 300_001] {
            durations.observe(Duration::from_millis(millis));
        }
        durations.observe(Duration::MAX);

        let buckets: Vec<u64> = durations.buckets().map(|(_, count)| count).collect();
        assert_eq!(buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(durations.count(), 6);
        assert_eq!(durations.sum(), Duration::MAX);
    }

    #[test]
    fn histograms_of_several_reflectors_are_added() {
        let mut durations = ListDurations::default();
        durations.observe(Duration::from_secs(3));

        let total: ListDurations = [&durations, &durations].into_iter().sum();

        assert_eq!((total.count(), total.sum()), (2, Duration::from_secs(6)));
        assert_eq!(total.buckets().nth(6), Some((Some(Duration::from_secs(5)), 2)));
    }
}
