//! The guard of a key: how a run ends, with and without a verdict.

use crate::{drain, let_others_run, millis, take};
use kube_workqueue::limiter::ExponentialBackoff;
use kube_workqueue::{RateLimiter, Verdict, WorkQueue};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::time::{Instant, advance, timeout};

/// First retry after 10 ms.
fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(ExponentialBackoff::new(millis(10), Duration::from_secs(10)))
}

/// Asserts that `key` is not queued now but retried after the limiter's delay for `failures` failures.
async fn assert_retried(queue: &WorkQueue<&'static str>, key: &'static str, failures: u32) {
    assert_eq!((queue.len(), queue.stats().running), (0, 0));
    assert_eq!(queue.num_requeues(&key), failures);
    let start = Instant::now();
    let item = queue.get().await.unwrap();
    assert_eq!((*item, start.elapsed()), (key, millis(10 << (failures - 1))));
    item.forget();
}

async fn assert_gone(queue: &WorkQueue<&'static str>) {
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.running, stats.delayed), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn every_verdict_ends_the_run() {
    let queue = queue();
    for verdict in [Verdict::Done, Verdict::Forget, Ok::<(), ()>(()).into(), ().into()] {
        queue.add("foo");
        take(&queue).finish(verdict);
        assert_gone(&queue).await;
    }

    queue.add("foo");
    take(&queue).finish(Verdict::RetryAfter(millis(3)));
    advance(millis(3)).await;
    take(&queue).finish(Err::<(), _>("no"));
    assert_retried(&queue, "foo", 1).await;
    assert_eq!(queue.stats().abandoned, 0);
}

