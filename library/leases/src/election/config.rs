//! The timings of an election, and their validation.

use std::time::Duration;

use crate::error::ConfigError;

/// Candidates wait between 1 and 2.2 retry periods, so that they do not all try at once.
#[doc(alias = "JitterFactor")]
pub(crate) const JITTER: f64 = 1.2;

/// The timings of an election. All candidates of one Lease should have the same.
///
/// ```
/// # use kube_leases::ElectionConfig;
/// # use std::time::Duration;
/// let config = ElectionConfig {
///     lease_duration: Duration::from_secs(60),
///     renew_deadline: Duration::from_secs(40),
///     ..ElectionConfig::default()
/// };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "LeaderElectionConfig")]
pub struct ElectionConfig {
    /// How long a Lease must stay unchanged before another candidate may take it. Whole seconds, the unit of a Lease.
    /// Default: 15 s.
    #[doc(alias = "LeaseDuration")]
    pub lease_duration: Duration,
    /// A leader that cannot renew for this long stops leading. Default: 10 s.
    #[doc(alias = "RenewDeadline")]
    pub renew_deadline: Duration,
    /// The interval of renewals of a leader and, with jitter, of attempts of a candidate. Default: 2 s.
    #[doc(alias = "RetryPeriod")]
    pub retry_period: Duration,
    /// Whether a graceful shutdown releases the Lease, so that the next leader need not wait. Default: true.
    #[doc(alias = "ReleaseOnCancel")]
    pub release_on_stop: bool,
}

impl Default for ElectionConfig {
    /// The timings recommended for client-go: 15 s, 10 s, 2 s.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_stop: true,
        }
    }
}

impl ElectionConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_timing(self.lease_duration, self.renew_deadline, self.retry_period)
    }

    /// The timeout of one request: half of the renew deadline, so that a request that hangs leaves time for another.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// A random number as a fraction: within 0 and 1 whatever it is, because a duration times NaN or a negative number panics.
pub(crate) fn fraction(random: f64) -> f64 {
    match random.is_nan() {
        true => 0.0,
        false => random.clamp(0.0, 1.0),
    }
}

/// Lease > renew deadline > 1.2 × retry period > 0, as client-go checks it.
pub(crate) fn check_timing(lease: Duration, renew: Duration, retry: Duration) -> Result<(), ConfigError> {
    let wrong = |text: String| Err(ConfigError::Timing(text));
    // Differs from client-go: it truncates the duration, and so lets others take a Lease of 1.9 s after 1 s.
    if lease.subsec_nanos() != 0 || lease.as_secs() > i32::MAX as u64 {
        return wrong(format!(
            "lease_duration ({lease:?}) must be whole seconds, at most 2147483647"
        ));
    }
    if retry.is_zero() {
        return wrong("retry_period must be more than zero".to_owned());
    }
    if lease <= renew {
        return wrong(format!(
            "lease_duration ({lease:?}) must be more than renew_deadline ({renew:?})"
        ));
    }
    // The first comparison bounds the second: a multiplication of `Duration::MAX` would panic.
    if renew <= retry || renew <= retry.mul_f64(JITTER) {
        return wrong(format!(
            "renew_deadline ({renew:?}) must be more than {JITTER} times retry_period ({retry:?})"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lease: u64, renew: u64, retry: u64) -> Result<(), ConfigError> {
        check_timing(
            Duration::from_millis(lease),
            Duration::from_millis(renew),
            Duration::from_millis(retry),
        )
    }

    #[test]
    fn contradicting_timings_are_rejected_with_a_reason() {
        assert_eq!(ElectionConfig::default().check(), Ok(()));
        assert_eq!(config(3000, 2000, 500), Ok(()));

        let refused = |lease, renew, retry| config(lease, renew, retry).unwrap_err().to_string();
        assert!(
            refused(15_000, 15_000, 2000)
                .starts_with("lease_duration (15s) must be more than renew_deadline")
        );
        assert!(refused(15_000, 2400, 2000).starts_with("renew_deadline (2.4s) must be more than 1.2 times"));
        assert!(refused(15_000, 10_000, 0).starts_with("retry_period must be more than zero"));
        assert!(refused(1900, 1000, 500).starts_with("lease_duration (1.9s) must be whole seconds"));
        assert!(refused(0, 0, 0).contains("retry_period"));
    }
}
