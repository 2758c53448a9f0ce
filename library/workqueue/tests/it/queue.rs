//! The basic rules of the queue: ports of client-go's `queue_test.go`.

use crate::{drain, let_others_run, millis, take};
use kube_workqueue::{Priority, WorkQueue};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug)]
enum Stop {
    ShutDown,
    Drain,
}

impl Stop {
    async fn stop(self, queue: &WorkQueue<u32>) {
        match self {
            Stop::ShutDown => queue.shutdown(),
            Stop::Drain => queue.drain().await,
        }
    }
}

const ADDED_AFTER_SHUTDOWN: u32 = 1000;

/// Upstream: TestBasic
#[tokio::test(start_paused = true)]
async fn producers_and_consumers_drain_the_queue_and_adds_after_shutdown_are_ignored() {
    for stop in [Stop::ShutDown, Stop::Drain] {
        let queue = WorkQueue::default();

        let mut producers = JoinSet::new();
        for key in 0..50 {
            let queue = queue.clone();
            producers.spawn(async move {
                for _ in 0..50 {
                    queue.add(key);
                    sleep(millis(1)).await;
                }
            });
        }
        let mut consumers = JoinSet::new();
        for _ in 0..10 {
            let queue = queue.clone();
            consumers.spawn(async move {
                let mut seen = Vec::new();
                while let Some(item) = queue.get().await {
                    sleep(millis(3)).await;
                    seen.push(*item);
                    item.done();
                }
                seen
            });
        }

        producers.join_all().await;
        stop.stop(&queue).await;
        queue.add(ADDED_AFTER_SHUTDOWN);
        let seen: Vec<u32> = consumers.join_all().await.into_iter().flatten().collect();

        assert!((0..50).all(|key| seen.contains(&key)), "{stop:?}");
        assert!(!seen.contains(&ADDED_AFTER_SHUTDOWN), "{stop:?}");
        assert_eq!(queue.len(), 0, "{stop:?}");
    }
}

/// Upstream: TestAddWhileProcessing
#[tokio::test(start_paused = true)]
async fn keys_added_by_their_workers_run_again_with_either_shutdown() {
    for stop in [Stop::ShutDown, Stop::Drain] {
        let queue = WorkQueue::default();

        let mut producers = JoinSet::new();
        for key in 0..50 {
            let queue = queue.clone();
            producers.spawn(async move { queue.add(key) });
        }
        let mut consumers = JoinSet::new();
        for _ in 0..10 {
            let queue = queue.clone();
            consumers.spawn(async move {
                let mut counters: HashMap<u32, u32> = HashMap::new();
                while let Some(item) = queue.get().await {
                    let counter = counters.entry(*item).or_default();
                    *counter += 1;
                    if *counter < 2 {
                        queue.add(*item);
                    }
                    item.done();
                    tokio::task::yield_now().await;
                }
                counters
            });
        }

        producers.join_all().await;
        stop.stop(&queue).await;
        let mut runs: HashMap<u32, u32> = HashMap::new();
        for (key, count) in consumers.join_all().await.into_iter().flatten() {
            *runs.entry(key).or_default() += count;
        }

        assert_eq!(runs.len(), 50, "{stop:?}");
        assert_eq!(queue.len(), 0, "{stop:?}");
    }
}

/// Upstream: TestLen
#[tokio::test]
async fn len_counts_each_queued_key_once() {
    let queue = WorkQueue::default();

    queue.add("foo");
    assert_eq!(queue.len(), 1);
    queue.add("bar");
    assert_eq!(queue.len(), 2);
    queue.add("foo");
    assert_eq!(queue.len(), 2);
}

/// Upstream: TestReinsert
#[tokio::test]
async fn key_added_while_in_flight_is_queued_after_done() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let first = queue.get().await.unwrap();
    assert_eq!(*first, "foo");

    queue.add("foo");
    assert_eq!(queue.len(), 0);
    first.done();

    let second = queue.get().await.unwrap();
    assert_eq!(*second, "foo");
    second.done();
    assert_eq!(queue.len(), 0);
}

