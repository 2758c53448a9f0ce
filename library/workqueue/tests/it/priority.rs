//! Order by priority, with ageing.

use crate::{drain, millis, take};
use kube_workqueue::{AddOptions, Priority, WorkQueue};
use tokio::time::advance;

#[tokio::test]
async fn fresh_changes_overtake_the_initial_list() {
    let queue = WorkQueue::default();
    for key in 0..1000 {
        queue.add_with(key, Priority::LOW);
    }

    for fresh in 5000..5010 {
        queue.add(fresh);
        let item = take(&queue);
        assert_eq!(*item, fresh);
        item.forget();
    }
}

#[tokio::test]
async fn initial_list_progresses_under_a_flood_of_fresh_changes() {
    let queue = WorkQueue::builder().ageing(3).build();
    for key in 0..5 {
        queue.add_with(key, Priority::LOW);
    }
    for fresh in 100..115 {
        queue.add(fresh);
    }

    assert_eq!(
        drain(&queue),
        [
            100, 101, 102, 0, 103, 104, 105, 1, 106, 107, 108, 2, 109, 110, 111, 3, 112, 113, 114, 4
        ]
    );
}

#[tokio::test]
async fn low_priority_key_is_not_starved() {
    let queue = WorkQueue::default();
    queue.add_with(u32::MAX, Priority::LOW);

    let picks = (0..1000).position(|fresh| {
        queue.add(fresh);
        queue.add(fresh + 10_000);
        let item = take(&queue);
        let low = *item == u32::MAX;
        item.forget();
        low
    });

    assert_eq!(picks, Some(16));
}

#[tokio::test]
async fn queued_key_added_at_a_higher_priority_is_raised() {
    let queue = WorkQueue::default();
    queue.add_with("a", Priority::LOW);
    queue.add_with("b", Priority::LOW);
    queue.add("c");

    queue.add("b");

    assert_eq!(queue.len(), 3);
    assert_eq!(drain(&queue), ["c", "b", "a"]);
}

#[tokio::test]
async fn queued_key_keeps_its_higher_priority() {
    let queue = WorkQueue::default();
    queue.add_with("a", Priority::HIGH);
    queue.add("b");

    queue.add_with("a", Priority::LOW);

    assert_eq!(drain(&queue), ["a", "b"]);
}

#[tokio::test]
async fn key_added_while_in_flight_uses_the_highest_priority() {
    let queue = WorkQueue::default();
    queue.add("running");
    let item = take(&queue);
    queue.add("other");
    queue.add_with("running", Priority::LOW);
    queue.add_with("running", Priority::HIGH);
    queue.add_with("running", Priority::LOW);
    item.done();

    assert_eq!(drain(&queue), ["running", "other"]);
}

#[tokio::test(start_paused = true)]
async fn retry_keeps_the_priority() {
    let queue = WorkQueue::default();
    queue.add_with("low", Priority::LOW);
    let low = take(&queue);
    assert_eq!(low.priority(), Priority::LOW);
    low.retry_after(millis(10));
    queue.add_with("normal", AddOptions::new().after(millis(20)));

    advance(millis(30)).await;

    assert_eq!(drain(&queue), ["normal", "low"]);
}

#[tokio::test]
async fn every_number_is_a_valid_priority() {
    let queue = WorkQueue::default();
    for priority in [3, i32::MIN, 0, i32::MAX, -7] {
        queue.add_with(priority, Priority(priority));
    }

    assert_eq!(drain(&queue), [i32::MAX, 3, 0, -7, i32::MIN]);
}
