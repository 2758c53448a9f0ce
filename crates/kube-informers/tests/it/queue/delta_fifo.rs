//! `DeltaFifo` beyond client-go: what is in process, versions, unreadable objects, requeue, back-pressure.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use kube_informers::ObjectKey;
use kube_informers::delta::{Delta, Replacement, Tombstone};
use kube_informers::queue::{DeltaFifo, DeltaQueue, Failure, KnownKeys, PopError};
use kube_informers::target::Target;

use super::support::{
    Held, Thing, accept, added, bad, bookmark, deleted, drain, key, pop, pop_flagged, replaced, replaced_at,
    texts, thing, try_pop, updated, versioned,
};

fn filled(deltas: impl IntoIterator<Item = Delta<Thing>>) -> DeltaFifo<Thing> {
    let queue = DeltaFifo::new();
    accept(&queue, deltas);
    queue
}

fn list(objects: &[(&str, u64)], unreadable: &[&str]) -> Delta<Thing> {
    Delta::ReplacedAll(Replacement {
        shard: None,
        objects: objects.iter().map(|(name, value)| thing(name, *value)).collect(),
        unreadable: unreadable.iter().map(|name| bad(name, None)).collect(),
        resource_version: None,
    })
}

fn unreadable(name: &str) -> Delta<Thing> {
    Delta::Unreadable(bad(name, None))
}

fn deleted_unreadable(name: &str) -> Delta<Thing> {
    Delta::DeletedUnreadable(bad(name, None))
}

fn vanished(name: &str, last: Option<u64>) -> Delta<Thing> {
    Delta::Vanished(Tombstone {
        key: key(name),
        last: last.map(|value| thing(name, value)),
    })
}

// What is in process: neither queued any more nor held yet.

#[test]
fn f05_a_deletion_that_comes_while_its_addition_is_in_process_is_not_lost() {
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
fn f05_a_list_that_comes_while_an_addition_is_in_process_deletes_it() {
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
fn a_deletion_in_process_is_not_told_again() {
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1)]));
    accept(&queue, [deleted("foo", 2)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [deleted("foo", 2), replaced(&[])]);

    batch.done();
    assert!(queue.is_empty());
}

#[test]
fn a_resync_does_not_take_back_what_is_in_process() {
    let held = Held::of(&[("bar", 1), ("foo", 1)]);
    let queue = DeltaFifo::new().known(held.clone());
    accept(&queue, [updated("foo", 2)]);
    let batch = try_pop(&queue, 1).unwrap();

    accept(&queue, [Delta::SyncAll]);
    held.insert(thing("foo", 2));
    batch.done();

    assert_eq!(drain(&queue, 1), [["Sync bar=1"]]);
}

