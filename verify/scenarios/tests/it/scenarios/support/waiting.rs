//! Waits for named conditions, and runs work concurrently.

use std::future::Future;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use kube_informers_e2e::TIMEOUT;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Polls until the condition returns a value. For server state without notifications.
pub async fn wait_for<T, F>(what: &str, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + TIMEOUT;
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not met after {TIMEOUT:?}");
    }
}

/// Runs the work for each item, at most `at_once` at a time; stops at the first failure.
pub async fn all<I, F, E>(
    at_once: usize,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> F,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut items = items.into_iter();
    let mut running: FuturesUnordered<F> = items.by_ref().take(at_once).map(&work).collect();
    while let Some(done) = running.next().await {
        done?;
        running.extend(items.next().map(&work));
    }
    Ok(())
}
