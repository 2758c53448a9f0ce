//! `InOrderQueue` beyond client-go: bookmarks, sync, requeue, back-pressure, cancellation.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::delta::Delta;
use kube_informers::queue::{Closed, DEFAULT_CAPACITY, InOrderQueue};
use kube_informers::reflector::ReflectorConfig;
use kube_informers::target::Target;
use tokio::time::advance;

use super::support::{
    Thing, accept, added, bookmark, deleted, drain, pop_flagged, replaced, replaced_at, texts, try_pop,
    updated,
};

fn filled(deltas: impl IntoIterator<Item = Delta<Thing>>) -> InOrderQueue<Thing> {
    let queue = InOrderQueue::new();
    accept(&queue, deltas);
    queue
}

#[test]
fn of_consecutive_bookmarks_the_last_is_kept() {
    let queue = filled([
        bookmark(1),
        bookmark(2),
        added("foo", 3),
        bookmark(4),
        bookmark(5),
    ]);

    assert_eq!(
        drain(&queue, 1).concat(),
        ["Bookmark@2", "Added foo=3", "Bookmark@5"]
    );
}

#[test]
fn bookmarks_are_part_of_a_batch_and_lists_and_resyncs_are_popped_alone() {
    let queue = filled([
        added("foo", 1),
        bookmark(2),
        updated("foo", 3),
        replaced_at(4, &[]),
        bookmark(5),
        Delta::SyncAll,
        deleted("bar", 6),
    ]);

    assert_eq!(
        drain(&queue, 10),
        [
            vec!["Added foo=1", "Bookmark@2", "Updated foo=3"],
            vec!["ReplacedAll@4[]"],
            vec!["Bookmark@5"],
            vec!["SyncAll"],
            vec!["Deleted bar=6"]
        ]
    );
}

#[test]
fn a_bookmark_before_the_first_list_is_not_part_of_the_initial_population() {
    let queue = filled([bookmark(1), Delta::SyncAll, replaced_at(2, &[]), added("foo", 3)]);
    assert!(!queue.has_synced());

    let flags: Vec<(Vec<String>, bool)> = (0..4).map(|_| pop_flagged(&queue)).collect();

    let initial: Vec<bool> = flags.iter().map(|(_, initial)| *initial).collect();
    assert_eq!(initial, [false, false, true, false]);
    assert!(queue.has_synced());
}

#[test]
fn synced_only_when_the_first_list_has_been_processed_even_an_empty_one() {
    let queue = filled([replaced_at(1, &[])]);

    let batch = try_pop(&queue, 1).unwrap();
    assert!(batch.initial);
    assert!(!queue.has_synced());
    assert!(queue.synced().now_or_never().is_none());
    drop(batch);

    assert!(queue.has_synced());
    assert_eq!(queue.synced().now_or_never(), Some(Ok(())));
}

#[test]
fn a_requeued_first_list_is_still_initial() {
    let queue = filled([replaced_at(1, &[("foo", 1)]), added("bar", 2)]);

    try_pop(&queue, 10).unwrap().requeue();

    assert!(!queue.has_synced());
    assert_eq!(
        pop_flagged(&queue),
        (vec!["ReplacedAll@1[foo=1]".to_owned()], true)
    );
    assert!(queue.has_synced());
}

#[test]
fn a_requeued_batch_returns_to_the_front() {
    let queue = filled([added("foo", 1), added("bar", 2), updated("foo", 3)]);
    let mut batch = try_pop(&queue, 2).unwrap();
    accept(&queue, [updated("bar", 4)]);

    // The first one has been processed, the second has not.
    batch.deltas.remove(0);
    batch.requeue();

    assert_eq!(queue.len(), 3);
    assert_eq!(
        drain(&queue, 1).concat(),
        ["Added bar=2", "Updated foo=3", "Updated bar=4"]
    );
}

#[test]
fn the_next_pop_waits_until_the_previous_one_has_ended() {
    let queue = filled([added("foo", 1), added("bar", 2)]);
    let first = try_pop(&queue, 1).unwrap();
    let mut second = Box::pin(queue.pop_batch(1));
    assert!((&mut second).now_or_never().is_none());

    first.done();

    let second = second.now_or_never().flatten().unwrap();
    assert_eq!(texts(&second.done()), ["Added bar=2"]);
}

