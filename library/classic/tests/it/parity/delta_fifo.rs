//! client-go's `delta_fifo_test.go`. A list becomes `Replaced` here, and `Sync` in client-go by default.
//! `Vanished` corresponds to `Deleted` with a `DeletedFinalStateUnknown`.

use std::sync::Arc;

use kube_informers::delta::Delta as Change;
use kube_informers_classic::{Delta, DeltaFifo, PopError, Tombstone};

use crate::queue_support::{
    Held, Thing, accept, add_number, added, assert_close_ends_blocked_pops, assert_nothing_more, deleted,
    drain, fine, key, number_of, pop, pop_flagged, producers_keep_their_order, replaced, text, texts, thing,
    updated,
};

/// The objects of the consumer in most of the upstream tests.
const HELD: [(&str, u64); 3] = [("foo", 5), ("bar", 6), ("baz", 7)];

fn with_known(known: &[(&str, u64)]) -> DeltaFifo<Thing> {
    DeltaFifo::new().known(Held::of(known))
}

/// The newest delta of the next key.
fn pop_newest(queue: &DeltaFifo<Thing>) -> String {
    pop(queue).pop().expect("a delta")
}

/// Upstream: TestDeltaFIFO_basic
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_producers_values_are_popped_in_order() {
    let queue = Arc::new(DeltaFifo::new().capacity(usize::MAX));
    producers_keep_their_order(queue, add_number, async |queue| {
        number_of(&queue.pop(fine).await.unwrap())
    })
    .await;
}

/// Upstream: TestDeltaFIFO_replaceWithDeleteDeltaIn
#[test]
fn a_list_restores_a_key_whose_deletion_is_queued() {
    let queue = with_known(&[("foo", 1)]);

    accept(&queue, [deleted("foo", 1), replaced(&[("foo", 2)])]);

    assert_eq!(pop(&queue), ["Deleted foo=1", "Replaced foo=2"]);
}

/// Upstream: TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue
#[test]
fn f05_a_list_deletes_objects_that_are_only_queued() {
    let add = || added("foo", 2);
    let same = || replaced(&[("foo", 2)]);
    let none = || replaced(&[]);
    let cases = [
        (
            "added object is deleted",
            vec![add(), none()],
            vec!["Added foo=2", "Vanished foo=2"],
        ),
        (
            "replaced object has a single deletion",
            vec![add(), same(), none()],
            vec!["Added foo=2", "Replaced foo=2", "Vanished foo=2"],
        ),
        (
            "deleted object has a single deletion",
            vec![add(), deleted("foo", 2), none()],
            vec!["Added foo=2", "Deleted foo=2"],
        ),
        (
            "object replaced twice has a single deletion",
            vec![add(), same(), same(), none()],
            vec![
                "Added foo=2",
                "Replaced foo=2",
                "Replaced foo=2",
                "Vanished foo=2",
            ],
        ),
        (
            "two lists make a single deletion",
            vec![add(), none(), none()],
            vec!["Added foo=2", "Vanished foo=2"],
        ),
        (
            "object deleted and added again is deleted",
            vec![add(), deleted("foo", 2), added("foo", 3), none()],
            vec!["Added foo=2", "Deleted foo=2", "Added foo=3", "Vanished foo=3"],
        ),
    ];

    for (name, deltas, expected) in cases {
        for queue in [with_known(&[]), DeltaFifo::new()] {
            accept(&queue, deltas.clone());

            assert_eq!(pop(&queue), expected, "{name}");

            assert!(queue.is_empty(), "{name}");
            assert_eq!(drain(&queue, 1), Vec::<Vec<String>>::new(), "{name}");
        }
    }
}

/// Upstream: TestDeltaFIFO_addUpdate
#[tokio::test(start_paused = true)]
async fn all_deltas_of_a_key_are_one_pop() {
    let queue = DeltaFifo::new();
    accept(&queue, [added("foo", 10), updated("foo", 12), deleted("foo", 15)]);
    assert_eq!(queue.keys(), [key("foo")]);
    assert_eq!(queue.get(&key("foo")).last().map(text).unwrap(), "Deleted foo=15");

    assert_eq!(pop_newest(&queue), "Deleted foo=15");

    assert_nothing_more(&queue).await;
    assert!(queue.get(&key("foo")).is_empty());
}

