//! `Fifo` beyond client-go: requeue, deletion, panics, re-entrance, use as a target.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::delta::{Delta, Replacement};
use kube_informers::queue::Closed;
use kube_informers::target::Target;
use kube_informers_classic::{Failure, Fifo, PopError};

use crate::things::{Thing, bad, key, replaced, thing, updated};

type Item = (&'static str, u64);

fn fifo() -> Fifo<Item, &'static str> {
    Fifo::new(|item: &Item| item.0)
}

fn pop(fifo: &Fifo<Item, &'static str>) -> Option<Item> {
    let popped = fifo.pop(|_, _| Ok(())).now_or_never()?;
    popped.ok().map(|item| *item)
}

/// Pops one value with a process function that calls the queue and then requests a requeue.
fn fail(fifo: &Fifo<Item, &'static str>, meanwhile: impl FnOnce(&Fifo<Item, &'static str>)) -> PopError {
    let popped = fifo.pop(|_, _| {
        meanwhile(fifo);
        Err(Failure::requeue("not now"))
    });
    popped.now_or_never().expect("something to pop").unwrap_err()
}

#[test]
fn a_requeued_value_moves_to_the_end() {
    let fifo = fifo();
    fifo.replace([("foo", 1), ("bar", 2)]);

    let error = fail(&fifo, |_| {});

    assert!(matches!(error, PopError::Process(cause) if cause.to_string() == "not now"));
    assert_eq!(fifo.keys(), ["bar", "foo"]);
    assert_eq!([pop(&fifo), pop(&fifo)], [Some(("bar", 2)), Some(("foo", 1))]);
}

#[test]
fn a_requeued_value_is_dropped_if_a_newer_one_is_queued() {
    let fifo = fifo();
    fifo.add(("foo", 1));

    fail(&fifo, |fifo| fifo.add(("foo", 2)));

    assert_eq!([pop(&fifo), pop(&fifo)], [Some(("foo", 2)), None]);
}

#[test]
fn a_failure_without_requeue_drops_the_value() {
    let fifo = fifo();
    fifo.add(("foo", 1));
    let failing = |_: Arc<Item>, _| -> Result<(), Failure> { Err(std::fmt::Error.into()) };

    let error = fifo.pop(failing).now_or_never().unwrap().unwrap_err();

    assert!(matches!(error, PopError::Process(_)));
    assert!(fifo.is_empty());
}

#[test]
fn sync_waits_for_a_requeued_value_of_the_first_list() {
    let fifo = fifo();
    fifo.replace([("foo", 1)]);

    fail(&fifo, |_| {});
    assert!(!fifo.has_synced());
    fail(&fifo, |fifo| fifo.add(("foo", 2)));
    assert!(!fifo.has_synced());

    let mut initial = None;
    let popped = fifo.pop(|_, info| {
        initial = Some(info.initial);
        assert!(!fifo.has_synced(), "synced while the last value is processed");
        Ok(())
    });
    popped.now_or_never().unwrap().unwrap();
    assert_eq!(initial, Some(true));
    assert!(fifo.has_synced());
}

#[test]
fn sync_does_not_wait_for_deleted_or_replaced_values() {
    let deleted = fifo();
    deleted.replace([("foo", 1)]);
    assert_eq!(deleted.delete(&"foo"), Some(Arc::new(("foo", 1))));
    assert!(deleted.has_synced());

    let replaced = fifo();
    replaced.replace([("foo", 1)]);
    replaced.replace([("bar", 1)]);
    assert!(replaced.has_synced());
}

#[test]
fn a_deleted_key_loses_its_position() {
    let fifo = fifo();
    fifo.add(("foo", 1));
    fifo.add(("bar", 2));
    assert_eq!(fifo.delete(&"nobody"), None);
    fifo.delete(&"foo");
    fifo.add(("foo", 3));

    assert_eq!(fifo.keys(), ["bar", "foo"]);
    assert_eq!(fifo.len(), 2);
}

