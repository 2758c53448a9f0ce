//! Statistics: ports of client-go's `metrics_test.go`, and our own counters.

use crate::{millis, take};
use kube_workqueue::WorkQueue;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::advance;

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Upstream: TestMetricShutdown
///
/// Upstream a goroutine refreshes the gauges and must end with the queue. Here the gauges are computed when they are
/// read: there is no task before or after a shutdown.
#[tokio::test(start_paused = true)]
async fn gauges_are_computed_when_read_and_no_task_refreshes_them() {
    let queue = WorkQueue::default();
    queue.add("foo");
    queue.add_after("bar", millis(1));
    let _item = take(&queue);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);

    advance(millis(1)).await;
    assert_eq!(queue.stats().unfinished_work, millis(1));

    queue.shutdown();
    advance(Duration::from_secs(3600)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(
        queue.stats().unfinished_work,
        Duration::from_secs(3600) + millis(1)
    );
}

/// Upstream: TestMetrics
#[tokio::test(start_paused = true)]
async fn depth_adds_latency_and_durations_count_distinct_keys() {
    let queue = WorkQueue::default();

    queue.add("foo");
    let stats = queue.stats();
    assert_eq!((stats.adds, stats.depth), (1, 1));

    advance(micros(50)).await;
    let item = take(&queue);
    let stats = queue.stats();
    assert_eq!(
        (stats.queue_latency.sum(), stats.queue_latency.count()),
        (micros(50), 1)
    );

    // Adds while it is in flight count once.
    for _ in 0..5 {
        queue.add("foo");
    }
    let stats = queue.stats();
    assert_eq!((stats.adds, stats.depth, stats.ready), (2, 1, 0));

    advance(micros(25)).await;
    item.done();
    let stats = queue.stats();
    assert_eq!(
        (stats.work_duration.sum(), stats.work_duration.count()),
        (micros(25), 1)
    );
    assert_eq!((stats.depth, stats.ready), (1, 1));

    let item = take(&queue);
    let stats = queue.stats();
    assert_eq!(
        (stats.queue_latency.sum(), stats.queue_latency.count()),
        (micros(50 + 25), 2)
    );

    advance(millis(1)).await;
    let stats = queue.stats();
    assert_eq!(
        (stats.unfinished_work, stats.longest_running),
        (millis(1), millis(1))
    );

    item.done();
    let stats = queue.stats();
    assert_eq!(
        (stats.work_duration.sum(), stats.work_duration.count()),
        (micros(1025), 2)
    );
    assert_eq!(
        (stats.unfinished_work, stats.longest_running),
        (Duration::ZERO, Duration::ZERO)
    );
    assert_eq!((stats.depth, stats.running), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_is_a_sum_and_longest_running_a_maximum() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let foo = take(&queue);
    advance(millis(30)).await;
    queue.add("bar");
    let bar = take(&queue);
    advance(millis(10)).await;

    let stats = queue.stats();
    assert_eq!(
        (stats.longest_running, stats.unfinished_work),
        (millis(40), millis(50))
    );
    assert_eq!(stats.running, 2);

    foo.done();
    assert_eq!(queue.stats().longest_running, millis(10));
    bar.done();
}

#[tokio::test(start_paused = true)]
async fn latency_of_a_delayed_key_starts_at_its_due_time() {
    let queue = WorkQueue::default();
    queue.add_after("foo", millis(100));
    advance(millis(130)).await;

    take(&queue).done();

    assert_eq!(queue.stats().queue_latency.sum(), millis(30));
}

#[tokio::test(start_paused = true)]
async fn every_delayed_add_counts_as_a_retry() {
    let queue = WorkQueue::default();
    queue.add("foo");
    assert_eq!(queue.stats().retries, 0);

    queue.add_after("foo", Duration::ZERO);
    queue.add_after("foo", millis(1));
    queue.add_rate_limited("foo");
    assert_eq!(queue.stats().retries, 3);

    take(&queue).retry();
    assert_eq!(queue.stats().retries, 4);
    assert_eq!(queue.stats().adds, 1);
    queue.shutdown();
    queue.add_after("foo", millis(1));
    assert_eq!(queue.stats().retries, 4);
}

#[tokio::test(start_paused = true)]
async fn stats_without_timings_have_counts_only() {
    let queue = WorkQueue::builder().name("plain").timings(false).build();
    queue.add("foo");
    advance(millis(5)).await;
    let item = take(&queue);
    advance(millis(5)).await;

    let stats = queue.stats();
    assert_eq!((stats.adds, stats.running), (1, 1));
    assert_eq!(
        (stats.longest_running, stats.unfinished_work),
        (Duration::ZERO, Duration::ZERO)
    );
    item.done();
    let stats = queue.stats();
    assert_eq!((stats.queue_latency.count(), stats.work_duration.count()), (0, 0));
    assert_eq!(queue.name(), Some("plain"));
}
