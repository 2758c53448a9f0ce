//! The catalogued faults of work queues.

use crate::{drain, let_others_run, millis, take};
use kube_workqueue::limiter::ExponentialBackoff;
use kube_workqueue::sim::{Finished, QueueMachine};
use kube_workqueue::{Priority, WorkQueue, workers};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, advance, sleep};

#[tokio::test(start_paused = true)]
async fn f43_drain_waits_for_queued_keys_and_keys_in_flight() {
    let queue = WorkQueue::default();
    queue.add("queued");
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    let_others_run().await;
    assert!(
        !drain.is_finished(),
        "a key is queued, although none is in flight"
    );

    let item = take(&queue);
    let_others_run().await;
    assert!(!drain.is_finished());
    item.done();

    drain.await.unwrap();
}

#[test]
fn f43_finished_run_cannot_finish_again_and_queue_its_key_twice() {
    let now = Instant::now();
    let mut state = QueueMachine::new(0, true);
    state.add("foo", Priority::NORMAL, now);
    let first = state.take(now).unwrap();
    state.add("foo", Priority::NORMAL, now);
    state.finish(first.run, None, now);
    assert_eq!(state.ready(), 1);

    // Queued, then in flight in another worker: the old run has no effect.
    assert_eq!(state.finish(first.run, None, now), Finished::Unknown);
    let second = state.take(now).unwrap();
    assert_eq!(state.finish(first.run, None, now), Finished::Unknown);

    assert_eq!((state.ready(), state.running()), (0, 1));
    assert!(matches!(state.finish(second.run, None, now), Finished::Gone(_)));
}

#[tokio::test(start_paused = true)]
async fn f43_one_waiter_wakes_per_key() {
    let queue = WorkQueue::default();
    let got = Arc::new(Mutex::new(Vec::new()));
    let log = got.clone();
    let workers = workers(10, &queue, move |item: kube_workqueue::Item<u32>| {
        log.lock().unwrap().push(*item);
        std::future::pending::<()>()
    });
    let_others_run().await;

    // All at once, before any worker can run: each key needs its own waiter.
    for key in 0..10 {
        queue.add(key);
    }
    let_others_run().await;

    assert_eq!(*got.lock().unwrap(), (0..10).collect::<Vec<_>>());
    workers.abort().await;
}

#[tokio::test(start_paused = true)]
async fn f43_nothing_runs_after_a_shutdown() {
    let queue = WorkQueue::default();
    queue.add_after("foo", Duration::from_secs(60));
    let workers = workers(3, &queue, |_item| sleep(millis(1)));
    let_others_run().await;
    let start = Instant::now();

    queue.drain().await;
    workers.join().await;

    assert_eq!(start.elapsed(), Duration::ZERO, "no worker waits for a heartbeat");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn f44_repeated_delays_of_a_key_keep_one_entry() {
    let queue = WorkQueue::default();
    for n in 0..10_000u64 {
        queue.add_after("foo", millis(10_000 + n));
        queue.add_after("foo", millis(20_000 - n));
    }

    assert_eq!(queue.stats().delayed, 1);
    advance(millis(10_001)).await;
    assert_eq!(drain(&queue), ["foo"]);
    assert_eq!(queue.stats().delayed, 0);
}

#[tokio::test(start_paused = true)]
async fn f44_failure_counts_do_not_outlive_their_keys() {
    let queue = WorkQueue::new(ExponentialBackoff::new(millis(1), millis(1)));
    for key in 0..10_000 {
        queue.add(key);
        // Fails once and is never forgotten explicitly.
        take(&queue).retry();
        assert_eq!(queue.num_requeues(&key), 1);
        queue.get().await.unwrap().done();
        assert_eq!(queue.num_requeues(&key), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn f45_failing_key_backs_off() {
    let queue = WorkQueue::default();
    let runs = Arc::new(Mutex::new(0u32));
    let count = runs.clone();
    let workers = workers(2, &queue, move |_item| {
        *count.lock().unwrap() += 1;
        async { Err::<(), _>("always") }
    });
    queue.add("failing");

    sleep(Duration::from_secs(60)).await;

    // 5 ms × (2ⁿ − 1) < 60 s: fourteen runs, not thousands.
    assert_eq!(*runs.lock().unwrap(), 14);
    queue.shutdown();
    workers.join().await;
}

#[tokio::test(start_paused = true)]
async fn f45_relist_does_not_delay_fresh_changes() {
    let queue = WorkQueue::default();
    let done = Arc::new(Mutex::new(Vec::new()));
    let log = done.clone();
    let workers = workers(1, &queue, move |item: kube_workqueue::Item<u32>| {
        let log = log.clone();
        async move {
            sleep(millis(1)).await;
            log.lock().unwrap().push((*item, Instant::now()));
        }
    });
    for key in 0..10_000 {
        queue.add_with(key, Priority::LOW);
    }
    sleep(millis(100)).await;

    let changed = Instant::now();
    queue.add(77_777);
    sleep(millis(5)).await;

    let done = done.lock().unwrap().clone();
    let fresh = done
        .iter()
        .find(|(key, _)| *key == 77_777)
        .map(|(_, at)| *at - changed);
    assert!(fresh.is_some_and(|waited| waited <= millis(2)), "{fresh:?}");
    workers.abort().await;
}

#[tokio::test(start_paused = true)]
async fn f45_keys_of_one_priority_are_fifo() {
    let queue = WorkQueue::default();
    for key in 0..100 {
        queue.add(key);
    }
    // Key 0 is added again after each run; it must queue up like all others.
    let mut order = Vec::new();
    for _ in 0..150 {
        let item = take(&queue);
        order.push(*item);
        if *item == 0 {
            queue.add(0);
        }
        item.done();
    }

    assert_eq!(order[..100], (0..100).collect::<Vec<_>>());
    assert_eq!(order[100..], [0; 50]);
}
