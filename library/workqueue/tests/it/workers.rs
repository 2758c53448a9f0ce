//! Worker tasks: they end with the queue, survive panics, and lose nothing when aborted.

use crate::{let_others_run, millis};
use kube_workqueue::limiter::ExponentialBackoff;
use kube_workqueue::{Item, WorkQueue, workers};
use std::future::pending;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;

fn queue() -> WorkQueue<u32> {
    WorkQueue::new(ExponentialBackoff::new(millis(10), Duration::from_secs(10)))
}

#[tokio::test(start_paused = true)]
async fn workers_process_everything_and_end_with_the_queue() {
    let queue = queue();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let workers = workers(4, &queue, move |item: Item<u32>| {
        let log = log.clone();
        async move {
            sleep(millis(1)).await;
            log.lock().unwrap().push(*item);
        }
    });
    for key in 0..100 {
        queue.add(key);
    }

    queue.drain().await;
    workers.join().await;

    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_key_is_in_flight_per_worker() {
    let queue = queue();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, max) = (running.clone(), most.clone());
    let workers = workers(3, &queue, move |_item| {
        let (now, max) = (now.clone(), max.clone());
        async move {
            max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(millis(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
        }
    });
    for key in 0..30 {
        queue.add(key);
    }

    queue.drain().await;
    workers.join().await;

    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn panic_ends_one_run_and_the_key_is_retried() {
    let queue = queue();
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let workers = workers(1, &queue, move |item: Item<u32>| {
        let count = count.clone();
        async move {
            tokio::task::yield_now().await;
            if *item == 7 && count.fetch_add(1, Ordering::SeqCst) < 2 {
                panic!("key 7 fails twice");
            }
            Ok::<(), ()>(())
        }
    });
    queue.add(7);
    queue.add(8);

    while runs.load(Ordering::SeqCst) < 3 || queue.stats().running > 0 {
        sleep(millis(1)).await;
    }
    let stats = queue.stats();
    assert_eq!((stats.panics, stats.abandoned, stats.retries), (2, 2, 2));
    assert_eq!(queue.num_requeues(&7), 0, "the third run succeeded");
    assert_eq!(stats.work_duration.count(), 4);
    queue.shutdown();
    workers.join().await;
}

#[tokio::test(start_paused = true)]
async fn panic_before_the_first_await_is_caught() {
    let queue = queue();
    let workers = workers(1, &queue, |item: Item<u32>| {
        assert!(*item != 7, "panics before creating a future for 7");
        async {}
    });
    queue.add(7);
    queue.add(8);
    let_others_run().await;

    let stats = queue.stats();
    assert_eq!((stats.panics, stats.delayed, stats.running), (1, 1, 0));
    queue.shutdown();
    workers.join().await;
}

#[tokio::test(start_paused = true)]
async fn errors_are_retried_until_success() {
    let queue = queue();
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let workers = workers(2, &queue, move |item: Item<u32>| {
        let count = count.clone();
        async move {
            let failures = item.num_requeues();
            assert_eq!(count.fetch_add(1, Ordering::SeqCst), failures);
            if failures < 4 { Err("not yet") } else { Ok(()) }
        }
    });
    queue.add(1);

    sleep(millis(10 + 20 + 40 + 80)).await;
    let_others_run().await;
    assert_eq!(runs.load(Ordering::SeqCst), 5);
    assert_eq!(queue.num_requeues(&1), 0);
    assert_eq!(queue.stats().panics, 0);
    queue.drain().await;
    workers.join().await;
}

#[tokio::test(start_paused = true)]
async fn keys_of_aborted_workers_are_retried() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    let workers = workers(2, &queue, |_item| pending::<()>());
    let_others_run().await;
    assert_eq!(queue.stats().running, 2);

    workers.abort().await;

    let stats = queue.stats();
    assert_eq!((stats.running, stats.delayed, stats.abandoned), (0, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn dropped_workers_are_aborted_and_detached_workers_are_not() {
    let queue = queue();
    drop(workers(2, &queue, |_item| pending::<()>()));
    let_others_run().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);

    workers(2, &queue, |_item| pending::<()>()).detach();
    let_others_run().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 2);
    queue.shutdown();
    let_others_run().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

/// A key whose `Clone` panics.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fragile;

impl Clone for Fragile {
    fn clone(&self) -> Self {
        panic!("cannot be cloned");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_outside_the_work_ends_the_worker_and_reaches_join() {
    let queue = WorkQueue::default();
    queue.add(Fragile);
    let workers = workers(1, &queue, |_item| async {});

    let joined = tokio::spawn(workers.join()).await;

    assert!(joined.unwrap_err().is_panic());
    // No worker received the key, so it is still queued.
    assert_eq!(queue.len(), 1);
}
