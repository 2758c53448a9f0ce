//! Delays between attempts: exponential backoff with jitter, and a token bucket that limits the rate of requests.
//! Pure: the time and the jitter are passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::config::ReflectorConfig;
use crate::time::{from_secs, times};
use crate::wire::{ApiError, SourceError};

/// The delays between failed attempts.
///
/// The n-th delay is `initial × factorⁿ`, at most `max`, extended by a random share of up to `jitter`. The sequence
/// restarts after progress only, never because time has passed.
///
/// A reflector retries failures that cost the server nothing sooner: see
/// [`ReflectorConfig::max_unreachable_delay`] and [`ReflectorConfig::max_not_found_delay`]. However short the delays are,
/// it sends at most 24 requests per minute after the first five; the pages of a list that makes progress do not count.
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
/// A collection that exceeds a limit will most likely do so again, and every attempt costs as much as the limit allows.
const OVER_THE_LIMIT: Duration = Duration::from_secs(60);

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
        let own = self.next_base(f64::INFINITY) * (1.0 + self.jitter() * jitter);
        // Extended by up to a fifth, so that all rejected clients do not retry at the same time.
        let requested = retry_after.map(|delay| times(delay.min(MAX_RETRY_AFTER), 1.0 + 0.2 * jitter));
        from_secs(own).max(requested.unwrap_or_default())
    }

    /// Returns the next delay, which is at most `limit` with its jitter.
    pub(crate) fn next_within(&mut self, limit: Duration, jitter: f64) -> Duration {
        let share = self.jitter();
        from_secs(self.next_base(limit.as_secs_f64() / (1.0 + share)) * (1.0 + share * jitter))
    }

    fn next_base(&mut self, limit: f64) -> f64 {
        let exponent = i32::try_from(self.failures.min(1000)).unwrap_or(1000);
        self.failures = self.failures.saturating_add(1);
        let base = self.config.initial.as_secs_f64() * self.config.factor.powi(exponent);
        base.min(self.config.max.as_secs_f64()).min(limit)
    }

    fn jitter(&self) -> f64 {
        self.config.jitter.max(0.0)
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A failure, as far as it matters for the time of the next attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    /// The delay the server requests.
    retry_after: Option<Duration>,
    /// The duration of the failed attempt.
    spent: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The request did not reach an API server, so it cost the server nothing.
    Unreachable,
    /// The resource does not exist. It may be about to be created.
    NotFound,
    /// The server worked on the request, or requests a delay.
    Served,
}

impl Failure {
    /// A failure of the server that is not an error it reported: a violation of the protocol, a passed deadline.
    pub(crate) const SERVED: Self = Self {
        class: FailureClass::Served,
        retry_after: None,
        spent: Duration::ZERO,
    };

    pub(crate) fn of(error: &SourceError) -> Self {
        match error {
            SourceError::Api(error) => Self::of_api(error),
            SourceError::Transport { .. } => Self {
                class: FailureClass::Unreachable,
                ..Self::SERVED
            },
            SourceError::Limit(_) => Self {
                retry_after: Some(OVER_THE_LIMIT),
                ..Self::SERVED
            },
            _ => Self::SERVED,
        }
    }

    pub(crate) fn of_api(error: &ApiError) -> Self {
        let class = match error.code {
            _ if error.retry_after.is_some() => FailureClass::Served,
            // Sent by a proxy in front of a server that is down.
            502..=504 if !error.is_too_large_resource_version() => FailureClass::Unreachable,
            404 => FailureClass::NotFound,
            _ => FailureClass::Served,
        };
        Self {
            class,
            retry_after: error.retry_after,
            spent: Duration::ZERO,
        }
    }

    /// The server may have worked on the request, although the error says otherwise.
    pub(crate) fn served(self) -> Self {
        Self {
            class: FailureClass::Served,
            ..self
        }
    }

    /// The attempt took this long. Attempts to connect are spaced by their starts: one that took five seconds is repeated
    /// without a further delay.
    pub(crate) fn after(self, spent: Duration) -> Self {
        Self { spent, ..self }
    }
}

/// The delays of one kind of operation. Each class of failures has its own sequence: a server that rejects the first
/// request after an outage is not made to wait for the attempts that did not reach it.
#[derive(Debug)]
pub(crate) struct Delays {
    unreachable: Backoff,
    not_found: Backoff,
    served: Backoff,
    max_unreachable: Duration,
    max_not_found: Duration,
}

impl Delays {
    pub(crate) fn new(config: &ReflectorConfig) -> Self {
        Self {
            unreachable: Backoff::new(config.backoff),
            not_found: Backoff::new(config.backoff),
            served: Backoff::new(config.backoff),
            max_unreachable: config.max_unreachable_delay,
            max_not_found: config.max_not_found_delay,
        }
    }

