//! client-go's `the_real_fifo_test.go`. Only the atomic mode exists here: a list is one `ReplacedAll`, a resync is
//! one `SyncAll`, and missed deletes are detected by the store.

use std::sync::Arc;

use kube_informers::delta::Delta;
use kube_informers::queue::InOrderQueue;

use crate::queue::support::{
    Thing, accept, add_number, added, assert_close_ends_blocked_pops, assert_nothing_more, bad, bookmark,
    deleted, drain, key, number_of, pop, pop_flagged, producers_keep_their_order, replaced, replaced_at,
    texts, thing, try_pop, updated,
};

const UNLIMITED: usize = 999_999;

fn filled(deltas: impl IntoIterator<Item = Delta<Thing>>) -> InOrderQueue<Thing> {
    let queue = InOrderQueue::new();
    accept(&queue, deltas);
    queue
}

/// Upstream: TestRealFIFO_basic
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_producers_values_are_popped_in_order() {
    let queue = Arc::new(InOrderQueue::new().capacity(usize::MAX));
    producers_keep_their_order(queue, add_number, async |queue| {
        number_of(&queue.pop_batch(1).await.unwrap().done())
    })
    .await;
}

/// Upstream: TestRealFIFO_replaceWithDeleteDeltaIn
#[test]
fn a_list_follows_the_deletion_before_it() {
    let queue = filled([deleted("foo", 1), replaced(&[("foo", 2)])]);

    assert_eq!(
        drain(&queue, 1).concat(),
        ["Deleted foo=1", "ReplacedAll@-[foo=2]"]
    );
}

/// Upstream: TestRealFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue
///
/// Upstream's non-atomic queue generates the deletions itself. Here each list is one delta, after the objects it
/// deletes.
#[test]
fn a_list_is_popped_after_the_objects_it_deletes() {
    let add = || added("foo", 2);
    let same = || replaced(&[("foo", 2)]);
    let none = || replaced(&[]);
    let cases: Vec<(Vec<Delta<Thing>>, Vec<&str>)> = vec![
        (vec![add(), none()], vec!["Added foo=2", "ReplacedAll@-[]"]),
        (
            vec![add(), deleted("foo", 2), none()],
            vec!["Added foo=2", "Deleted foo=2", "ReplacedAll@-[]"],
        ),
        (
            vec![add(), same(), same(), none()],
            vec![
                "Added foo=2",
                "ReplacedAll@-[foo=2]",
                "ReplacedAll@-[foo=2]",
                "ReplacedAll@-[]",
            ],
        ),
        (
            vec![add(), none(), none()],
            vec!["Added foo=2", "ReplacedAll@-[]", "ReplacedAll@-[]"],
        ),
        (
            vec![add(), deleted("foo", 2), added("foo", 3), none()],
            vec!["Added foo=2", "Deleted foo=2", "Added foo=3", "ReplacedAll@-[]"],
        ),
    ];

    for (deltas, expected) in cases {
        let queue = filled(deltas);

        assert_eq!(drain(&queue, 1).concat(), expected);
        assert!(queue.is_empty());
    }
}

/// Upstream: TestRealFIFO_addUpdate
#[tokio::test(start_paused = true)]
async fn every_change_of_a_key_is_kept_and_popped() {
    let queue = filled([added("foo", 10), updated("foo", 12), deleted("foo", 15)]);
    assert_eq!(queue.len(), 3);

    assert_eq!(pop(&queue), ["Added foo=10"]);
    assert_eq!(pop(&queue), ["Updated foo=12"]);
    assert_eq!(pop(&queue), ["Deleted foo=15"]);

    assert_nothing_more(&queue).await;
    assert!(queue.is_empty());
}

/// Upstream: TestRealFIFO_transformer
///
/// Objects are transformed once, before they reach a queue; the test shows that the queue returns the same objects, in
/// order.
#[test]
fn popped_deltas_hold_the_same_objects() {
    let objects = [
        thing("foo", 10),
        thing("bar", 11),
        thing("foo", 12),
        thing("foo", 15),
        thing("bar", 16),
    ];
    let [foo_10, bar_11, foo_12, foo_15, bar_16] = objects.clone();
    let queue = filled([
        Delta::Added(foo_10),
        Delta::Added(bar_11),
        Delta::Updated(foo_12),
        Delta::Deleted(foo_15),
        replaced(&[]),
        Delta::Added(bar_16),
        replaced(&[]),
    ]);

    let popped: Vec<Delta<Thing>> = std::iter::from_fn(|| try_pop(&queue, 1))
        .flat_map(|batch| batch.done())
        .collect();

    assert_eq!(
        texts(&popped),
        [
            "Added foo=10",
            "Added bar=11",
            "Updated foo=12",
            "Deleted foo=15",
            "ReplacedAll@-[]",
            "Added bar=16",
            "ReplacedAll@-[]"
        ]
    );
    let out: Vec<_> = popped.iter().filter_map(Delta::object).collect();
    assert_eq!(out.len(), objects.len());
    assert!(
        objects
            .iter()
            .zip(out)
            .all(|(left, right)| Arc::ptr_eq(left, right))
    );
}

