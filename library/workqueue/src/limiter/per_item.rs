//! Limiters that count the failures of each key.

use super::RateLimiter;
use hashbrown::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// The number of failures of each key. Only looked up, never iterated, so the random hash seed has no effect.
type Failures<T> = HashMap<T, u32, foldhash::fast::RandomState>;

/// Counts a failure and returns the number of earlier ones.
fn count<T: Clone + Eq + Hash>(failures: &mut Failures<T>, item: &T) -> u32 {
    let count = failures.entry_ref(item).or_insert(0);
    let before = *count;
    *count = before.saturating_add(1);
    before
}

/// Doubles the delay with each failure of a key: `base`, 2 × `base`, 4 × `base` … up to `max`.
#[doc(alias = "NewItemExponentialFailureRateLimiter")]
#[doc(alias = "NewTypedItemExponentialFailureRateLimiter")]
#[doc(alias = "ItemExponentialFailureRateLimiter")]
#[doc(alias = "TypedItemExponentialFailureRateLimiter")]
pub struct ExponentialBackoff<T> {
    base: Duration,
    max: Duration,
    failures: Failures<T>,
}

impl<T> ExponentialBackoff<T> {
    /// Starts at `base` and never exceeds `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        ExponentialBackoff {
            base,
            max,
            failures: Failures::default(),
        }
    }

    fn delay(&self, failures: u32) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        // A `Duration` multiplies by a `u32`, so at most 31 doublings at a time; a few rounds exceed any `max`, and an
        // overflow is beyond it.
        let (mut delay, mut left) = (self.base, failures);
        while left > 0 && delay < self.max {
            let doublings = left.min(31);
            left -= doublings;
            delay = delay.checked_mul(1 << doublings).unwrap_or(self.max);
        }
        delay.min(self.max)
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for ExponentialBackoff<T> {
    fn when(&mut self, item: &T, _now: Instant) -> Duration {
        let failures = count(&mut self.failures, item);
        self.delay(failures)
    }

    fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

/// Keys are not printed: they may be numerous, and they belong to the user.
impl<T> fmt::Debug for ExponentialBackoff<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExponentialBackoff")
            .field("base", &self.base)
            .field("max", &self.max)
            .field("failing", &self.failures.len())
            .finish()
    }
}

/// Retries a key quickly for the first failures, then slowly.
#[doc(alias = "NewItemFastSlowRateLimiter")]
#[doc(alias = "NewTypedItemFastSlowRateLimiter")]
#[doc(alias = "ItemFastSlowRateLimiter")]
#[doc(alias = "TypedItemFastSlowRateLimiter")]
pub struct FastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: Failures<T>,
}

impl<T> FastSlow<T> {
    /// Waits `fast` for the first `fast_attempts` failures of a key and `slow` from then on.
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        FastSlow {
            fast,
            slow,
            fast_attempts,
            failures: Failures::default(),
        }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for FastSlow<T> {
    fn when(&mut self, item: &T, _now: Instant) -> Duration {
        if count(&mut self.failures, item) < self.fast_attempts {
            self.fast
        } else {
            self.slow
        }
    }

    fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

/// Keys are not printed: they may be numerous, and they belong to the user.
impl<T> fmt::Debug for FastSlow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastSlow")
            .field("fast", &self.fast)
            .field("slow", &self.slow)
            .field("fast_attempts", &self.fast_attempts)
            .field("failing", &self.failures.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn next<L: RateLimiter<&'static str>>(limiter: &mut L, item: &'static str) -> Duration {
        limiter.when(&item, Instant::now())
    }

    /// Upstream: TestItemExponentialFailureRateLimiter
    #[test]
    fn exponential_backoff_doubles_per_item_until_it_is_forgotten() {
        let mut limiter = ExponentialBackoff::new(millis(1), Duration::from_secs(1));

        let delays: Vec<Duration> = (0..5).map(|_| next(&mut limiter, "one")).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16].map(millis));
        assert_eq!(limiter.num_requeues(&"one"), 5);

        assert_eq!(next(&mut limiter, "two"), millis(1));
        assert_eq!(next(&mut limiter, "two"), millis(2));
        assert_eq!(limiter.num_requeues(&"two"), 2);

        limiter.forget(&"one");
        assert_eq!(limiter.num_requeues(&"one"), 0);
        assert_eq!(next(&mut limiter, "one"), millis(1));
    }

    /// Upstream: TestItemExponentialFailureRateLimiterOverFlow
    #[test]
    fn exponential_backoff_stops_at_its_maximum_instead_of_overflowing() {
        let mut limiter = ExponentialBackoff::new(millis(1), Duration::from_secs(1000));
        for _ in 0..5 {
            next(&mut limiter, "one");
        }
        assert_eq!(next(&mut limiter, "one"), millis(32));

        for _ in 0..1000 {
            next(&mut limiter, "overflow1");
        }
        assert_eq!(next(&mut limiter, "overflow1"), Duration::from_secs(1000));

        let mut limiter = ExponentialBackoff::new(Duration::from_secs(60), Duration::from_secs(1000 * 3600));
        for _ in 0..2 {
            next(&mut limiter, "two");
        }
        assert_eq!(next(&mut limiter, "two"), Duration::from_secs(240));

        for _ in 0..1000 {
            next(&mut limiter, "overflow2");
        }
        assert_eq!(next(&mut limiter, "overflow2"), Duration::from_secs(1000 * 3600));
    }

    #[test]
    fn tiny_base_doubles_up_to_the_maximum() {
        let mut limiter = ExponentialBackoff::new(Duration::from_nanos(1), Duration::from_secs(1000));
        let delays: Vec<Duration> = (0..60).map(|_| next(&mut limiter, "one")).collect();

        assert_eq!(delays[39], Duration::from_nanos(1 << 39));
        assert_eq!(delays[40], Duration::from_secs(1000));
        assert_eq!(delays[59], Duration::from_secs(1000));
    }

    #[test]
    fn zero_base_stays_zero() {
        let mut limiter = ExponentialBackoff::new(Duration::ZERO, Duration::from_secs(1));
        assert!((0..100).all(|_| next(&mut limiter, "one").is_zero()));
    }

    /// Upstream: TestItemFastSlowRateLimiter
    #[test]
    fn fast_slow_is_fast_for_the_first_attempts_then_slow() {
        let mut limiter = FastSlow::new(millis(5), Duration::from_secs(10), 3);

        let delays: Vec<Duration> = (0..5).map(|_| next(&mut limiter, "one")).collect();
        assert_eq!(delays, [5, 5, 5, 10_000, 10_000].map(millis));
        assert_eq!(limiter.num_requeues(&"one"), 5);

        assert_eq!(next(&mut limiter, "two"), millis(5));
        assert_eq!(next(&mut limiter, "two"), millis(5));
        assert_eq!(limiter.num_requeues(&"two"), 2);

        limiter.forget(&"one");
        assert_eq!(limiter.num_requeues(&"one"), 0);
        assert_eq!(next(&mut limiter, "one"), millis(5));
    }
}
