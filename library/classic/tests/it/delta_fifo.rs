//! `DeltaFifo` beyond client-go: keys in process, versions, unreadable objects, requeue, back-pressure.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use kube_informers::ObjectKey;
use kube_informers::delta::{Delta as Change, Replacement};
use kube_informers::target::Target;
use kube_informers_classic::{Delta, DeltaFifo, Failure, KnownKeys, PopError, Tombstone};

use crate::queue_support::{
    Held, Thing, accept, added, bad, bookmark, deleted, drain, key, pop, pop_flagged, replaced, replaced_at,
    texts, thing, try_pop, updated, versioned,
};

fn filled(deltas: impl IntoIterator<Item = Change<Thing>>) -> DeltaFifo<Thing> {
    let queue = DeltaFifo::new();
    accept(&queue, deltas);
    queue
}

fn list(objects: &[(&str, u64)], unreadable: &[&str]) -> Change<Thing> {
    Change::ReplacedAll(Replacement {
        shard: None,
        objects: objects.iter().map(|(name, value)| thing(name, *value)).collect(),
        unreadable: unreadable.iter().map(|name| bad(name, None)).collect(),
        resource_version: None,
    })
}

fn unreadable(name: &str) -> Change<Thing> {
    Change::Unreadable(bad(name, None))
}

fn deleted_unreadable(name: &str) -> Change<Thing> {
    Change::DeletedUnreadable(bad(name, None))
}

fn vanished(name: &str, last: Option<u64>) -> Delta<Thing> {
    Delta::Vanished(Tombstone {
        key: key(name),
        last: last.map(|value| thing(name, value)),
    })
}

// Keys in process: no longer queued and not yet held.

#[test]
fn f05_a_deletion_during_the_processing_of_its_addition_is_not_lost() {
    let held = Held::default();
    let queue = DeltaFifo::new().known(held.clone());
    accept(&queue, [added("foo", 1)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [deleted("foo", 2)]);
    held.insert(thing("foo", 1));
    batch.done();

    assert_eq!(drain(&queue, 1), [["Deleted foo=2"]]);
}

#[test]
fn f05_a_list_during_the_processing_of_an_addition_deletes_the_object() {
    let held = Held::default();
    let queue = DeltaFifo::new().known(held.clone());
    accept(&queue, [added("foo", 1)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [replaced(&[])]);
    held.insert(thing("foo", 1));
    batch.done();

    assert_eq!(drain(&queue, 1), [["Vanished foo=1"]]);
}

#[test]
fn a_deletion_in_process_is_not_queued_again() {
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1)]));
    accept(&queue, [deleted("foo", 2)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [deleted("foo", 2), replaced(&[])]);

    batch.done();
    assert!(queue.is_empty());
}

#[test]
fn a_resync_does_not_revert_deltas_in_process() {
    let held = Held::of(&[("bar", 1), ("foo", 1)]);
    let queue = DeltaFifo::new().known(held.clone());
    accept(&queue, [updated("foo", 2)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [Change::SyncAll]);
    held.insert(thing("foo", 2));
    batch.done();

    assert_eq!(drain(&queue, 1), [["Sync bar=1"]]);
}

#[test]
fn without_known_objects_a_key_in_process_counts_as_deleted() {
    let queue = filled([added("foo", 1)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [deleted("foo", 2), replaced(&[])]);

    batch.done();
    assert!(queue.is_empty());
}

#[test]
fn a_panic_of_the_known_objects_changes_nothing() {
    struct Broken;
    impl KnownKeys<Thing> for Broken {
        fn keys(&self) -> Vec<ObjectKey> {
            panic!("keys")
        }
        fn get(&self, _: &ObjectKey) -> Option<Arc<Thing>> {
            panic!("get")
        }
        fn contains(&self, _: &ObjectKey) -> bool {
            panic!("contains")
        }
    }
    let queue = DeltaFifo::new().known(Broken);
    let deltas = [
        replaced_at(7, &[("foo", 1)]),
        Change::SyncAll,
        Change::Deleted(versioned("foo", 8)),
    ];

    for delta in deltas {
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| queue.accept(delta)));
        assert!(panicked.is_err());
    }

    assert!(queue.is_empty());
    assert!(!queue.has_synced());
    assert!(try_pop(&queue, 1).is_none());
    accept(&queue, [added("foo", 1)]);
    assert_eq!(drain(&queue, 1), [["Added foo=1"]]);
}

// Versions.

#[test]
fn a_version_is_reported_only_when_the_queue_is_empty() {
    let queue = filled([
        Change::Added(versioned("foo", 5)),
        Change::Added(versioned("bar", 6)),
        Change::Updated(versioned("foo", 7)),
    ]);

    assert_eq!(pop(&queue), ["Added foo=5", "Updated foo=7"]);
    assert_eq!(pop(&queue), ["Added bar=6", "Bookmark@7"]);
    assert_eq!(drain(&queue, 1), Vec::<Vec<String>>::new());
}