/// Upstream: TestDeltaFIFO_transformer
///
/// Objects are transformed once, before they reach a queue; the test shows that the queue returns the same objects, and
/// which ones.
#[test]
fn popped_deltas_and_tombstones_hold_the_same_objects() {
    let queue = DeltaFifo::new();
    let foo = thing("foo", 15);
    let bar = thing("bar", 16);
    accept(
        &queue,
        [
            added("foo", 10),
            added("bar", 11),
            updated("foo", 12),
            Change::Deleted(foo.clone()),
            replaced(&[]),
            Change::Added(bar.clone()),
            replaced(&[]),
        ],
    );
    assert_eq!(queue.keys(), [key("foo"), key("bar")]);

    let newest = || queue.get(&queue.keys()[0]).pop().inspect(|_| drop(pop(&queue)));

    assert!(matches!(newest(), Some(Delta::Deleted(object)) if Arc::ptr_eq(&object, &foo)));
    assert!(matches!(
        newest(),
        Some(Delta::Vanished(Tombstone { last: Some(object), .. })) if Arc::ptr_eq(&object, &bar)
    ));
}

/// Upstream: TestDeltaFIFO_enqueueingNoLister
#[test]
fn without_known_objects_a_deletion_of_an_unqueued_key_is_ignored() {
    let queue = DeltaFifo::new();
    accept(
        &queue,
        [
            added("foo", 10),
            updated("bar", 15),
            added("qux", 17),
            deleted("qux", 18),
            deleted("baz", 20),
        ],
    );

    let newest = [pop_newest(&queue), pop_newest(&queue), pop_newest(&queue)];

    assert_eq!(newest, ["Added foo=10", "Updated bar=15", "Deleted qux=18"]);
    assert!(queue.is_empty());
}

/// Upstream: TestDeltaFIFO_enqueueingWithLister
#[test]
fn a_deletion_of_a_known_key_is_queued() {
    let queue = with_known(&HELD);
    accept(&queue, [added("foo", 10), updated("bar", 15), deleted("baz", 20)]);

    let newest = [pop_newest(&queue), pop_newest(&queue), pop_newest(&queue)];

    assert_eq!(newest, ["Added foo=10", "Updated bar=15", "Deleted baz=20"]);
    assert!(queue.is_empty());
}

/// Upstream: TestDeltaFIFO_addReplace
#[tokio::test(start_paused = true)]
async fn a_list_adds_to_the_queued_key() {
    let queue = DeltaFifo::new();
    accept(&queue, [added("foo", 10), replaced(&[("foo", 15)])]);

    assert_eq!(pop_newest(&queue), "Replaced foo=15");

    assert_nothing_more(&queue).await;
    assert!(queue.get(&key("foo")).is_empty());
}

/// Upstream: TestDeltaFIFO_ResyncNonExisting
#[test]
fn a_resync_skips_a_key_whose_deletion_is_queued() {
    let queue = with_known(&[("foo", 5)]);

    accept(&queue, [deleted("foo", 10), Change::SyncAll]);

    assert_eq!(texts(&queue.list()), ["Deleted foo=10"]);
}

/// Upstream: TestDeltaFIFO_Resync
#[test]
fn a_resync_queues_each_known_object() {
    let queue = with_known(&[("foo", 5)]);

    accept(&queue, [Change::SyncAll]);

    assert_eq!(texts(&queue.list()), ["Sync foo=5"]);
}

/// Upstream: TestDeltaFIFO_DeleteExistingNonPropagated
#[test]
fn a_deletion_of_a_queued_key_the_consumer_does_not_hold_is_queued() {
    let queue = with_known(&[]);

    accept(&queue, [added("foo", 5), deleted("foo", 6)]);

    assert_eq!(texts(&queue.get(&key("foo"))), ["Added foo=5", "Deleted foo=6"]);
}

/// Upstream: TestDeltaFIFO_ReplaceMakesDeletions
#[test]
fn a_list_deletes_missing_objects() {
    let foo = || replaced(&[("foo", 5)]);

    let queue = with_known(&HELD);
    accept(&queue, [deleted("baz", 10), foo()]);
    assert_eq!(
        drain(&queue, 1),
        [["Deleted baz=10"], ["Replaced foo=5"], ["Vanished bar=6"]]
    );

    let queue = with_known(&HELD);
    accept(&queue, [added("baz", 10), foo()]);
    assert_eq!(
        drain(&queue, 1),
        [
            vec!["Added baz=10", "Vanished baz=10"],
            vec!["Replaced foo=5"],
            vec!["Vanished bar=6"]
        ]
    );

    let queue = with_known(&HELD);
    accept(&queue, [deleted("bar", 6), added("bar", 100), foo()]);
    assert_eq!(
        drain(&queue, 1),
        [
            vec!["Deleted bar=6", "Added bar=100", "Vanished bar=100"],
            vec!["Replaced foo=5"],
            vec!["Vanished baz=7"]
        ]
    );

    let queue = with_known(&HELD);
    accept(&queue, [replaced(&[("bar", 100), ("foo", 5)]), foo()]);
    assert_eq!(
        drain(&queue, 1),
        [
            vec!["Replaced bar=100", "Vanished bar=100"],
            vec!["Replaced foo=5", "Replaced foo=5"],
            vec!["Vanished baz=7"]
        ]
    );

    let queue = DeltaFifo::new();
    accept(&queue, [added("baz", 10), foo()]);
    assert_eq!(
        drain(&queue, 1),
        [vec!["Added baz=10", "Vanished baz=10"], vec!["Replaced foo=5"]]
    );
}

