//! Durations and rates at the ends of their ranges: no public function panics.

use kube_workqueue::limiter::{
    Bucket, ExponentialBackoff, FastSlow, MaxOf, MaxWait, RateLimiter, item_default,
};
use kube_workqueue::{AddOptions, Priority, Verdict, WorkQueue};
use std::time::Duration;
use tokio::time::Instant;

use super::{let_others_run, millis};

const DURATIONS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(u64::MAX / 2),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

const RATES: [f64; 10] = [
    f64::NAN,
    f64::NEG_INFINITY,
    f64::MIN,
    -1.0,
    -0.0,
    0.0,
    f64::MIN_POSITIVE,
    1.0,
    f64::MAX,
    f64::INFINITY,
];

/// Every limiter that can be made of two durations and a rate.
fn limiters(first: Duration, second: Duration, rate: f64) -> Vec<Box<dyn RateLimiter<u32>>> {
    let mut limiters: Vec<Box<dyn RateLimiter<u32>>> = Vec::new();
    for count in [0, 1, u32::MAX] {
        limiters.push(Box::new(FastSlow::new(first, second, count)));
        limiters.push(Box::new(Bucket::new(rate, count)));
        limiters.push(Box::new(MaxWait::new(Bucket::new(rate, count), first)));
    }
    limiters.push(Box::new(ExponentialBackoff::new(first, second)));
    limiters.push(Box::new(
        MaxOf::new()
            .and(ExponentialBackoff::new(second, first))
            .and(Bucket::new(rate, 1)),
    ));
    limiters
}

#[tokio::test(start_paused = true)]
async fn no_limiter_panics_on_any_duration_or_rate() {
    let now = Instant::now();
    for first in DURATIONS {
        for second in DURATIONS {
            for rate in RATES {
                for mut limiter in limiters(first, second, rate) {
                    for attempt in 0..70 {
                        limiter.when(&0, now + Duration::from_secs(attempt % 3));
                    }
                    limiter.forget(&0);
                    assert_eq!(limiter.num_requeues(&0), 0);
                }
            }
        }
    }
}

/// A queue takes any delay, from the caller or from its limiter: zero runs at once, the longest stays delayed.
#[tokio::test(start_paused = true)]
async fn queue_accepts_any_delay() {
    for delay in DURATIONS {
        let queue = WorkQueue::builder()
            .limiter(FastSlow::new(delay, delay, 1))
            .build();
        queue.add_after("after", delay);
        queue.add_with("with", AddOptions::new().priority(Priority::HIGH).after(delay));
        queue.add_rate_limited("limited");
        queue.add("retried");
        let_others_run().await;
        // What has no delay is ready before the key that is retried.
        while let Some(item) = queue.try_get() {
            if *item == "retried" {
                item.retry_after(delay);
                break;
            }
            item.finish(Verdict::Done);
        }
        tokio::time::sleep(millis(10)).await;

        let stats = queue.stats();
        match delay > millis(10) {
            true => assert_eq!((stats.depth, stats.delayed), (0, 4), "{delay:?}"),
            false => assert_eq!(stats.delayed, 0, "{delay:?}"),
        }
        queue.shutdown();
    }
}

#[tokio::test(start_paused = true)]
async fn drain_accepts_any_limit() {
    for limit in DURATIONS {
        let queue = WorkQueue::new(item_default());
        queue.add("cart");
        let item = queue.get().await.unwrap();
        let draining = tokio::spawn({
            let queue = queue.clone();
            async move { queue.drain_within(limit).await }
        });
        tokio::time::sleep(millis(10)).await;
        item.forget();

        let drained = draining.await.unwrap();
        assert_eq!(drained.is_ok(), limit > millis(10), "{limit:?}: {drained:?}");
    }
}
