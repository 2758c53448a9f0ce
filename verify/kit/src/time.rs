//! Virtual time.

use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// The virtual time after which a condition counts as never met.
const TIMEOUT: Duration = minutes(5);

/// Milliseconds.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Minutes.
pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Advances the virtual time. The paused clock advances only while no task can run.
pub async fn pass(time: Duration) {
    sleep(time).await;
}

/// Runs all tasks that can run now.
pub async fn settle() {
    pass(ms(1)).await;
}

/// The output of `future`.
///
/// # Panics
///
/// After five virtual minutes.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(TIMEOUT, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not met after five minutes"),
    }
}

/// Waits until a condition holds, checking every 10 ms of virtual time.
///
/// # Panics
///
/// If it does not hold within five virtual minutes.
#[track_caller]
pub fn wait_for<'a>(what: &'a str, condition: impl Fn() -> bool + 'a) -> impl Future<Output = ()> + 'a {
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + TIMEOUT;
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "{what}: not met after five minutes ({caller})"
            );
            pass(ms(10)).await;
        }
    }
}