#[test]
fn without_known_objects_what_is_in_process_counts_as_gone() {
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
        Delta::SyncAll,
        Delta::Deleted(versioned("foo", 8)),
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
fn a_version_is_told_only_when_the_queue_is_empty() {
    let queue = filled([
        Delta::Added(versioned("foo", 5)),
        Delta::Added(versioned("bar", 6)),
        Delta::Updated(versioned("foo", 7)),
    ]);

    assert_eq!(pop(&queue), ["Added foo=5", "Updated foo=7"]);
    assert_eq!(pop(&queue), ["Added bar=6", "Bookmark@7"]);
    assert_eq!(drain(&queue, 1), Vec::<Vec<String>>::new());
}

#[test]
fn a_bookmark_is_told_at_once_when_nothing_is_queued() {
    let queue = filled([bookmark(7)]);
    assert!(queue.is_empty());

    assert_eq!(drain(&queue, 1), [["Bookmark@7"]]);

    accept(&queue, [bookmark(7)]);
    assert!(try_pop(&queue, 1).is_none(), "told already");
}

#[test]
fn an_ignored_deletion_moves_the_version_nevertheless() {
    let queue = filled([Delta::Deleted(versioned("foo", 9))]);

    assert_eq!(drain(&queue, 1), [["Bookmark@9"]]);
}

#[test]
fn only_a_list_can_take_the_version_back() {
    let queue = filled([bookmark(10), Delta::Added(versioned("foo", 9))]);
    assert_eq!(pop(&queue), ["Added foo=9", "Bookmark@10"]);

    accept(&queue, [replaced_at(3, &[("foo", 1)])]);
    assert_eq!(pop(&queue), ["Replaced foo=1", "Bookmark@3"]);

    // A source without versions has none to tell.
    accept(&queue, [replaced(&[("foo", 1)])]);
    assert_eq!(pop(&queue), ["Replaced foo=1"]);
}

#[test]
fn a_requeue_takes_the_told_version_back() {
    let queue = filled([Delta::Added(versioned("foo", 5))]);
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
fn a_list_with_a_version_and_no_objects_is_synced_and_told() {
    let queue = filled([replaced_at(4, &[])]);

    assert!(queue.has_synced());
    assert_eq!(drain(&queue, 1), [["Bookmark@4"]]);
}

// Batches and sync.

#[test]
fn a_batch_holds_whole_keys_and_never_both_initial_and_later_ones() {
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
fn a_history_is_never_split_even_if_it_is_larger_than_the_batch() {
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
fn requeued_keys_go_to_the_end_of_the_line_and_stay_initial() {
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
fn a_requeued_key_yields_to_anything_newer() {
    let queue = filled([replaced(&[("foo", 1), ("bar", 2)])]);
    let batch = try_pop(&queue, 2).unwrap();
    accept(&queue, [updated("foo", 3)]);

    batch.requeue();

    assert_eq!(pop_flagged(&queue), (vec!["Updated foo=3".to_owned()], true));
    assert!(!queue.has_synced());
    assert_eq!(pop_flagged(&queue), (vec!["Replaced bar=2".to_owned()], true));
    assert!(queue.has_synced());
}

#[test]
fn a_requeued_key_does_not_yield_to_an_unreadable_state() {
    let queue = filled([added("foo", 1)]);
    let batch = try_pop(&queue, 1).unwrap();
    accept(&queue, [unreadable("foo")]);

    batch.requeue();

    assert_eq!(drain(&queue, 1), [["Added foo=1", "Unreadable foo"]]);
}

#[test]
fn only_what_is_left_in_the_batch_is_requeued() {
    let queue = filled([replaced(&[("foo", 1), ("bar", 2), ("baz", 3)])]);
    let mut batch = try_pop(&queue, 3).unwrap();

    batch.deltas.drain(..2);
    batch.requeue();

    assert_eq!(pop_flagged(&queue), (vec!["Replaced baz=3".to_owned()], true));
    assert!(queue.has_synced());
}

#[tokio::test]
async fn a_process_function_may_ask_for_a_requeue() {
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
fn add_if_absent_leaves_a_queued_key_alone() {
    let queue = DeltaFifo::new();

    assert!(queue.add_if_absent(added("foo", 1)));
    assert!(!queue.add_if_absent(updated("foo", 2)));
    assert!(queue.add_if_absent(replaced(&[("bar", 3)])));

    assert_eq!(
        drain(&queue, 1),
        [vec!["Added foo=1", "Vanished foo=1"], vec!["Replaced bar=3"]]
    );
}

// Unreadable objects.

#[test]
fn an_unreadable_object_of_a_list_exists() {
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1), ("bar", 2)]));

    accept(&queue, [list(&[("foo", 3)], &["bar"])]);

    assert_eq!(drain(&queue, 1), [["Replaced foo=3"], ["Unreadable bar"]]);
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
    // What it was before its deletion is not the state of the object that came after.
    assert_eq!(newest("again"), "Vanished again");
}

#[test]
fn an_unreadable_deletion_deletes_by_key() {
    let queue = DeltaFifo::new().known(Held::of(&[("foo", 1)]));

    accept(&queue, [deleted_unreadable("foo"), deleted_unreadable("nobody")]);

    assert_eq!(drain(&queue, 1), [["DeletedUnreadable foo"]]);
}

#[test]
fn a_deletion_of_an_object_that_never_could_be_read_gets_through() {
    let held = Held::default();
    held.apply(&unreadable("foo"));
    let queue = DeltaFifo::new().known(held.clone());

    accept(&queue, [deleted("foo", 2)]);
    assert_eq!(drain(&queue, 1), [["Deleted foo=2"]]);

    accept(&queue, [replaced(&[])]);
    assert_eq!(drain(&queue, 1), [["Vanished foo"]]);
}

#[test]
fn objects_without_a_name_are_popped_first_and_on_their_own() {
    let queue = filled([
        list(&[("foo", 1)], &["", ""]),
        Delta::DeletedUnreadable(bad("", Some(9))),
    ]);
    assert_eq!(queue.len(), 4);
    assert_eq!(queue.keys(), [key("foo")]);

    let batch = try_pop(&queue, 2).unwrap();
    assert_eq!(texts(&batch.deltas), ["Unreadable", "Unreadable"]);
    batch.requeue();

    assert_eq!(
        drain(&queue, 10),
        [
            vec!["DeletedUnreadable", "Unreadable", "Unreadable"],
            vec!["Replaced foo=1", "Bookmark@9"]
        ]
    );
    assert!(queue.has_synced());
}

#[test]
fn of_two_deletions_in_a_row_the_more_telling_one_is_kept() {
    let cases = [
        (deleted("foo", 1), deleted("foo", 2), "Deleted foo=1"),
        (deleted("foo", 1), vanished("foo", Some(2)), "Deleted foo=1"),
        (deleted("foo", 1), deleted_unreadable("foo"), "Deleted foo=1"),
        (vanished("foo", Some(1)), deleted("foo", 2), "Deleted foo=2"),
        (vanished("foo", None), vanished("foo", Some(2)), "Vanished foo=2"),
        (
            vanished("foo", None),
            deleted_unreadable("foo"),
            "DeletedUnreadable foo",
        ),
        (deleted_unreadable("foo"), deleted("foo", 2), "Deleted foo=2"),
        (
            deleted_unreadable("foo"),
            vanished("foo", Some(2)),
            "DeletedUnreadable foo",
        ),
    ];

    for (older, newer, kept) in cases {
        let queue = DeltaFifo::new().known(Held::of(&[("foo", 0)]));
        accept(&queue, [older, newer]);

        assert_eq!(queue.len(), 1);
        assert_eq!(drain(&queue, 1), [[kept]]);
    }
}

// Back-pressure.

#[test]
fn a_full_queue_says_so_and_takes_a_whole_list_nevertheless() {
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
