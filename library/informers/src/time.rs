//! Arithmetic with times that cannot overflow, whatever a caller passes.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than any process runs, and small enough for tokio's timers.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The point in time after a delay. Delays of more than 30 years are 30 years.
pub(crate) fn after(start: Instant, delay: Duration) -> Instant {
    start.checked_add(delay.min(FAR)).unwrap_or(start)
}

/// A number of seconds as a duration of at most 30 years. Negative numbers and NaN are zero.
pub(crate) fn from_secs(seconds: f64) -> Duration {
    // `max` returns the other operand for NaN.
    Duration::try_from_secs_f64(seconds.max(0.0)).map_or(FAR, |duration| duration.min(FAR))
}

/// A multiple of a duration, at most 30 years.
pub(crate) fn times(duration: Duration, factor: f64) -> Duration {
    from_secs(duration.as_secs_f64() * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn extremes_saturate() {
        let now = Instant::now();
        assert_eq!(after(now, Duration::MAX), now + FAR);
        assert_eq!(after(now, Duration::ZERO), now);
        assert_eq!(from_secs(1.5), Duration::from_millis(1500));
        for nothing in [f64::NAN, f64::NEG_INFINITY, -1.0, -0.0] {
            assert_eq!(from_secs(nothing), Duration::ZERO);
        }
        for much in [f64::INFINITY, f64::MAX, 1e300] {
            assert_eq!(from_secs(much), FAR);
        }
        assert_eq!(times(Duration::MAX, 2.5), FAR);
        assert_eq!(times(Duration::from_secs(2), 2.5), Duration::from_secs(5));
    }
}
