//! `parallelize`: a port of client-go's `parallelizer_test.go`, and early termination.

use kube_workqueue::parallelize;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

async fn visits(workers: usize, pieces: usize, chunk: usize) -> Vec<u32> {
    let seen: Arc<Vec<AtomicU32>> = Arc::new((0..pieces).map(|_| AtomicU32::new(0)).collect());
    let counters = seen.clone();
    parallelize(workers, pieces, chunk, move |piece| {
        counters[piece].fetch_add(1, Ordering::Relaxed);
    })
    .await;
    seen.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

/// Upstream: TestParallelizeUntil
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_piece_is_visited_exactly_once() {
    for (pieces, workers, chunk) in [(1000, 10, 1), (1000, 10, 10), (1000, 10, 100), (999, 10, 13)] {
        let seen = visits(workers, pieces, chunk).await;
        assert_eq!(
            seen,
            vec![1; pieces],
            "pieces {pieces}, workers {workers}, chunk {chunk}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zero_and_oversized_arguments_are_valid() {
    for (pieces, workers, chunk) in [
        (0, 10, 1),
        (1, 0, 0),
        (5, 0, 2),
        (5, 3, 0),
        (5, 3, usize::MAX),
        (7, usize::MAX, 1),
    ] {
        let seen = visits(workers, pieces, chunk).await;
        assert_eq!(
            seen,
            vec![1; pieces],
            "pieces {pieces}, workers {workers}, chunk {chunk}"
        );
    }
}

#[tokio::test]
async fn single_thread_processes_all_pieces() {
    assert_eq!(visits(10, 1000, 7).await, vec![1; 1000]);
}

#[tokio::test]
async fn dropping_the_future_skips_unstarted_pieces() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let mut work = Box::pin(parallelize(1, 1_000_000, 1, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));

    // One poll: it works until its budget is used up, then yields.
    std::future::poll_fn(|cx| {
        assert!(work.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(work);

    let begun = begun.load(Ordering::Relaxed);
    assert!((1..1_000_000).contains(&begun), "{begun}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_reaches_the_caller() {
    let task = tokio::spawn(parallelize(4, 1000, 1, |piece| {
        assert!(piece != 500, "piece 500 is broken");
    }));

    assert!(task.await.unwrap_err().is_panic());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_stops_other_workers_within_their_chunk() {
    const CHUNK: usize = 10_000_000;
    let (begun, both) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
    let count = begun.clone();
    let task = tokio::spawn(parallelize(2, 2 * CHUNK, CHUNK, move |piece| {
        if piece % CHUNK == 0 {
            // Each of the two workers has its own chunk before one of them fails.
            both.wait();
        }
        assert!(piece != CHUNK, "the second chunk is broken");
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now();
    }));

    assert!(task.await.unwrap_err().is_panic());

    assert!(
        begun.load(Ordering::Relaxed) < CHUNK,
        "the first chunk was processed to its end"
    );
}