#[test]
fn a_bookmark_is_popped_immediately_if_the_queue_is_empty() {
    let queue = filled([bookmark(7)]);
    assert!(queue.is_empty());

    assert_eq!(drain(&queue, 1), [["Bookmark@7"]]);

    accept(&queue, [bookmark(7)]);
    assert!(try_pop(&queue, 1).is_none(), "already reported");
}

#[test]
fn an_ignored_deletion_advances_the_version() {
    let queue = filled([Change::Deleted(versioned("foo", 9))]);

    assert_eq!(drain(&queue, 1), [["Bookmark@9"]]);
}

#[test]
fn only_a_list_can_lower_the_version() {
    let queue = filled([bookmark(10), Change::Added(versioned("foo", 9))]);
    assert_eq!(pop(&queue), ["Added foo=9", "Bookmark@10"]);

    accept(&queue, [replaced_at(3, &[("foo", 1)])]);
    assert_eq!(pop(&queue), ["Replaced foo=1", "Bookmark@3"]);

    // A source without versions.
    accept(&queue, [replaced(&[("foo", 1)])]);
    assert_eq!(pop(&queue), ["Replaced foo=1"]);
}

#[test]
fn a_requeue_withdraws_the_reported_version() {
    let queue = filled([Change::Added(versioned("foo", 5))]);
    let batch = try_pop(&queue, 1).unwrap();
    assert_eq!(texts(&batch.deltas), ["Added foo=5", "Bookmark@5"]);

    batch.requeue();

    assert_eq!(queue.len(), 1);
    assert_eq!(drain(&queue, 1), [["Added foo=5", "Bookmark@5"]]);

    accept(&queue, [bookmark(6)]);
    try_pop(&queue, 1).unwrap().requeue();
    assert_eq!(drain(&queue, 1), [["Bookmark@6"]]);
}

#[test]
fn an_empty_list_with_a_version_is_synced_and_reported() {
    let queue = filled([replaced_at(4, &[])]);

    assert!(queue.has_synced());
    assert_eq!(drain(&queue, 1), [["Bookmark@4"]]);
}

// Batches and sync.

#[test]
fn a_batch_contains_whole_keys_and_does_not_mix_initial_with_later_ones() {
    let queue = filled([
        replaced(&[("a", 1), ("b", 1), ("c", 1)]),
        updated("a", 2),
        updated("b", 2),
        added("d", 1),
        added("e", 1),
    ]);

    let mut batches = Vec::new();
    while let Some(batch) = try_pop(&queue, 3) {
        let initial = batch.initial;
        batches.push((texts(&batch.done()), initial));
    }

    let expected: Vec<(&[&str], bool)> = vec![
        (&["Replaced a=1", "Updated a=2"], true),
        (&["Replaced b=1", "Updated b=2", "Replaced c=1"], true),
        (&["Added d=1", "Added e=1"], false),
    ];
    let expected: Vec<(Vec<String>, bool)> = expected
        .into_iter()
        .map(|(texts, initial)| (texts.iter().map(|text| (*text).to_owned()).collect(), initial))
        .collect();
    assert_eq!(batches, expected);
}

#[test]
fn the_deltas_of_a_key_are_never_split() {
    let queue = filled([added("foo", 1), updated("foo", 2), updated("foo", 3)]);

    assert_eq!(
        drain(&queue, 1),
        [["Added foo=1", "Updated foo=2", "Updated foo=3"]]
    );
}

#[test]
fn synced_only_when_the_last_initial_entry_has_been_processed() {
    let queue = filled([replaced(&[("foo", 1)])]);

    let batch = try_pop(&queue, 1).unwrap();
    assert!(!queue.has_synced());
    assert!(queue.synced().now_or_never().is_none());
    drop(batch);

    assert!(queue.has_synced());
}

// Requeue.

#[test]
fn requeued_keys_move_to_the_end_and_stay_initial() {
    let queue = filled([replaced(&[("foo", 1), ("bar", 2)]), added("baz", 3)]);

    try_pop(&queue, 1).unwrap().requeue();

    assert_eq!(queue.keys(), [key("bar"), key("baz"), key("foo")]);
    assert_eq!(pop_flagged(&queue), (vec!["Replaced bar=2".to_owned()], true));
    assert_eq!(pop_flagged(&queue), (vec!["Added baz=3".to_owned()], false));
    assert!(!queue.has_synced());
    assert_eq!(pop_flagged(&queue), (vec!["Replaced foo=1".to_owned()], true));
    assert!(queue.has_synced());
}