/// Upstream: TestRealFIFO_enqueueingNoLister
#[test]
fn the_deletion_of_an_unknown_object_is_queued() {
    let queue = filled([
        added("foo", 10),
        updated("bar", 15),
        added("qux", 17),
        deleted("qux", 18),
        deleted("baz", 20),
    ]);

    assert_eq!(
        drain(&queue, 1).concat(),
        [
            "Added foo=10",
            "Updated bar=15",
            "Added qux=17",
            "Deleted qux=18",
            "Deleted baz=20"
        ]
    );
    assert!(queue.is_empty());
}

/// Upstream: TestRealFIFO_enqueueingWithLister
#[test]
fn changes_of_different_objects_are_popped_in_order() {
    let queue = filled([added("foo", 10), updated("bar", 15), deleted("baz", 20)]);

    assert_eq!(
        drain(&queue, 1).concat(),
        ["Added foo=10", "Updated bar=15", "Deleted baz=20"]
    );
    assert!(queue.is_empty());
}

/// Upstream: TestRealFIFO_addReplace
#[tokio::test(start_paused = true)]
async fn a_list_does_not_replace_earlier_deltas() {
    let queue = filled([added("foo", 10), replaced(&[("foo", 15)])]);

    assert_eq!(pop(&queue), ["Added foo=10"]);
    assert_eq!(pop(&queue), ["ReplacedAll@-[foo=15]"]);

    assert_nothing_more(&queue).await;
    assert!(queue.is_empty());
}

/// Upstream: TestRealFIFO_DeleteExistingNonPropagated
#[test]
fn an_addition_and_a_deletion_are_both_queued() {
    let queue = filled([added("foo", 5), deleted("foo", 6)]);

    assert_eq!(drain(&queue, 1).concat(), ["Added foo=5", "Deleted foo=6"]);
}

/// Upstream: TestRealFIFO_ReplaceMakesDeletions
///
/// Upstream's non-atomic queue generates the deletions itself. Here the store detects them when it applies the list,
/// which is one delta after all earlier ones.
#[test]
fn a_list_is_one_delta_in_order() {
    let foo = || replaced(&[("foo", 5)]);
    let cases: Vec<(Vec<Delta<Thing>>, Vec<&str>)> = vec![
        (
            vec![deleted("baz", 10), foo()],
            vec!["Deleted baz=10", "ReplacedAll@-[foo=5]"],
        ),
        (
            vec![added("baz", 10), foo()],
            vec!["Added baz=10", "ReplacedAll@-[foo=5]"],
        ),
        (
            vec![deleted("bar", 6), added("bar", 100), foo()],
            vec!["Deleted bar=6", "Added bar=100", "ReplacedAll@-[foo=5]"],
        ),
        (
            vec![replaced(&[("bar", 100), ("foo", 5)]), foo()],
            vec!["ReplacedAll@-[bar=100 foo=5]", "ReplacedAll@-[foo=5]"],
        ),
    ];

    for (deltas, expected) in cases {
        assert_eq!(drain(&filled(deltas), 1).concat(), expected);
    }
}

/// Upstream: TestRealFIFO_ReplaceMakesDeletionsReplaced
#[test]
fn a_list_follows_a_deletion_with_the_new_state() {
    let queue = filled([deleted("baz", 10), replaced(&[("foo", 6)])]);

    assert_eq!(
        drain(&queue, UNLIMITED),
        [["Deleted baz=10"], ["ReplacedAll@-[foo=6]"]]
    );
}

/// Upstream: TestRealFIFO_ResyncNonExisting
///
/// The resync comes after the deletion, so the store no longer holds the object when it is applied.
#[test]
fn a_resync_follows_an_earlier_deletion() {
    let queue = filled([deleted("foo", 10), Delta::SyncAll]);

    assert_eq!(drain(&queue, 1).concat(), ["Deleted foo=10", "SyncAll"]);
}

/// Upstream: TestRealFIFO_Resync
#[test]
fn a_resync_is_queued_once() {
    let queue = filled([Delta::SyncAll, Delta::SyncAll]);

    assert_eq!(drain(&queue, 1).concat(), ["SyncAll"]);
}

/// Upstream: TestRealFIFO_UpdateResyncRace
#[test]
fn a_resync_follows_an_earlier_update() {
    let queue = filled([updated("foo", 6), Delta::SyncAll]);

    assert_eq!(drain(&queue, UNLIMITED), [["Updated foo=6"], ["SyncAll"]]);
}