    pub(crate) fn next(&mut self, failure: Failure, jitter: f64) -> Duration {
        match failure.class {
            FailureClass::Unreachable => {
                let delay = self.unreachable.next_within(self.max_unreachable, jitter);
                delay.saturating_sub(failure.spent)
            }
            FailureClass::NotFound => self.not_found.next_within(self.max_not_found, jitter),
            FailureClass::Served => self.served.next(jitter, failure.retry_after),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.unreachable.reset();
        self.not_found.reset();
        self.served.reset();
    }
}

/// A token bucket that limits the rate of requests, whatever the server does.
#[derive(Debug)]
pub(crate) struct Pace {
    tokens: f64,
    filled: Option<Instant>,
}

impl Pace {
    const BURST: f64 = 5.0;
    /// 24 per minute: with the burst, any minute stays below the limit of 30 requests.
    const PER_SECOND: f64 = 0.4;

    pub(crate) fn new() -> Self {
        Self {
            tokens: Self::BURST,
            filled: None,
        }
    }

    /// Takes a token. Returns the time at which the request may be sent.
    pub(crate) fn take(&mut self, now: Instant) -> Instant {
        self.tokens = self.tokens_at(now) - 1.0;
        self.filled = Some(now);
        now + Self::time_for(-self.tokens)
    }

    /// The time at which a token will be available.
    pub(crate) fn ready_at(&self, now: Instant) -> Instant {
        now + Self::time_for(1.0 - self.tokens_at(now))
    }

    fn tokens_at(&self, now: Instant) -> f64 {
        let idle = self
            .filled
            .map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        (self.tokens + idle.as_secs_f64() * Self::PER_SECOND).min(Self::BURST)
    }

    fn time_for(missing: f64) -> Duration {
        // Sums of times are not exact.
        if missing < 1e-6 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(missing / Self::PER_SECOND)
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
    fn a_gateway_error_is_an_outage_unless_the_server_itself_waited_for_a_version() {
        let mut error = ApiError {
            code: 504,
            reason: "Timeout".into(),
            message: "upstream timed out".into(),
            ..ApiError::default()
        };
        assert_eq!(Failure::of_api(&error).class, FailureClass::Unreachable);

        error.message = "Too large resource version: 9, current: 7".into();
        assert_eq!(Failure::of_api(&error).class, FailureClass::Served);
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
    fn failures_to_connect_are_retried_at_most_five_seconds_apart() {
        let mut delays = Delays::new(&ReflectorConfig::default());
        let refused = Failure {
            class: FailureClass::Unreachable,
            ..Failure::SERVED
        };

        let mut spread = |jitter: f64| {
            let pauses = (0..5)
                .map(|_| delays.next(refused, jitter).as_secs_f64())
                .collect();
            delays.reset();
            pauses
        };
        let shortest: Vec<f64> = spread(0.0);
        assert_eq!(shortest, [0.8, 1.6, 2.5, 2.5, 2.5]);
        let longest: Vec<f64> = spread(1.0);
        assert_eq!(longest, [1.6, 3.2, 5.0, 5.0, 5.0]);

        assert_eq!(
            delays.next(refused.after(Duration::from_secs(5)), 1.0),
            Duration::ZERO,
            "attempts are spaced by their starts"
        );
    }

    #[test]
    fn classes_of_failures_do_not_extend_each_others_delays() {
        let mut delays = Delays::new(&ReflectorConfig::default());
        let gateway = |code| Failure::of_api(&ApiError::new(code, "", ""));
        for code in [502, 503, 504, 502, 503, 504] {
            assert!(delays.next(gateway(code), 1.0) <= Duration::from_secs(5));
        }
        for _ in 0..6 {
            assert!(delays.next(gateway(404), 1.0) <= Duration::from_secs(8));
        }

        assert_eq!(delays.next(gateway(429), 0.0), Duration::from_millis(800));
        let busy = ApiError {
            retry_after: Some(Duration::from_secs(20)),
            ..ApiError::new(503, "", "")
        };
        assert_eq!(
            delays.next(Failure::of_api(&busy), 0.0),
            Duration::from_secs(20),
            "Retry-After is respected for every code"
        );
    }

    #[test]
    fn extreme_settings_do_not_overflow() {
        for (initial, factor, max, jitter) in [
            (Duration::MAX, f64::INFINITY, Duration::MAX, f64::MAX),
            (Duration::MAX, f64::NAN, Duration::MAX, f64::NAN),
            (Duration::ZERO, f64::NEG_INFINITY, Duration::MAX, -1.0),
        ] {
            let mut backoff = Backoff::new(BackoffConfig {
                initial,
                factor,
                max,
                jitter,
            });
            for _ in 0..3 {
                assert!(backoff.next(0.5, Some(Duration::MAX)) <= crate::time::FAR);
                assert!(backoff.next_within(Duration::MAX, 0.5) <= crate::time::FAR);
            }
        }
    }

    #[test]
    fn a_burst_of_requests_is_paced() {
        let mut pace = Pace::new();
        let now = Instant::now();

        let waits: Vec<f64> = (0..7).map(|_| (pace.take(now) - now).as_secs_f64()).collect();

        assert_eq!(waits, [0.0, 0.0, 0.0, 0.0, 0.0, 2.5, 5.0]);
        assert_eq!(pace.ready_at(now), now + Duration::from_millis(7500));
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.ready_at(later), later);
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