#[test]
fn requeued_deltas_of_a_watch_give_way_to_newer_ones() {
    let queue = filled([added("foo", 1), added("bar", 2)]);
    let batch = try_pop(&queue, 2).unwrap();
    accept(&queue, [updated("foo", 3)]);

    batch.requeue();

    assert_eq!(drain(&queue, 1), [["Updated foo=3"], ["Added bar=2"]]);
}

/// The versions of a restored server are lower. Without the delta of the list, a newer one looks older than the cache.
#[test]
fn requeued_deltas_of_a_list_come_before_newer_ones() {
    let queue = filled([replaced(&[("foo", 1), ("bar", 2)])]);
    let batch = try_pop(&queue, 2).unwrap();
    accept(&queue, [updated("foo", 3)]);

    batch.requeue();

    let both = vec!["Replaced foo=1".to_owned(), "Updated foo=3".to_owned()];
    assert_eq!(pop_flagged(&queue), (both, true));
    assert!(!queue.has_synced());
    assert_eq!(pop_flagged(&queue), (vec!["Replaced bar=2".to_owned()], true));
    assert!(queue.has_synced());
}

#[test]
fn requeued_deltas_of_a_list_give_way_to_those_of_a_newer_list() {
    let queue = filled([replaced(&[("foo", 1)])]);
    let batch = try_pop(&queue, 1).unwrap();
    accept(&queue, [replaced(&[("foo", 3)])]);

    batch.requeue();

    assert_eq!(drain(&queue, 1), [["Replaced foo=3"]]);
}

#[test]
fn a_requeued_key_is_kept_if_only_unreadable_deltas_are_queued() {
    let queue = filled([added("foo", 1)]);
    let batch = try_pop(&queue, 1).unwrap();
    accept(&queue, [unreadable("foo")]);

    batch.requeue();

    assert_eq!(drain(&queue, 1), [["Added foo=1", "Unreadable foo"]]);
}

#[test]
fn only_the_remaining_deltas_of_a_batch_are_requeued() {
    let queue = filled([replaced(&[("foo", 1), ("bar", 2), ("baz", 3)])]);
    let mut batch = try_pop(&queue, 3).unwrap();

    batch.deltas.drain(..2);
    batch.requeue();

    assert_eq!(pop_flagged(&queue), (vec!["Replaced baz=3".to_owned()], true));
    assert!(queue.has_synced());
}

#[tokio::test]
async fn a_process_function_can_request_a_requeue() {
    let queue = filled([added("foo", 1)]);

    let popped = queue
        .pop(|_, _| {
            queue.accept(updated("foo", 2)).map_err(Failure::lose)?;
            Err(Failure::requeue("not now"))
        })
        .await;

    assert!(matches!(popped, Err(PopError::Process(_))));
    assert_eq!(drain(&queue, 1), [["Updated foo=2"]]);
}

#[test]
fn add_if_absent_does_not_change_a_queued_key() {
    let queue = DeltaFifo::new();

    assert!(queue.add_if_absent(Delta::Added(thing("foo", 1))));
    assert!(!queue.add_if_absent(Delta::Updated(thing("foo", 2))));
    accept(&queue, [replaced(&[("bar", 3)])]);
    assert!(!queue.add_if_absent(Delta::Updated(thing("bar", 4))));

    assert_eq!(
        drain(&queue, 1),
        [vec!["Added foo=1", "Vanished foo=1"], vec!["Replaced bar=3"]]
    );
}

// Unreadable objects.

#[test]
fn an_unreadable_object_of_a_list_is_not_deleted() {
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1), ("bar", 2)]));

    accept(&queue, [list(&[("foo", 3)], &["bar"])]);

    assert_eq!(drain(&queue, 1), [["Replaced foo=3"], ["ReplacedUnreadable bar"]]);
    assert!(queue.has_synced());
}

#[test]
fn a_tombstone_carries_the_last_readable_state() {
    let queue = DeltaFifo::new().known(Held::of(&[("held", 1)]));
    let changes = [
        unreadable("held"),
        added("queued", 2),
        unreadable("queued"),
        added("again", 3),
        deleted("again", 4),
        unreadable("again"),
    ];
    accept(&queue, changes);

    accept(&queue, [replaced(&[])]);

    let newest = |name: &str| texts(&queue.get(&key(name))).pop().unwrap();
    assert_eq!(newest("held"), "Vanished held=1");
    assert_eq!(newest("queued"), "Vanished queued=2");
    // The state before the deletion is not a state of the new object.
    assert_eq!(newest("again"), "Vanished again");
}

#[test]
fn an_unreadable_deletion_deletes_by_key() {
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1)]));

    accept(&queue, [deleted_unreadable("foo"), deleted_unreadable("nobody")]);

    assert_eq!(drain(&queue, 1), [["DeletedUnreadable foo"]]);
}