/// Upstream: TestRealFIFO_detectLineJumpers
#[test]
fn all_deltas_keep_their_position() {
    let values = [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)];
    let queue = filled(values.map(|(name, value)| added(name, value)));

    assert_eq!(pop(&queue), ["Added foo=10"]);
    accept(&queue, [added("foo", 14)]);

    assert_eq!(
        drain(&queue, 1).concat(),
        [
            "Added bar=1",
            "Added foo=11",
            "Added foo=13",
            "Added zab=30",
            "Added foo=14"
        ]
    );
}

/// Upstream: TestRealFIFO_KeyOf
#[test]
fn deltas_of_objects_have_keys() {
    let dropped = Delta::<Thing>::Dropped {
        key: key("B"),
        resource_version: None,
    };
    assert_eq!(added("A", 0).key(), Some(key("A")));
    assert_eq!(dropped.key(), Some(key("B")));
    assert_eq!(
        Delta::<Thing>::DeletedUnreadable(bad("C", None)).key(),
        Some(key("C"))
    );
    assert_eq!(Delta::<Thing>::SyncAll.key(), None);
}

/// Upstream: TestRealFIFO_HasSynced
///
/// A list is one pop here, regardless of its size, and an empty one also counts as synced once it is processed.
#[test]
fn synced_when_the_first_list_has_been_popped() {
    let two = || replaced(&[("a", 1), ("b", 2)]);
    let cases: Vec<(Option<Delta<Thing>>, usize, bool)> = vec![
        (None, 0, false),
        (Some(added("a", 1)), 0, true),
        (Some(replaced(&[])), 0, false),
        (Some(replaced(&[])), 1, true),
        (Some(two()), 0, false),
        (Some(two()), 1, true),
        (Some(replaced(&[("a", 1), ("a", 2)])), 1, true),
    ];

    for (number, (delta, pops, synced)) in cases.into_iter().enumerate() {
        let queue = filled(delta);
        for _ in 0..pops {
            pop(&queue);
        }
        assert_eq!(queue.has_synced(), synced, "case {number}");
    }
}

/// Upstream: TestRealFIFO_HasSyncedCorrectOnDeletion
#[test]
fn the_first_list_is_the_initial_population() {
    let queue = filled([replaced(&[("foo", 5)]), deleted("bar", 6)]);
    assert!(!queue.has_synced());

    assert_eq!(
        pop_flagged(&queue),
        (vec!["ReplacedAll@-[foo=5]".to_owned()], true)
    );

    assert!(queue.has_synced());
    assert_eq!(pop_flagged(&queue), (vec!["Deleted bar=6".to_owned()], false));
}

/// Upstream: TestRealFIFO_PopShouldUnblockWhenClosed
#[tokio::test(start_paused = true)]
async fn closing_ends_all_blocked_pops() {
    let pop = |queue: Arc<InOrderQueue<Thing>>| async move { queue.pop_batch(1).await.is_none() };
    assert_close_ends_blocked_pops(InOrderQueue::<Thing>::new(), pop, InOrderQueue::close).await;
}

/// Upstream: TestRealFIFO_PopMultipleDeltaInBatch
///
/// The initial list is one delta, so only its end and the size split a batch. Two changes of one key can be in one
/// batch: the store applies a batch in order.
#[test]
fn a_batch_ends_with_the_initial_population_or_at_its_size() {
    let update = |name: &str| updated(name, 5);
    struct Case {
        initial: &'static [(&'static str, u64)],
        updates: Vec<&'static str>,
        size: usize,
        expected: Vec<Vec<&'static str>>,
    }
    let cases = [
        Case {
            initial: &[("foo1", 5), ("foo2", 5), ("foo3", 5)],
            updates: vec![],
            size: UNLIMITED,
            expected: vec![vec!["ReplacedAll@123[foo1=5 foo2=5 foo3=5]"]],
        },
        Case {
            initial: &[("foo1", 5), ("foo2", 5)],
            updates: vec!["foo3", "foo4"],
            size: 2,
            expected: vec![
                vec!["ReplacedAll@123[foo1=5 foo2=5]"],
                vec!["Updated foo3=5", "Updated foo4=5"],
            ],
        },
        Case {
            initial: &[("foo1", 5)],
            updates: vec!["foo1", "foo1"],
            size: UNLIMITED,
            expected: vec![
                vec!["ReplacedAll@123[foo1=5]"],
                vec!["Updated foo1=5", "Updated foo1=5"],
            ],
        },
        Case {
            initial: &[("foo1", 5), ("foo2", 5)],
            updates: vec!["foo2", "foo3"],
            size: UNLIMITED,
            expected: vec![
                vec!["ReplacedAll@123[foo1=5 foo2=5]"],
                vec!["Updated foo2=5", "Updated foo3=5"],
            ],
        },
        Case {
            initial: &[("foo1", 5), ("foo2", 5), ("foo3", 5)],
            updates: vec!["foo2"],
            size: UNLIMITED,
            expected: vec![
                vec!["ReplacedAll@123[foo1=5 foo2=5 foo3=5]"],
                vec!["Updated foo2=5"],
            ],
        },
        Case {
            initial: &[],
            updates: vec!["foo1", "foo2", "foo3"],
            size: 2,
            expected: vec![
                vec!["ReplacedAll@123[]"],
                vec!["Updated foo1=5", "Updated foo2=5"],
                vec!["Updated foo3=5"],
            ],
        },
    ];

    for case in cases {
        let queue = filled([replaced_at(123, case.initial)]);
        accept(&queue, case.updates.iter().map(|name| update(name)));

        let batches: Vec<(Vec<String>, bool)> = std::iter::from_fn(|| try_pop(&queue, case.size))
            .map(|batch| {
                let initial = batch.initial;
                (texts(&batch.done()), initial)
            })
            .collect();

        let flags: Vec<bool> = batches.iter().map(|(_, initial)| *initial).collect();
        let texts: Vec<Vec<String>> = batches.into_iter().map(|(texts, _)| texts).collect();
        assert_eq!(texts, case.expected);
        // Only the initial list is initial.
        assert_eq!(
            flags,
            (0..flags.len()).map(|number| number == 0).collect::<Vec<_>>()
        );
    }
}

