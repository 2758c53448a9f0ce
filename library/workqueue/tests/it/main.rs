//! Behaviour of the work queue. One binary, so that it links once.
#![allow(clippy::disallowed_methods, reason = "tests spawn tasks and await them")]

mod delaying;
mod extremes;
mod faults;
mod hammer;
mod item;
mod metrics;
mod model;
mod parallel;
mod priority;
mod queue;
mod rate_limiting;
mod shutdown;
mod waiters;
mod workers;

use kube_workqueue::{Item, Key, WorkQueue};
use std::fmt::Debug;
use std::time::Duration;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Lets every ready task run. On a current-thread runtime one turn polls each ready task once; a few turns let them
/// react to each other.
async fn let_others_run() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Takes a key that must be queued.
#[track_caller]
fn take<T: Key + Debug>(queue: &WorkQueue<T>) -> Item<T> {
    queue.try_get().expect("a key should be queued")
}

/// Takes and finishes all queued keys; returns them in order.
fn drain<T: Key>(queue: &WorkQueue<T>) -> Vec<T> {
    std::iter::from_fn(|| {
        let item = queue.try_get()?;
        let key = (*item).clone();
        item.forget();
        Some(key)
    })
    .collect()
}