#[tokio::test]
async fn a_panic_requeues_the_batch() {
    let queue = Arc::new(filled([replaced_at(1, &[("foo", 1)])]));

    let popper = queue.clone();
    let panicked = std::panic::AssertUnwindSafe(async move {
        let _batch = popper.pop_batch(10).await;
        panic!("process loop");
    })
    .catch_unwind()
    .await;

    assert!(panicked.is_err());
    assert!(!queue.has_synced());
    assert_eq!(
        pop_flagged(&queue),
        (vec!["ReplacedAll@1[foo=1]".to_owned()], true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_pop_takes_nothing() {
    let queue = InOrderQueue::new();
    let waited = tokio::time::timeout(Duration::from_secs(1), queue.pop_batch(1)).await;
    assert!(waited.is_err());

    accept(&queue, [added("foo", 1)]);

    assert_eq!(drain(&queue, 1), [["Added foo=1"]]);
}

#[test]
fn a_closed_queue_is_drained_and_still_accepts() {
    let queue = filled([added("foo", 1)]);
    queue.close();
    accept(&queue, [added("bar", 2)]);
    assert!(queue.is_closed());

    let batch = try_pop(&queue, 1).unwrap();
    // Not drained yet: the batch in flight may be requeued.
    let mut next = Box::pin(queue.pop_batch(1));
    assert!((&mut next).now_or_never().is_none());
    batch.requeue();

    let batch = next.now_or_never().flatten().unwrap();
    assert_eq!(texts(&batch.done()), ["Added foo=1"]);
    assert_eq!(drain(&queue, 1), [["Added bar=2"]]);
    assert!(matches!(queue.pop_batch(1).now_or_never(), Some(None)));
}

#[test]
fn waiting_for_sync_fails_if_the_queue_is_closed_first() {
    let queue = InOrderQueue::<Thing>::new();
    let mut synced = Box::pin(queue.synced());
    assert!((&mut synced).now_or_never().is_none());

    queue.close();

    assert_eq!(synced.now_or_never(), Some(Err(Closed)));
}

#[test]
fn a_full_queue_has_no_room_but_accepts_deltas() {
    let queue = InOrderQueue::new().capacity(2);
    accept(&queue, [added("foo", 1)]);
    assert!(queue.has_room());
    assert_eq!(queue.room().now_or_never(), Some(()));

    accept(&queue, [added("foo", 2)]);
    assert!(!queue.has_room());
    accept(&queue, [added("foo", 3)]);
    assert_eq!(queue.len(), 3);

    let mut room = queue.room();
    assert!((&mut room).now_or_never().is_none());
    let batch = try_pop(&queue, 2).unwrap();
    assert_eq!(room.now_or_never(), Some(()));
    batch.requeue();
    assert!(!queue.has_room());
}

#[test]
fn a_list_weighs_as_much_as_its_objects() {
    let queue = InOrderQueue::new().capacity(2);

    accept(&queue, [replaced(&[("foo", 1), ("bar", 2)])]);

    assert_eq!(queue.len(), 1);
    assert!(!queue.has_room());
    drain(&queue, 1);
    assert!(queue.has_room());
}

#[test]
fn a_closed_queue_always_has_room() {
    let queue = InOrderQueue::new().capacity(0);
    accept(&queue, [added("foo", 1)]);
    let mut room = queue.room();
    assert!((&mut room).now_or_never().is_none());

    queue.close();

    assert_eq!(room.now_or_never(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn stats_report_length_pops_and_the_last_processing_time() {
    let queue = filled([added("foo", 1), added("bar", 2)]);
    let before = queue.stats();
    assert_eq!((before.len, before.pops, before.last_pop), (2, 0, None));

    let batch = try_pop(&queue, 1).unwrap();
    advance(Duration::from_secs(5)).await;
    batch.done();

    let after = queue.stats();
    assert_eq!(
        (after.len, after.pops, after.last_pop),
        (1, 1, Some(Duration::from_secs(5)))
    );
}

#[test]
fn an_informers_queue_has_the_default_capacity() {
    assert_eq!(ReflectorConfig::default().queue_capacity, DEFAULT_CAPACITY);
}
