//! Delays between attempts: exponential backoff with jitter, and a token bucket that limits the rate of watches.
//! Pure: the time and the jitter are passed in.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::{from_secs, times};

/// The delays between failed attempts.
///
/// The n-th delay is `initial × factorⁿ`, at most `max`, extended by a random share of up to `jitter`. The sequence
/// restarts after progress only, never because time has passed.
///
/// However short the delays are, at most 24 watches per minute are started after the first five.
#[doc(alias = "wait.Backoff")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffConfig {
    /// The first delay. client-go: 800 ms.
    pub initial: Duration,
    /// The growth of each delay over the previous one. client-go: 2.
    pub factor: f64,
    /// The maximum delay, before jitter. client-go: 30 s.
    pub max: Duration,
    /// The maximum random extension, as a share of the delay. client-go: 1.0.
    pub jitter: f64,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            factor: 2.0,
            max: Duration::from_secs(30),
            jitter: 1.0,
        }
    }
}

/// The maximum delay a server can request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The position in the sequence of delays.
#[derive(Debug)]
pub(crate) struct Backoff {
    config: BackoffConfig,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(config: BackoffConfig) -> Self {
        Self { config, failures: 0 }
    }

    /// Returns the next delay. `jitter` is uniform in [0, 1).
    pub(crate) fn next(&mut self, jitter: f64, retry_after: Option<Duration>) -> Duration {
        let max = self.config.max.as_secs_f64();
        let exponent = i32::try_from(self.failures.min(1000)).unwrap_or(1000);
        let base = (self.config.initial.as_secs_f64() * self.config.factor.powi(exponent)).min(max);
        self.failures = self.failures.saturating_add(1);
        let own = from_secs(base * (1.0 + self.config.jitter.max(0.0) * jitter));
        // Extended by up to a fifth, so that all rejected clients do not retry at the same time.
        let requested = retry_after.map(|delay| times(delay.min(MAX_RETRY_AFTER), 1.0 + 0.2 * jitter));
        requested.map_or(own, |requested| own.max(requested))
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A token bucket that limits the rate of watches, for a server that ends every watch after one event.
#[derive(Debug)]
pub(crate) struct Pace {
    tokens: f64,
    filled: Option<Instant>,
}

impl Pace {
    const BURST: f64 = 5.0;
    /// 24 per minute: below the limit of 30 requests per informer and minute.
    const PER_SECOND: f64 = 0.4;

    pub(crate) fn new() -> Self {
        Self {
            tokens: Self::BURST,
            filled: None,
        }
    }

    /// Takes a token. Returns the time at which the watch may start.
    pub(crate) fn take(&mut self, now: Instant) -> Instant {
        if let Some(filled) = self.filled {
            let gained = now.saturating_duration_since(filled).as_secs_f64() * Self::PER_SECOND;
            self.tokens = (self.tokens + gained).min(Self::BURST);
        }
        self.filled = Some(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            now
        } else {
            now + from_secs(-self.tokens / Self::PER_SECOND)
        }
    }
}

/// The window in which internal errors of the server lead to a new watch instead of a list.
#[doc(alias = "MaxInternalErrorRetryDuration")]
#[derive(Debug)]
pub(crate) struct RetryWindow {
    length: Duration,
    opened: Option<Instant>,
    last: Option<Instant>,
}

impl RetryWindow {
    /// A new window starts after this time without an error.
    const QUIET: Duration = Duration::from_secs(60);

    pub(crate) fn new(length: Duration) -> Self {
        Self {
            length,
            opened: None,
            last: None,
        }
    }

    /// Whether an internal error that happened now may be retried without a list.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if self.length.is_zero() {
            return false;
        }
        let quiet = self
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= Self::QUIET);
        if quiet {
            self.opened = Some(now);
        }
        self.last = Some(now);
        self.opened
            .is_some_and(|opened| now.saturating_duration_since(opened) <= self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(backoff: &mut Backoff, jitter: f64, n: usize) -> Vec<f64> {
        (0..n).map(|_| backoff.next(jitter, None).as_secs_f64()).collect()
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(BackoffConfig::default());

        assert_eq!(
            delays(&mut backoff, 0.0, 8),
            [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
        );
        for _ in 0..10_000 {
            assert_eq!(backoff.next(0.0, None), Duration::from_secs(30));
        }
    }

    #[test]
    fn jitter_extends_a_delay_to_at_most_twice_its_base() {
        let mut backoff = Backoff::new(BackoffConfig::default());

        assert_eq!(backoff.next(0.5, None), Duration::from_millis(1200));
        assert!(backoff.next(0.999, None) < Duration::from_millis(3200));
    }

    #[test]
    fn only_a_reset_restarts_the_sequence() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        delays(&mut backoff, 0.0, 5);

        backoff.reset();

        assert_eq!(backoff.next(0.0, None), Duration::from_millis(800));
    }

    #[test]
    fn the_server_can_extend_a_delay_but_not_shorten_it() {
        let mut backoff = Backoff::new(BackoffConfig::default());

        assert_eq!(
            backoff.next(0.0, Some(Duration::from_secs(7))),
            Duration::from_secs(7)
        );
        assert_eq!(
            backoff.next(0.0, Some(Duration::from_millis(1))),
            Duration::from_millis(1600)
        );
        assert_eq!(backoff.next(0.0, Some(Duration::MAX)), Duration::from_secs(300));
    }

    #[test]
    fn a_burst_of_watches_is_paced() {
        let mut pace = Pace::new();
        let now = Instant::now();

        let waits: Vec<f64> = (0..7).map(|_| (pace.take(now) - now).as_secs_f64()).collect();

        assert_eq!(waits, [0.0, 0.0, 0.0, 0.0, 0.0, 2.5, 5.0]);
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.take(later), later);
    }

    /// Upstream: TestRetryWithDeadline
    #[test]
    fn internal_errors_are_retried_within_the_window() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);

        let mut never = RetryWindow::new(Duration::ZERO);
        assert!(!never.allows(at(0)));

        let mut short = RetryWindow::new(Duration::from_secs(1));
        assert_eq!(
            [short.allows(at(0)), short.allows(at(1)), short.allows(at(2))],
            [true, true, false]
        );

        let mut restarted = RetryWindow::new(Duration::from_secs(30));
        assert!(restarted.allows(at(0)));
        assert!(!restarted.allows(at(31)));
        assert!(
            restarted.allows(at(91)),
            "a minute without an error starts a new window"
        );
    }
}