/// Upstream: TestRealFIFO_PopBrokenItemsInBatch
///
/// Upstream ends a batch at an item whose key function fails. Here such an item is an unreadable object without a name;
/// it keeps its position in the batch and affects no other item.
#[test]
fn an_item_without_a_key_is_part_of_its_batch() {
    let broken = || Delta::Unreadable(bad("", None));
    let (ok_1, ok_2) = (|| added("foo1", 5), || added("foo2", 5));
    let cases: Vec<(Vec<Delta<Thing>>, Vec<&str>)> = vec![
        (vec![broken()], vec!["Unreadable"]),
        (
            vec![ok_1(), ok_2(), broken()],
            vec!["Added foo1=5", "Added foo2=5", "Unreadable"],
        ),
        (
            vec![ok_1(), ok_2(), broken(), broken()],
            vec!["Added foo1=5", "Added foo2=5", "Unreadable", "Unreadable"],
        ),
        (
            vec![broken(), ok_1(), broken()],
            vec!["Unreadable", "Added foo1=5", "Unreadable"],
        ),
    ];

    for (deltas, expected) in cases {
        assert_eq!(drain(&filled(deltas), UNLIMITED), [expected]);
    }
}

/// Upstream: TestRealFIFO_ReplaceAtomic
#[test]
fn lists_stay_whole_and_in_order() {
    let cases: Vec<(Vec<Delta<Thing>>, Vec<&str>)> = vec![
        (vec![replaced_at(123, &[])], vec!["ReplacedAll@123[]"]),
        (
            vec![added("foo", 2), replaced_at(123, &[])],
            vec!["Added foo=2", "ReplacedAll@123[]"],
        ),
        (
            vec![
                added("foo", 2),
                replaced_at(10, &[("foo", 2)]),
                replaced_at(20, &[("foo", 2)]),
                replaced_at(56, &[]),
            ],
            vec![
                "Added foo=2",
                "ReplacedAll@10[foo=2]",
                "ReplacedAll@20[foo=2]",
                "ReplacedAll@56[]",
            ],
        ),
        (
            vec![bookmark(123), replaced_at(1234, &[])],
            vec!["Bookmark@123", "ReplacedAll@1234[]"],
        ),
    ];

    for (deltas, expected) in cases {
        let queue = filled(deltas);

        assert_eq!(drain(&queue, UNLIMITED).concat(), expected);
        assert!(queue.is_empty());
    }
}

/// Upstream: TestRealFIFO_ReplaceAtomicPop
#[tokio::test(start_paused = true)]
async fn a_list_is_popped_alone() {
    let queue = filled([added("foo", 10), replaced_at(20, &[("foo", 15)])]);

    assert_eq!(pop(&queue), ["Added foo=10"]);
    assert_eq!(pop(&queue), ["ReplacedAll@20[foo=15]"]);
    assert_nothing_more(&queue).await;
    assert!(queue.is_empty());
}

/// Upstream: TestRealFIFO_ResyncAtomic
#[test]
fn a_resync_is_one_delta_in_order() {
    assert_eq!(drain(&filled([Delta::SyncAll]), UNLIMITED), [["SyncAll"]]);
    assert_eq!(
        drain(&filled([added("foo", 2), Delta::SyncAll]), UNLIMITED),
        [["Added foo=2"], ["SyncAll"]]
    );
}