/// Upstream: TestDeltaFIFO_ReplaceMakesDeletionsReplaced
#[test]
fn a_list_replaces_objects_and_deletes_missing_ones() {
    let queue = with_known(&HELD);

    accept(&queue, [deleted("baz", 10), replaced(&[("foo", 6)])]);

    assert_eq!(
        drain(&queue, 1),
        [["Deleted baz=10"], ["Replaced foo=6"], ["Vanished bar=6"]]
    );
}

/// Upstream: TestDeltaFIFO_ReplaceDeltaType
#[test]
fn a_listed_object_is_replaced_and_not_synced() {
    let queue = with_known(&[("foo", 5)]);

    accept(&queue, [replaced(&[("foo", 5)])]);

    assert_eq!(drain(&queue, 1), [["Replaced foo=5"]]);
}

/// Upstream: TestDeltaFIFO_UpdateResyncRace
#[test]
fn a_resync_does_not_revert_a_queued_update() {
    let queue = with_known(&[("foo", 5)]);

    accept(&queue, [updated("foo", 6), Change::SyncAll]);

    assert_eq!(drain(&queue, 1), [["Updated foo=6"]]);
}

/// Upstream: TestDeltaFIFO_HasSyncedCorrectOnDeletion
#[test]
fn deletions_caused_by_the_first_list_belong_to_the_initial_population() {
    let queue = with_known(&HELD);
    accept(&queue, [replaced(&[("foo", 5)])]);

    for expected in ["Replaced foo=5", "Vanished bar=6", "Vanished baz=7"] {
        assert!(!queue.has_synced());
        assert_eq!(pop_flagged(&queue), (vec![expected.to_owned()], true));
    }

    assert!(queue.has_synced());
}

/// Upstream: TestDeltaFIFO_detectLineJumpers
#[test]
fn a_key_added_again_keeps_its_position() {
    let queue = DeltaFifo::new();
    let values = [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)];
    accept(&queue, values.map(|(name, value)| added(name, value)));

    assert_eq!(pop_newest(&queue), "Added foo=13");
    accept(&queue, [added("foo", 14)]);

    let newest = [pop_newest(&queue), pop_newest(&queue), pop_newest(&queue)];
    assert_eq!(newest, ["Added bar=1", "Added zab=30", "Added foo=14"]);
}

/// Upstream: TestDeltaFIFO_KeyOf
#[test]
fn objects_and_tombstones_have_keys() {
    let tombstone = |name| {
        Delta::<Thing>::Vanished(Tombstone {
            key: key(name),
            last: None,
        })
    };
    assert_eq!(added("A", 0).key(), Some(key("A")));
    assert_eq!(tombstone("B").key(), Some(key("B")));

    // A key's history has the key of each of its deltas.
    let queue = with_known(&[("D", 1)]);
    accept(&queue, [added("C", 0)]);
    queue.add(tombstone("D"));
    assert_eq!(queue.keys(), [key("C"), key("D")]);
    assert_eq!(queue.get(&key("D")).last().and_then(Delta::key), Some(key("D")));
}

/// Upstream: TestDeltaFIFO_HasSynced
#[test]
fn synced_when_the_first_list_has_been_popped() {
    let two = || replaced(&[("a", 1), ("b", 2)]);
    let cases: Vec<(Option<Change<Thing>>, usize, bool)> = vec![
        (None, 0, false),
        (Some(added("a", 1)), 0, true),
        (Some(replaced(&[])), 0, true),
        (Some(two()), 0, false),
        (Some(two()), 1, false),
        (Some(two()), 2, true),
        (Some(replaced(&[("a", 1), ("a", 2)])), 1, true),
    ];

    for (number, (delta, pops, synced)) in cases.into_iter().enumerate() {
        let queue = DeltaFifo::new();
        accept(&queue, delta);
        for _ in 0..pops {
            pop(&queue);
        }
        assert_eq!(queue.has_synced(), synced, "case {number}");
    }
}

/// Upstream: TestDeltaFIFO_PopShouldUnblockWhenClosed
#[tokio::test(start_paused = true)]
async fn closing_ends_all_blocked_pops() {
    let pop = |queue: Arc<DeltaFifo<Thing>>| async move {
        matches!(queue.pop(fine).await, Err(PopError::Closed(_)))
    };
    assert_close_ends_blocked_pops(with_known(&[("foo", 5)]), pop, DeltaFifo::close).await;
}