#[test]
fn the_deletion_of_an_object_that_was_never_readable_is_queued() {
    let held = Held::default();
    held.apply(&Delta::Unreadable(bad("foo", None)));
    let queue = DeltaFifo::new().known(held.clone());

    accept(&queue, [deleted("foo", 2)]);
    assert_eq!(drain(&queue, 1), [["Deleted foo=2"]]);

    accept(&queue, [replaced(&[])]);
    assert_eq!(drain(&queue, 1), [["Vanished foo"]]);
}

#[test]
fn objects_without_a_name_are_popped_first_and_separately() {
    let queue = filled([
        list(&[("foo", 1)], &["", ""]),
        Change::DeletedUnreadable(bad("", Some(9))),
    ]);
    assert_eq!(queue.len(), 4);
    assert_eq!(queue.keys(), [key("foo")]);

    let batch = try_pop(&queue, 2).unwrap();
    assert_eq!(texts(&batch.deltas), ["ReplacedUnreadable", "ReplacedUnreadable"]);
    batch.requeue();

    assert_eq!(
        drain(&queue, 10),
        [
            vec!["DeletedUnreadable", "ReplacedUnreadable", "ReplacedUnreadable"],
            vec!["Replaced foo=1", "Bookmark@9"]
        ]
    );
    assert!(queue.has_synced());
}

#[test]
fn of_two_consecutive_deletions_the_more_informative_one_is_kept() {
    let deleted = |name, value| Delta::Deleted(thing(name, value));
    let deleted_unreadable = || Delta::DeletedUnreadable(bad("foo", None));
    let cases = [
        (deleted("foo", 1), deleted("foo", 2), "Deleted foo=1"),
        (deleted("foo", 1), vanished("foo", Some(2)), "Deleted foo=1"),
        (deleted("foo", 1), deleted_unreadable(), "Deleted foo=1"),
        (vanished("foo", Some(1)), deleted("foo", 2), "Deleted foo=2"),
        (vanished("foo", None), vanished("foo", Some(2)), "Vanished foo=2"),
        (
            vanished("foo", None),
            deleted_unreadable(),
            "DeletedUnreadable foo",
        ),
        (deleted_unreadable(), deleted("foo", 2), "Deleted foo=2"),
        (
            deleted_unreadable(),
            vanished("foo", Some(2)),
            "DeletedUnreadable foo",
        ),
    ];

    for (older, newer, kept) in cases {
        let queue = DeltaFifo::new().known(Held::of(&[("foo", 0)]));
        queue.add(older);
        queue.add(newer);

        assert_eq!(queue.len(), 1);
        assert_eq!(drain(&queue, 1), [[kept]]);
    }
}

// Back-pressure.

#[test]
fn a_full_queue_has_no_room_but_accepts_a_whole_list() {
    let queue = DeltaFifo::new().capacity(2);
    accept(&queue, [replaced(&[("foo", 1), ("bar", 2), ("baz", 3)])]);
    assert_eq!(queue.len(), 3);
    assert!(!queue.has_room());
    let mut room = queue.room();

    try_pop(&queue, 1).unwrap().done();
    assert!((&mut room).now_or_never().is_none());
    try_pop(&queue, 1).unwrap().done();

    assert_eq!(room.now_or_never(), Some(()));
}

#[test]
fn a_repeated_old_event_does_not_bring_a_deleted_object_back() {
    let held = Held::default();
    held.insert(versioned("foo", 5));
    let queue = DeltaFifo::new().known(held.clone());
    let repeated = || Change::Added(versioned("foo", 5));

    // While the deletion is queued.
    accept(&queue, [Change::Deleted(versioned("foo", 7)), repeated()]);
    assert_eq!(texts(&queue.list()), ["Deleted foo=7"]);

    // While it is in process.
    let batch = try_pop(&queue, 10).unwrap();
    accept(&queue, [repeated()]);
    assert!(queue.is_empty());
    for delta in batch.deltas.iter() {
        held.apply(delta);
    }
    batch.done();

    // After it has been applied.
    accept(&queue, [repeated(), Change::Updated(versioned("foo", 6))]);
    assert!(queue.is_empty());

    // A new object of that name is not a repetition, nor is an older state of an object that exists.
    accept(
        &queue,
        [
            Change::Added(versioned("foo", 9)),
            Change::Updated(versioned("foo", 8)),
        ],
    );
    assert_eq!(texts(&queue.list()), ["Added foo=9", "Updated foo=8"]);
}

#[test]
fn a_bookmark_that_is_too_high_does_not_hide_new_objects() {
    let queue = DeltaFifo::new();
    accept(&queue, [bookmark(100), Change::Added(versioned("foo", 9))]);
    assert_eq!(texts(&queue.list()), ["Added foo=9"]);
}