#[test]
fn add_if_absent_does_not_change_a_queued_value() {
    let fifo = fifo();

    assert!(fifo.add_if_absent(("foo", 1)));
    assert!(!fifo.add_if_absent(("foo", 2)));

    assert_eq!(fifo.get(&"foo"), Some(Arc::new(("foo", 1))));
}

#[test]
fn a_list_is_popped_in_order_and_the_last_value_of_a_key_wins() {
    let fifo = fifo();

    fifo.replace([("b", 1), ("a", 2), ("b", 3)]);

    assert_eq!(fifo.list(), [Arc::new(("b", 3)), Arc::new(("a", 2))]);
}

#[test]
fn a_panic_requeues_the_value_and_leaves_the_queue_usable() {
    let fifo = fifo();
    fifo.replace([("foo", 1)]);

    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        fifo.pop(|_, _| panic!("process function")).now_or_never()
    }));

    assert!(panicked.is_err());
    assert!(!fifo.has_synced());
    assert_eq!(pop(&fifo), Some(("foo", 1)));
    assert!(fifo.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_pop_takes_nothing() {
    let fifo = fifo();
    let waited = tokio::time::timeout(Duration::from_secs(1), fifo.pop(|_, _| Ok(()))).await;
    assert!(waited.is_err());

    fifo.add(("foo", 1));

    assert_eq!(pop(&fifo), Some(("foo", 1)));
}

#[tokio::test]
async fn a_closed_queue_is_drained_and_still_accepts() {
    let fifo = fifo();
    fifo.add(("foo", 1));
    fifo.close();
    fifo.add(("bar", 2));

    assert!(fifo.is_closed());
    assert_eq!([pop(&fifo), pop(&fifo)], [Some(("foo", 1)), Some(("bar", 2))]);
    assert!(matches!(
        fifo.pop(|_, _| Ok(())).await,
        Err(PopError::Closed(Closed))
    ));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_ends_when_the_queue_is_synced_or_closed() {
    let synced = fifo();
    let unsynced = fifo();
    synced.replace([("foo", 1)]);

    let (result, ()) = tokio::join!(synced.synced(), async {
        tokio::task::yield_now().await;
        pop(&synced);
    });
    assert_eq!(result, Ok(()));

    let (result, ()) = tokio::join!(unsynced.synced(), async {
        tokio::task::yield_now().await;
        unsynced.close();
    });
    assert_eq!(result, Err(Closed));
}

#[test]
fn it_can_be_the_target_of_a_reflector() {
    let fifo: Fifo<Thing, _> = Fifo::of_objects();
    let list = Delta::ReplacedAll(Replacement {
        shard: None,
        objects: vec![thing("foo", 3), thing("bar", 4)],
        unreadable: vec![bad("baz", None), bad("", None)],
        resource_version: None,
    });

    fifo.accept(replaced(&[("foo", 1), ("baz", 2), ("gone", 2)]))
        .unwrap();
    fifo.accept(list).unwrap();
    fifo.accept(updated("foo", 5)).unwrap();
    fifo.accept(Delta::Deleted(thing("bar", 6))).unwrap();
    fifo.accept(Delta::SyncAll).unwrap();
    let refused = fifo.accept(Delta::Unreadable(bad("foo", Some(9)))).unwrap_err();

    // An unreadable object keeps its queued value.
    let queued: Vec<(String, u64)> = fifo
        .list()
        .iter()
        .map(|object| (object.name.clone(), object.value))
        .collect();
    assert_eq!(queued, [("baz".to_owned(), 2), ("foo".to_owned(), 5)]);
    assert_eq!(
        refused.to_string(),
        "object foo at version 9 cannot be decoded: spec: invalid type (10 bytes)"
    );

    fifo.accept(Delta::DeletedUnreadable(bad("baz", None))).unwrap();
    assert_eq!(fifo.keys(), [key("foo")]);
}
