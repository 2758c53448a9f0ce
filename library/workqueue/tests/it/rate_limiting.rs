//! Rate-limited adds: a port of client-go's `rate_limiting_queue_test.go`, and the bound on remembered keys.

use crate::{millis, take};
use kube_workqueue::limiter::ExponentialBackoff;
use kube_workqueue::{RateLimiter, WorkQueue};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(ExponentialBackoff::new(millis(1), Duration::from_secs(1)))
}

/// The next key and the time until it was available; finishes it.
async fn next(queue: &WorkQueue<&'static str>) -> (&'static str, Duration) {
    let start = Instant::now();
    let item = queue.get().await.unwrap();
    let key = *item;
    item.done();
    (key, start.elapsed())
}

/// Upstream: TestRateLimitingQueue
#[tokio::test(start_paused = true)]
async fn rate_limited_delays_grow_with_each_failure_until_forgotten() {
    let queue = queue();

    for key in ["one", "two"] {
        queue.add_rate_limited(key);
        let start = Instant::now();
        let item = queue.get().await.unwrap();
        assert_eq!((*item, start.elapsed()), (key, millis(1)));

        queue.add_rate_limited(key);
        item.done();
        assert_eq!(queue.num_requeues(&key), 2);
        let start = Instant::now();
        let item = queue.get().await.unwrap();
        assert_eq!((*item, start.elapsed()), (key, millis(2)));
        assert_eq!(item.num_requeues(), 2);
        item.retry_after(Duration::from_secs(3600));
    }

    queue.forget(&"one");
    assert_eq!(queue.num_requeues(&"one"), 0);
    assert_eq!(queue.num_requeues(&"two"), 2);
    queue.add_rate_limited("one");
    assert_eq!(next(&queue).await, ("one", millis(1)));
}

#[tokio::test(start_paused = true)]
async fn forget_leaves_a_delayed_key_delayed() {
    let queue = queue();
    queue.add_rate_limited("one");
    queue.forget(&"one");
    assert_eq!(next(&queue).await, ("one", millis(1)));
}

#[tokio::test(start_paused = true)]
async fn retry_doubles_the_delay_and_forget_resets_it() {
    let queue = queue();
    queue.add("one");
    for expected in [1, 2, 4, 8] {
        take(&queue).retry();
        let start = Instant::now();
        let item = queue.get().await.unwrap();
        assert_eq!(start.elapsed(), millis(expected));
        item.retry_after(Duration::ZERO);
    }
    assert_eq!(queue.num_requeues(&"one"), 4);

    take(&queue).forget();

    assert_eq!(queue.num_requeues(&"one"), 0);
}

/// Counts failures and reports how many keys it remembers.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<HashMap<u32, u32>>>, Arc<AtomicU32>);

impl Counting {
    fn remembered(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn asked_to_forget(&self) -> u32 {
        self.1.load(Ordering::SeqCst)
    }
}

impl RateLimiter<u32> for Counting {
    fn when(&mut self, item: &u32, _now: Instant) -> Duration {
        *self.0.lock().unwrap().entry(*item).or_default() += 1;
        millis(10)
    }

    fn forget(&mut self, item: &u32) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.lock().unwrap().remove(item);
    }

    fn num_requeues(&self, item: &u32) -> u32 {
        self.0.lock().unwrap().get(item).copied().unwrap_or(0)
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_forgotten_when_the_key_leaves_the_queue() {
    let limiter = Counting::default();
    let queue = WorkQueue::new(limiter.clone());

    // Done without forgetting the failures, and not added again.
    queue.add_rate_limited(1);
    queue.get().await.unwrap().done();
    assert_eq!(limiter.remembered(), 0);

    // Done, but added again while it ran: the count continues, as in client-go.
    queue.add_rate_limited(2);
    let item = queue.get().await.unwrap();
    queue.add_rate_limited(2);
    item.done();
    assert_eq!(queue.num_requeues(&2), 2);

    queue.add_rate_limited(3);
    assert_eq!(limiter.remembered(), 2);
    assert!(queue.cancel_delayed(&3));
    assert_eq!(limiter.remembered(), 1);

    queue.shutdown();
    assert_eq!(limiter.remembered(), 0);
    queue.add_rate_limited(4);
    assert_eq!(limiter.remembered(), 0);
}

#[tokio::test(start_paused = true)]
async fn retry_after_shutdown_is_dropped_with_its_count() {
    let limiter = Counting::default();
    let queue = WorkQueue::new(limiter.clone());
    queue.add(1);
    let item = take(&queue);
    queue.shutdown();

    item.retry();

    assert_eq!(limiter.remembered(), 0);
    assert_eq!(queue.stats().discarded, 1);
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn limiter_forgets_only_keys_it_was_called_for() {
    let limiter = Counting::default();
    let queue = WorkQueue::new(limiter.clone());
    queue.add_rate_limited(1);
    queue.get().await.unwrap().forget();
    assert_eq!(limiter.asked_to_forget(), 1);

    for key in 2..100 {
        queue.add(key);
        take(&queue).forget();
    }

    assert_eq!(limiter.asked_to_forget(), 1);
}

#[tokio::test(start_paused = true)]
async fn success_forgets_failures_of_a_key_that_is_queued_again() {
    let queue = queue();
    queue.add_rate_limited("one");
    let item = queue.get().await.unwrap();
    queue.add("one");
    assert_eq!(item.num_requeues(), 1);

    item.forget();

    assert_eq!(queue.len(), 1);
    assert_eq!(queue.num_requeues(&"one"), 0);
}
