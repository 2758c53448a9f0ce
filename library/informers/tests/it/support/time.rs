//! Virtual time.

use std::time::Duration;

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Advances the virtual time. The paused clock advances only while no task can run.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