#[tokio::test(start_paused = true)]
async fn item_dropped_without_a_verdict_is_retried_rate_limited() {
    let queue = queue();
    queue.add("foo");

    drop(take(&queue));

    assert_eq!(queue.stats().abandoned, 1);
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn item_dropped_by_a_panic_is_retried_rate_limited() {
    let queue = queue();
    queue.add("foo");

    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _item = take(&queue);
        panic!("while working on foo");
    }));

    assert!(panic.is_err());
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn item_of_a_cancelled_future_is_retried_rate_limited() {
    let queue = queue();
    queue.add("foo");

    let cancelled = timeout(millis(1), async {
        let _item = queue.get().await;
        pending::<()>().await;
    });

    assert!(cancelled.await.is_err());
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn item_of_an_aborted_task_is_retried_rate_limited() {
    let queue = queue();
    queue.add("foo");
    let task = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await;
            pending::<()>().await;
        }
    });
    let_others_run().await;
    assert_eq!(queue.stats().running, 1);

    task.abort();

    assert!(task.await.unwrap_err().is_cancelled());
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn item_is_retried_after_an_early_return() {
    async fn worker(queue: &WorkQueue<&'static str>) -> Result<(), &'static str> {
        let item = queue.get().await.ok_or("shut down")?;
        Err("no connection")?;
        item.forget();
        Ok(())
    }
    let queue = queue();
    queue.add("foo");

    assert!(worker(&queue).await.is_err());

    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn abandoned_key_added_meanwhile_runs_for_both() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    queue.add("foo");

    drop(item);

    assert_eq!(queue.len(), 1);
    take(&queue).done();
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn process_uses_the_output_as_the_verdict() {
    let queue = queue();

    queue.add("unit");
    assert!(queue.process(async |_item| {}).await);
    assert_gone(&queue).await;

    queue.add("ok");
    assert!(queue.process(async |_item| Ok::<(), ()>(())).await);
    assert_gone(&queue).await;

    queue.add("verdict");
    assert!(queue.process(async |_item| Verdict::RetryAfter(millis(3))).await);
    advance(millis(3)).await;
    assert_eq!(drain(&queue), ["verdict"]);

    queue.add("err");
    assert!(queue.process(async |_item| Err::<(), _>("no")).await);
    assert_retried(&queue, "err", 1).await;

    assert_eq!(queue.stats().abandoned, 0);
    queue.shutdown();
    assert!(!queue.process(async |_item| {}).await);
}

#[tokio::test(start_paused = true)]
async fn verdict_of_the_item_precedes_the_output_of_process() {
    let queue = queue();
    queue.add("foo");
    queue.process(async |item| item.retry()).await;
    assert_retried(&queue, "foo", 1).await;

    queue.add("bar");
    queue
        .process(async |item| {
            item.forget();
            Err::<(), _>("said too late")
        })
        .await;
    assert_gone(&queue).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_process_retries_the_key() {
    let queue = queue();
    queue.add("foo");

    let cancelled = timeout(millis(1), queue.process(async |_item| pending::<()>().await));

    assert!(cancelled.await.is_err());
    assert_eq!(queue.stats().abandoned, 1);
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn process_cancelled_while_waiting_takes_no_key() {
    let queue = queue();
    assert!(timeout(millis(1), queue.process(async |_item| {})).await.is_err());
    queue.add("foo");
    assert_eq!(drain(&queue), ["foo"]);
}

#[tokio::test(start_paused = true)]
async fn item_passed_on_stays_with_its_new_holder() {
    let queue = queue();
    let mut kept = None;
    queue.add("foo");

    queue.process(async |item| kept = Some(item)).await;

    // Still in flight: no other worker receives the key.
    queue.add("foo");
    assert_eq!((queue.len(), queue.stats().running), (0, 1));
    kept.take().unwrap().forget();
    assert_eq!(drain(&queue), ["foo"]);

    // Dropping it in the new holder has the usual effect.
    queue.add("foo");
    queue.process(async |item| kept = Some(item)).await;
    drop(kept);
    assert_retried(&queue, "foo", 1).await;
}

#[tokio::test(start_paused = true)]
async fn item_outlives_its_queue_handles() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    drop(queue);

    assert_eq!(*item, "foo");
    item.retry();
}

struct Undecided;

impl From<Undecided> for Verdict {
    fn from(_: Undecided) -> Self {
        panic!("no verdict");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_while_converting_the_output_loses_no_key() {
    let queue = queue();
    queue.add("foo");
    let task = tokio::spawn({
        let queue = queue.clone();
        async move { queue.process(async |_item| Undecided).await }
    });

    assert!(task.await.unwrap_err().is_panic());

    assert_retried(&queue, "foo", 1).await;
}

struct Broken;

impl RateLimiter<&'static str> for Broken {
    fn when(&mut self, _item: &&'static str, _now: Instant) -> Duration {
        panic!("the limiter is broken");
    }

    fn forget(&mut self, _item: &&'static str) {}

    fn num_requeues(&self, _item: &&'static str) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_limiter_loses_no_key() {
    let queue = WorkQueue::new(Broken);

    // A verdict: the panic reaches the caller.
    queue.add("foo");
    let item = take(&queue);
    assert!(catch_unwind(AssertUnwindSafe(|| item.retry())).is_err());
    assert_eq!(queue.stats().delayed, 1);
    assert_eq!(queue.stats().abandoned, 0, "it had a verdict");
    assert_eq!(*queue.get().await.unwrap(), "foo");

    // A drop, even during a panic: it must not abort the process.
    let panic = catch_unwind(AssertUnwindSafe(|| {
        queue.add("bar");
        let _item = take(&queue);
        panic!("while working on bar");
    }));
    assert!(panic.is_err());
    let start = Instant::now();
    assert_eq!(*queue.get().await.unwrap(), "foo");
    assert_eq!(*queue.get().await.unwrap(), "bar");
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test]
async fn debug_output_names_the_key_of_an_item_but_not_the_keys_of_a_queue() {
    let queue = queue();
    queue.add("secret-looking-key");
    assert!(!format!("{queue:?}").contains("secret"));
    assert_eq!(format!("{:?}", take(&queue)), r#"Item("secret-looking-key")"#);
}
