//! Shutdown, beyond client-go's tests.

use crate::{let_others_run, millis, take};
use kube_workqueue::{WorkQueue, workers};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn workers_process_queued_keys_before_get_returns_none() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.add("bar");

    queue.shutdown();

    assert_eq!(*queue.get().await.unwrap(), "foo");
    assert_eq!(*queue.get().await.unwrap(), "bar");
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_every_waiting_worker() {
    let queue = WorkQueue::<u32>::default();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    let_others_run().await;
    assert_eq!(queue.stats().waiting_workers, 20);

    queue.shutdown();

    for task in tasks {
        assert!(task.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_are_dropped_by_a_shutdown_and_counted() {
    let queue = WorkQueue::default();
    queue.add_after("foo", millis(10));
    queue.add_after("bar", millis(20));
    queue.add("bar");

    queue.drain().await_with_worker(&queue).await;

    let stats = queue.stats();
    assert_eq!((stats.delayed, stats.discarded), (0, 2));
    queue.add("late");
    queue.add_after("late", millis(1));
    assert_eq!(queue.stats().discarded, 4);
    assert!(queue.get().await.is_none());
}

/// Awaits a drain while a worker processes the queue.
trait WithWorker: Future<Output = ()> + Sized {
    async fn await_with_worker(self, queue: &WorkQueue<&'static str>) {
        let work = async { while queue.process(async |_item| {}).await {} };
        tokio::join!(self, work);
    }
}

impl<F: Future<Output = ()>> WithWorker for F {}

#[tokio::test(start_paused = true)]
async fn drain_of_an_idle_queue_returns_at_once() {
    let queue = WorkQueue::<u32>::default();
    queue.add_after(1, millis(10));
    let start = Instant::now();
    queue.drain().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn drain_after_shutdown_waits() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let item = take(&queue);
    queue.shutdown();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    let_others_run().await;
    assert!(!drain.is_finished());

    item.done();

    drain.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancelled_drain_leaves_the_queue_shut_down() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let drain = tokio::time::timeout(millis(1), queue.drain());
    assert!(drain.await.is_err());
    assert!(queue.is_shutting_down());
    take(&queue).done();
    queue.drain().await;
}

#[tokio::test(start_paused = true)]
async fn drain_within_drains_before_the_timeout() {
    let queue = WorkQueue::default();
    let workers = workers(2, &queue, |_item| sleep(millis(10)));
    for key in 0..10 {
        queue.add(key);
    }

    assert_eq!(queue.drain_within(Duration::from_secs(1)).await, Ok(()));

    assert_eq!(queue.stats().discarded, 0);
    workers.join().await;
}

#[tokio::test(start_paused = true)]
async fn drain_within_drops_queued_keys_at_the_timeout() {
    let queue = WorkQueue::default();
    let workers = workers(2, &queue, |_item| sleep(millis(10)));
    let start = Instant::now();
    for key in 0..10 {
        queue.add(key);
    }
    let_others_run().await;
    queue.add(0);
    queue.add_after(1, millis(1));

    let undrained = queue.drain_within(millis(25)).await.unwrap_err();

    // Key 0 was added again while it ran, so there were eleven runs to do. Three rounds of two have started.
    assert_eq!((undrained.queued, undrained.running), (5, 2));
    assert_eq!(
        undrained.to_string(),
        "work queue not drained: 5 keys queued, 2 in flight"
    );
    assert_eq!(start.elapsed(), millis(25));
    workers.join().await;
    assert_eq!(start.elapsed(), millis(30));
    assert_eq!(queue.stats().discarded, 6);
}

#[tokio::test(start_paused = true)]
async fn drain_within_drops_the_second_run_of_a_key_in_flight() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let item = take(&queue);
    queue.add("foo");

    let undrained = queue.drain_within(millis(1)).await.unwrap_err();

    assert_eq!((undrained.queued, undrained.running), (1, 1));
    item.done();
    assert!(queue.get().await.is_none());
    assert_eq!(queue.stats().depth, 0);
}
