//! Timings at the ends of their ranges: they are rejected with a reason, or they work. Nothing panics.

use std::time::Duration;

use kube_leases::{ConfigError, Election, ElectionConfig, LeaseName, ShardConfig, ShardGroup};
use kube_testserver::TestServer;
use tokio::time::{sleep, timeout};

/// The longest that the API can state.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

const DURATIONS: [Duration; 9] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_millis(1),
    Duration::from_secs(1),
    Duration::from_secs(i32::MAX as u64 - 1),
    LONGEST,
    Duration::from_secs(i32::MAX as u64 + 1),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

/// Every combination of a lease duration, a renew deadline and a retry period.
fn timings() -> impl Iterator<Item = (Duration, Duration, Duration)> {
    let pairs = DURATIONS
        .into_iter()
        .flat_map(|lease| DURATIONS.map(|renew| (lease, renew)));
    pairs.flat_map(|(lease, renew)| DURATIONS.map(|retry| (lease, renew, retry)))
}

fn assert_refused(error: &ConfigError, lease: Duration, renew: Duration, retry: Duration) {
    let sane = lease <= LONGEST && lease > renew && renew > retry.saturating_mul(2) && !retry.is_zero();
    assert!(matches!(error, ConfigError::Timing(_)), "{error}");
    assert!(
        !sane || lease.subsec_nanos() != 0,
        "{lease:?}, {renew:?}, {retry:?}: {error}"
    );
}

#[tokio::test(start_paused = true)]
async fn election_accepts_or_rejects_any_timing() {
    let mut accepted = 0;
    for (lease, renew, retry) in timings() {
        let server = TestServer::new();
        let election = Election::new(server.client(), LeaseName::new("shop", "cart"), "first");
        let config = ElectionConfig {
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
            ..ElectionConfig::default()
        };
        match election.config(config).start() {
            Err(error) => assert_refused(&error, lease, renew, retry),
            Ok(candidate) => {
                accepted += 1;
                let leadership = timeout(Duration::from_secs(60), candidate.leading()).await;
                let leadership = leadership.expect("it leads").unwrap();
                leadership.deadline();
                sleep(Duration::from_millis(20)).await;
                assert!(
                    candidate.last_error().is_none(),
                    "{lease:?}, {renew:?}, {retry:?}"
                );
                candidate.shutdown().await;
            }
        }
    }
    assert!(accepted >= 10, "{accepted}");
}

#[tokio::test(start_paused = true)]
async fn shard_group_accepts_or_rejects_any_timing() {
    let mut accepted = 0;
    for (lease, renew, retry) in timings() {
        let server = TestServer::new();
        let config = ShardConfig {
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
        };
        let group = ShardGroup::new(server.client(), "shop", "cart", "first").config(config);
        match group.start() {
            Err(error) => assert_refused(&error, lease, renew, retry),
            Ok(member) => {
                accepted += 1;
                sleep(Duration::from_millis(20)).await;
                assert!(member.last_error().is_none(), "{lease:?}, {renew:?}, {retry:?}");
                member.shutdown().await;
            }
        }
    }
    assert!(accepted >= 10, "{accepted}");
}
