//! Delayed keys: ports of client-go's `delaying_queue_test.go`, and more cases.

use crate::{drain, let_others_run, millis, take};
use kube_workqueue::{AddOptions, Priority, WorkQueue};
use std::time::Duration;
use tokio::time::{Instant, advance};

/// Upstream: TestSimpleQueue
#[tokio::test(start_paused = true)]
async fn delayed_key_is_queued_once_when_due() {
    let queue = WorkQueue::default();
    queue.add_after("foo", millis(50));
    assert_eq!(queue.len(), 0);

    advance(millis(60)).await;
    assert_eq!(queue.len(), 1);
    take(&queue).done();

    advance(Duration::from_secs(10)).await;
    assert_eq!(queue.len(), 0);
    assert_eq!(queue.stats().delayed, 0);
}

/// Upstream: TestDeduping
#[tokio::test(start_paused = true)]
async fn earlier_of_two_delays_wins() {
    let queue = WorkQueue::default();
    queue.add_after("foo", millis(50));
    queue.add_after("foo", millis(70));
    assert_eq!(queue.len(), 0);

    advance(millis(60)).await;
    assert_eq!(queue.len(), 1);
    take(&queue).done();
    advance(millis(20)).await;
    assert_eq!(queue.len(), 0);

    // The other way round.
    queue.add_after("foo", millis(50));
    queue.add_after("foo", millis(30));
    assert_eq!(queue.len(), 0);
    advance(millis(40)).await;
    assert_eq!(queue.len(), 1);
    take(&queue).done();
    advance(millis(20)).await;
    assert_eq!(queue.len(), 0);
}

/// Upstream: TestAddTwoFireEarly
#[tokio::test(start_paused = true)]
async fn each_delayed_key_is_ready_at_its_due_time() {
    let queue = WorkQueue::default();
    queue.add_after("foo", Duration::from_secs(1));
    queue.add_after("bar", millis(50));
    assert_eq!(queue.len(), 0);

    advance(millis(60)).await;
    assert_eq!(queue.len(), 1);
    let bar = take(&queue);
    assert_eq!(*bar, "bar");

    queue.add_after("baz", Duration::from_secs(2));
    advance(Duration::from_secs(1)).await;
    assert_eq!(queue.len(), 1);
    let foo = take(&queue);
    assert_eq!(*foo, "foo");

    advance(Duration::from_secs(2)).await;
    assert_eq!(queue.len(), 1);
    let baz = take(&queue);
    assert_eq!(*baz, "baz");
}

/// Upstream: TestCopyShifting
#[tokio::test(start_paused = true)]
async fn due_keys_are_ordered_by_due_time() {
    let queue = WorkQueue::default();
    queue.add_after("foo", Duration::from_secs(1));
    queue.add_after("bar", millis(500));
    queue.add_after("baz", millis(250));
    assert_eq!(queue.len(), 0);

    advance(Duration::from_secs(2)).await;

    assert_eq!(queue.len(), 3);
    assert_eq!(drain(&queue), ["baz", "bar", "foo"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_worker_receives_a_delayed_key_exactly_when_due() {
    let queue = WorkQueue::default();
    let start = Instant::now();
    queue.add_after("foo", millis(50));

    let item = queue.get().await.unwrap();

    assert_eq!(start.elapsed(), millis(50));
    item.forget();
}

#[tokio::test(start_paused = true)]
async fn waiting_worker_notices_an_earlier_due_time() {
    let queue = WorkQueue::default();
    let start = Instant::now();
    queue.add_after("late", Duration::from_secs(60));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let item = queue.get().await.unwrap();
            let key = *item;
            item.forget();
            (key, start.elapsed())
        }
    });
    let_others_run().await;

    queue.add_after("early", millis(5));

    assert_eq!(worker.await.unwrap(), ("early", millis(5)));
}

#[tokio::test(start_paused = true)]
async fn zero_delay_queues_at_once() {
    let queue = WorkQueue::default();
    queue.add_after("foo", Duration::ZERO);
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.stats().retries, 1);
}

