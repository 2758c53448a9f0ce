//! client-go's `synctrack_test.go`, as far as the sync of a queue is concerned: the list has arrived, and all of its
//! entries have been processed. The progress of a handler is tracked by its registration.

use std::sync::Arc;

use futures_util::FutureExt;
use kube_informers::delta::Delta;
use kube_informers::handler::SyncTracker;
use kube_informers_classic::DeltaFifo;
use tokio::task::JoinSet;

use crate::queue_support::{Held, Thing, accept, fine, replaced, try_pop};

/// Whether the queue is synced. Asserts that the method and the future agree.
fn synced(queue: &DeltaFifo<Thing>) -> bool {
    let method = queue.has_synced();
    let future = queue.synced().now_or_never().is_some();
    assert_eq!(method, future, "method and future disagree");
    method
}

/// Upstream: TestBasicLogic
#[test]
fn synced_only_after_the_list_has_arrived_and_been_processed() {
    // An entry is started and finished, and no list has arrived.
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1)]));
    accept(&queue, [Delta::SyncAll]);
    assert!(!synced(&queue));
    let batch = try_pop(&queue, 1).unwrap();
    assert!(!synced(&queue));
    batch.done();
    assert!(!synced(&queue));

    // The list has arrived, an entry is started and then finished.
    let queue = DeltaFifo::new();
    accept(&queue, [replaced(&[("foo", 1)])]);
    assert!(!synced(&queue));
    let batch = try_pop(&queue, 1).unwrap();
    assert!(!synced(&queue));
    batch.done();
    assert!(synced(&queue));
}

/// Upstream: TestBasicLogic
#[test]
fn tracker_is_synced_when_its_upstream_is_and_all_work_is_finished() {
    for (start, finish, upstream, expected) in [
        (false, false, true, true),
        (true, false, true, false),
        (true, true, true, true),
        (false, false, false, false),
        (true, false, false, false),
        (true, true, false, false),
    ] {
        let tracker = SyncTracker::new();
        if start {
            tracker.start("key");
        }
        if upstream {
            tracker.upstream_synced();
        }
        if finish {
            tracker.finished("key");
        }
        assert_eq!(tracker.has_synced(), expected, "{start} {finish} {upstream}");
        assert_eq!(tracker.synced().now_or_never().is_some(), expected);
    }
}

/// Upstream: TestAsyncLocking
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tracker_counts_work_that_is_started_and_finished_concurrently() {
    let tracker = Arc::new(SyncTracker::new());
    for key in 0..11 {
        tracker.start(key);
        tracker.start(key);
    }
    assert_eq!(tracker.pending(), 11);
    tracker.upstream_synced();
    let waiting = tokio::task::spawn_blocking({
        let (tracker, runtime) = (tracker.clone(), tokio::runtime::Handle::current());
        move || runtime.block_on(tracker.synced())
    });
    let mut workers = JoinSet::new();
    for key in 0..11 {
        let tracker = tracker.clone();
        workers.spawn(async move {
            // A worker need not know which keys are initial.
            tracker.finished(&(key + 100));
            assert!(!tracker.has_synced());
            tracker.finished(&key);
        });
    }
    workers.join_all().await;
    waiting.await.unwrap();
    assert!(tracker.has_synced());

    // Once synced, it stays synced.
    tracker.start(12);
    assert!(tracker.has_synced());
}

/// Upstream: TestSingleFile
#[test]
fn synced_after_every_started_item_is_finished() {
    for finish in [false, true] {
        let queue = DeltaFifo::new();
        accept(&queue, [replaced(&[("foo", 1)])]);
        let batch = try_pop(&queue, 1).unwrap();

        if finish {
            batch.done();
        } else {
            batch.requeue();
        }

        assert_eq!(synced(&queue), finish);
    }
}

/// Upstream: TestSingleFileCounting
///
/// One finish too many, which panics upstream, is impossible here: finishing consumes the batch.
#[test]
fn a_hundred_started_items_require_a_hundred_finished_ones() {
    let names: Vec<String> = (0..100).map(|number| format!("foo{number}")).collect();
    let objects: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let queue = DeltaFifo::new();
    accept(&queue, [replaced(&objects)]);

    for _ in 0..99 {
        try_pop(&queue, 1).unwrap().done();
    }
    assert!(!synced(&queue));
    try_pop(&queue, 1).unwrap().done();

    assert!(synced(&queue));
    assert!(try_pop(&queue, 1).is_none());
}

/// Upstream: TestAsyncLocking
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrently_started_and_finished_items_are_counted() {
    let names: Vec<String> = (0..11).map(|number| format!("foo{number}")).collect();
    let objects: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let queue = Arc::new(DeltaFifo::new());
    let mut poppers = JoinSet::new();
    for _ in 0..11 {
        let queue = queue.clone();
        poppers.spawn(async move { queue.pop(fine).await.is_ok() });
    }

    accept(&*queue, [replaced(&objects)]);

    assert_eq!(poppers.join_all().await, [true; 11]);
    assert!(queue.has_synced());
}
