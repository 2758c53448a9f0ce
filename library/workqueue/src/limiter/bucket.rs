//! A token bucket: one limit for all keys.

use super::RateLimiter;
use std::time::Duration;
use tokio::time::Instant;

/// Allows a `burst` of retries and then `per_second` retries per second, over all keys.
///
/// Each call takes one token. If there is none, the delay is the time until the next unassigned token, so delays grow
/// while retries exceed the rate. It does not count failures per key.
#[derive(Clone, Debug)]
#[doc(alias = "BucketRateLimiter")]
#[doc(alias = "TypedBucketRateLimiter")]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    /// If negative, the number of tokens assigned in advance.
    tokens: f64,
    filled_at: Option<Instant>,
}

impl Bucket {
    /// A full bucket. A rate of zero or less never refills it: after the burst, keys wait forever (wrap it in a
    /// [`MaxWait`](super::MaxWait) to limit that).
    pub fn new(per_second: f64, burst: u32) -> Self {
        let per_second = if per_second.is_nan() {
            0.0
        } else {
            per_second.max(0.0)
        };
        Bucket {
            per_second,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            filled_at: None,
        }
    }

    fn reserve(&mut self, now: Instant) -> Duration {
        let filled_at = self.filled_at.unwrap_or(now);
        let gained = now.saturating_duration_since(filled_at).as_secs_f64() * self.per_second;
        // 0 × ∞ would be NaN: with an infinite rate there is nothing to count.
        let gained = if self.per_second.is_infinite() {
            self.burst
        } else {
            gained
        };
        self.tokens = (self.tokens + gained).min(self.burst) - 1.0;
        self.filled_at = Some(filled_at.max(now));
        if self.tokens >= 0.0 || self.per_second.is_infinite() {
            self.tokens = self.tokens.max(-1.0);
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::MAX)
    }
}

impl<T> RateLimiter<T> for Bucket {
    fn when(&mut self, _item: &T, now: Instant) -> Duration {
        self.reserve(now)
    }

    fn forget(&mut self, _item: &T) {}

    fn num_requeues(&self, _item: &T) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_allows_a_burst_then_spaces_by_the_rate() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10.0, 3);

        let delays: Vec<u128> = (0..6).map(|_| bucket.reserve(now).as_millis()).collect();

        assert_eq!(delays, [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn bucket_refills_with_time_up_to_its_burst() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10.0, 2);
        for _ in 0..4 {
            bucket.reserve(now);
        }

        // Two tokens are assigned in advance; after 200 ms they are paid back, after 300 ms one is available.
        assert_eq!(bucket.reserve(now + Duration::from_millis(300)), Duration::ZERO);

        let later = now + Duration::from_secs(3600);
        let delays: Vec<u128> = (0..4).map(|_| bucket.reserve(later).as_millis()).collect();
        assert_eq!(delays, [0, 0, 100, 200]);
    }

    #[test]
    fn clock_stepping_back_adds_no_tokens() {
        let now = Instant::now() + Duration::from_secs(60);
        let mut bucket = Bucket::new(1.0, 1);

        assert_eq!(bucket.reserve(now), Duration::ZERO);
        assert_eq!(
            bucket.reserve(now - Duration::from_secs(30)),
            Duration::from_secs(1)
        );
        assert_eq!(bucket.reserve(now), Duration::from_secs(2));
    }

    #[test]
    fn unusual_rates_do_not_panic() {
        let now = Instant::now();
        for rate in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            let mut bucket = Bucket::new(rate, 1);
            assert_eq!(bucket.reserve(now), Duration::ZERO);
            assert_eq!(bucket.reserve(now), Duration::MAX);
        }
        let mut bucket = Bucket::new(f64::INFINITY, 0);
        assert!((0..1000).all(|_| bucket.reserve(now).is_zero()));
        let mut bucket = Bucket::new(10.0, 0);
        assert_eq!(bucket.reserve(now), Duration::from_millis(100));
    }
}