#[tokio::test(start_paused = true)]
async fn maximum_delay_does_not_overflow() {
    let queue = WorkQueue::default();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", millis(1));

    let item = queue.get().await.unwrap();
    assert_eq!(*item, "soon");
    item.retry_after(Duration::MAX);
    assert_eq!(queue.stats().delayed, 2);
}

#[tokio::test(start_paused = true)]
async fn delayed_key_can_be_cancelled() {
    let queue = WorkQueue::default();
    queue.add_after("foo", millis(50));
    queue.add_after("bar", millis(50));

    assert!(queue.cancel_delayed(&"foo"));
    assert!(!queue.cancel_delayed(&"foo"));
    assert!(!queue.cancel_delayed(&"unknown"));

    advance(millis(60)).await;
    assert_eq!(drain(&queue), ["bar"]);
    assert!(!queue.cancel_delayed(&"bar"), "the delay was already cancelled");
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_delay_does_not_affect_a_queued_or_running_key() {
    let queue = WorkQueue::default();
    queue.add("queued");
    queue.add_after("queued", millis(50));
    assert!(queue.cancel_delayed(&"queued"));
    assert_eq!(queue.len(), 1);

    let item = take(&queue);
    queue.add_after("queued", millis(50));
    assert!(queue.cancel_delayed(&"queued"));
    item.done();

    advance(millis(60)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn delayed_key_added_without_delay_runs_now_and_again_when_due() {
    let queue = WorkQueue::default();
    queue.add_after("foo", millis(50));
    queue.add("foo");
    take(&queue).done();
    assert_eq!(queue.len(), 0);

    advance(millis(50)).await;
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn key_due_while_in_flight_runs_once_more() {
    let queue = WorkQueue::default();
    queue.add("foo");
    let item = take(&queue);
    queue.add_after("foo", millis(50));

    advance(millis(60)).await;
    assert_eq!(queue.len(), 0);
    item.done();
    assert_eq!(drain(&queue), ["foo"]);
}

#[tokio::test(start_paused = true)]
async fn due_keys_precede_later_adds() {
    let queue = WorkQueue::default();
    queue.add_after("due", millis(10));
    advance(millis(20)).await;

    queue.add("added");

    assert_eq!(drain(&queue), ["due", "added"]);
}

#[tokio::test(start_paused = true)]
async fn delayed_key_keeps_the_higher_priority() {
    let queue = WorkQueue::default();
    queue.add_with("low", AddOptions::new().priority(Priority::LOW).after(millis(10)));
    queue.add_with(
        "raised",
        AddOptions::new().priority(Priority::LOW).after(millis(10)),
    );
    queue.add_with(
        "raised",
        AddOptions::new().priority(Priority::HIGH).after(millis(20)),
    );

    advance(millis(10)).await;

    assert_eq!(drain(&queue), ["raised", "low"]);
}

#[tokio::test(start_paused = true)]
async fn many_delayed_keys_are_ordered_by_due_time() {
    let queue = WorkQueue::default();
    let mut expected: Vec<(u64, u32)> = Vec::new();
    let mut delay = 1u64;
    for key in 0..2000 {
        // A full cycle through the residues of a prime: all different, unordered.
        delay = delay * 1234 % 10_007;
        expected.push((delay, key));
        queue.add_after(key, millis(delay));
    }
    expected.sort();

    advance(Duration::from_secs(11)).await;

    assert_eq!(
        drain(&queue),
        expected.into_iter().map(|(_, key)| key).collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn delays_are_exact_without_timings() {
    let queue = WorkQueue::builder().timings(false).build();
    advance(Duration::from_secs(100)).await;
    let start = Instant::now();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    item.retry_after(millis(50));
    queue.add_after("bar", millis(70));

    for expected in [("foo", millis(50)), ("bar", millis(70))] {
        let item = queue.get().await.unwrap();
        assert_eq!((*item, start.elapsed()), expected);
        item.done();
    }
}