/// Upstream: TestCollapse
///
/// Upstream also asserts that its pluggable order is notified of the second add (`Touch`). Here the order is built in,
/// and a second add can only raise the priority.
#[tokio::test]
async fn key_added_twice_is_delivered_once_and_can_be_raised() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.add_with("bar", Priority::LOW);
    queue.add_with("bar", Priority::HIGH);

    assert_eq!(drain(&queue), ["bar", "foo"]);
    assert_eq!(queue.len(), 0);
}

/// Upstream: TestCollapseWhileProcessing
#[tokio::test]
async fn adds_while_in_flight_collapse_into_one_run() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let first = queue.get().await.unwrap();

    queue.add("foo");
    queue.add("foo");
    let finished = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn({
        let (queue, finished) = (queue.clone(), finished.clone());
        async move {
            let second = queue.get().await.unwrap();
            assert_eq!(*second, "foo");
            second.done();
            finished.store(true, Ordering::SeqCst);
        }
    });

    let_others_run().await;
    assert!(
        !finished.load(Ordering::SeqCst),
        "the second worker must wait for the first"
    );
    // Nothing is queued yet, so the second add cannot affect the order.
    assert_eq!(queue.len(), 0);
    first.done();
    worker.await.unwrap();
    assert_eq!(queue.len(), 0);
}

/// Upstream: TestQueueDrainageUsingShutDownWithDrain
#[tokio::test]
async fn drain_waits_for_keys_in_flight() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.add("bar");
    let first = take(&queue);
    let second = take(&queue);

    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    assert!(queue.get().await.is_none());

    first.done();
    let_others_run().await;
    assert!(!drain.is_finished());
    second.done();
    drain.await.unwrap();
}

/// Upstream: TestNoQueueDrainageUsingShutDown
#[tokio::test]
async fn shutdown_does_not_wait_for_keys_in_flight() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.add("bar");
    let _first = take(&queue);
    let _second = take(&queue);

    queue.shutdown();

    assert!(queue.is_shutting_down());
    assert!(queue.get().await.is_none());
}

/// Upstream: TestForceQueueShutdownUsingShutDown
#[tokio::test]
async fn shutdown_ends_a_waiting_drain() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.add("bar");
    let _first = take(&queue);
    let _second = take(&queue);
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    assert!(queue.get().await.is_none());
    assert!(!drain.is_finished());

    queue.shutdown();

    drain.await.unwrap();
}

/// Upstream: TestQueueDrainageUsingShutDownWithDrainWithDirtyItem
#[tokio::test]
async fn drain_delivers_a_key_added_while_in_flight() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let gotten = take(&queue);
    queue.add("foo");
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    let_others_run().await;
    assert!(queue.get().await.is_none());

    gotten.done();

    let again = queue
        .get()
        .await
        .expect("the key was added again before the shutdown");
    let_others_run().await;
    assert!(!drain.is_finished());
    again.done();
    assert!(queue.get().await.is_none());
    drain.await.unwrap();
}

/// Upstream: TestGarbageCollection
#[tokio::test]
async fn finished_key_is_dropped() {
    let queue = WorkQueue::default();
    let key = Arc::new("hello");
    let watched = Arc::downgrade(&key);

    queue.add(key);
    assert_eq!(watched.strong_count(), 1);
    take(&queue).done();

    assert_eq!(watched.strong_count(), 0);
    drop(queue);
}

#[tokio::test]
async fn duplicate_key_is_dropped_at_once() {
    let queue = WorkQueue::default();
    let key = Arc::new("hello");

    queue.add(key.clone());
    queue.add(key.clone());
    queue.add_after(key.clone(), millis(1));

    assert_eq!(Arc::strong_count(&key), 2);
}
