//! Limiters that combine others.

use super::RateLimiter;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// Uses the longest delay of several limiters.
///
/// ```
/// use kube_workqueue::limiter::{Bucket, ExponentialBackoff, MaxOf};
/// use std::time::Duration;
///
/// let limiter = MaxOf::<String>::new()
///     .and(ExponentialBackoff::new(Duration::from_millis(5), Duration::from_secs(60)))
///     .and(Bucket::new(50.0, 200));
/// # let _ = limiter;
/// ```
#[doc(alias = "NewMaxOfRateLimiter")]
#[doc(alias = "NewTypedMaxOfRateLimiter")]
#[doc(alias = "MaxOfRateLimiter")]
#[doc(alias = "TypedMaxOfRateLimiter")]
pub struct MaxOf<T> {
    limiters: Vec<Box<dyn RateLimiter<T>>>,
}

impl<T> MaxOf<T> {
    /// Without limiters: no delay.
    pub fn new() -> Self {
        MaxOf { limiters: Vec::new() }
    }

    /// Adds a limiter.
    pub fn and(mut self, limiter: impl RateLimiter<T> + 'static) -> Self {
        self.limiters.push(Box::new(limiter));
        self
    }
}

impl<T> Default for MaxOf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> RateLimiter<T> for MaxOf<T> {
    fn when(&mut self, item: &T, now: Instant) -> Duration {
        self.limiters
            .iter_mut()
            .map(|limiter| limiter.when(item, now))
            .max()
            .unwrap_or_default()
    }

    fn forget(&mut self, item: &T) {
        for limiter in &mut self.limiters {
            limiter.forget(item);
        }
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.limiters
            .iter()
            .map(|limiter| limiter.num_requeues(item))
            .max()
            .unwrap_or_default()
    }
}

impl<T> fmt::Debug for MaxOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf")
            .field("limiters", &self.limiters.len())
            .finish()
    }
}

/// Limits the delay of another limiter.
#[doc(alias = "NewWithMaxWaitRateLimiter")]
#[doc(alias = "NewTypedWithMaxWaitRateLimiter")]
#[derive(Clone, Debug)]
#[doc(alias = "WithMaxWaitRateLimiter")]
#[doc(alias = "TypedWithMaxWaitRateLimiter")]
pub struct MaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> MaxWait<L> {
    /// The delay of `limiter`, but not more than `max`.
    pub fn new(limiter: L, max: Duration) -> Self {
        MaxWait { limiter, max }
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for MaxWait<L> {
    fn when(&mut self, item: &T, now: Instant) -> Duration {
        self.limiter.when(item, now).min(self.max)
    }

    fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::{ExponentialBackoff, FastSlow, controller_default, item_default};

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Upstream: TestMaxOfRateLimiter
    #[test]
    fn max_of_uses_the_longest_delay_and_forgets_in_all_limiters() {
        let now = Instant::now();
        let mut limiter = MaxOf::new()
            .and(FastSlow::new(millis(5), Duration::from_secs(3), 3))
            .and(ExponentialBackoff::new(millis(1), Duration::from_secs(1)));

        let delays: Vec<Duration> = (0..5).map(|_| limiter.when(&"one", now)).collect();
        assert_eq!(delays, [5, 5, 5, 3000, 3000].map(millis));
        assert_eq!(limiter.num_requeues(&"one"), 5);

        assert_eq!(limiter.when(&"two", now), millis(5));
        assert_eq!(limiter.when(&"two", now), millis(5));
        assert_eq!(limiter.num_requeues(&"two"), 2);

        limiter.forget(&"one");
        assert_eq!(limiter.num_requeues(&"one"), 0);
        assert_eq!(limiter.when(&"one", now), millis(5));
    }

    /// Counts calls, not keys: short for the first `threshold` of them, then long.
    struct Step {
        calls: u32,
        threshold: u32,
    }

    impl RateLimiter<u32> for Step {
        fn when(&mut self, _item: &u32, _now: Instant) -> Duration {
            self.calls += 1;
            if self.calls <= self.threshold {
                millis(5)
            } else {
                Duration::from_secs(1000)
            }
        }

        fn forget(&mut self, _item: &u32) {}

        fn num_requeues(&self, _item: &u32) -> u32 {
            0
        }
    }

    /// Upstream: TestWithMaxWaitRateLimiter
    #[test]
    fn max_wait_limits_only_longer_delays() {
        let now = Instant::now();
        let mut limiter = MaxWait::new(
            Step {
                calls: 0,
                threshold: 100,
            },
            Duration::from_secs(500),
        );

        assert!((0..100).all(|item| limiter.when(&item, now) == millis(5)));
        assert!((100..200).all(|item| limiter.when(&item, now) == Duration::from_secs(500)));
    }

    #[test]
    fn controller_default_is_exponential_per_key_and_ten_a_second_over_all() {
        let now = Instant::now();
        let mut limiter = controller_default::<u32>();

        let first: Vec<Duration> = (0..3).map(|_| limiter.when(&0, now)).collect();
        assert_eq!(first, [5, 10, 20].map(millis));

        // 97 more use up the burst of 100; from then on each key waits 100 ms longer than the one before.
        for item in 1..98 {
            assert_eq!(limiter.when(&item, now), millis(5));
        }
        assert_eq!(limiter.when(&98, now), millis(100));
        assert_eq!(limiter.when(&99, now), millis(200));

        assert_eq!(item_default().when(&"one", now), millis(1));
    }
}
