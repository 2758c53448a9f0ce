//! client-go's `fifo_test.go`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers_classic::{Fifo, PopError};

use crate::things::{assert_close_ends_blocked_pops, producers_keep_their_order};

type Item = (&'static str, u64);

fn fifo() -> Fifo<Item, &'static str> {
    Fifo::new(|item: &Item| item.0)
}

fn pop<Q: std::hash::Hash + Eq + Clone>(fifo: &Fifo<(Q, u64), Q>) -> u64 {
    let popped = fifo.pop(|_, _| Ok(())).now_or_never().expect("something to pop");
    popped.unwrap().1
}

/// Upstream: TestFIFO_basic
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_producers_values_are_popped_in_order() {
    let fifo = Arc::new(Fifo::new(|item: &(String, u64)| item.clone()));
    producers_keep_their_order(
        fifo,
        |fifo, producer, number| fifo.add((producer.to_owned(), number)),
        async |fifo| {
            let popped = fifo.pop(|_, _| Ok(())).await.unwrap();
            (*popped).clone()
        },
    )
    .await;
}

/// Upstream: TestFIFO_addUpdate
#[tokio::test(start_paused = true)]
async fn an_update_replaces_the_queued_value() {
    let fifo = fifo();
    fifo.add(("foo", 10));
    fifo.update(("foo", 15));
    assert_eq!(fifo.list(), [Arc::new(("foo", 15))]);
    assert_eq!(fifo.keys(), ["foo"]);

    assert_eq!(pop(&fifo), 15);

    assert_nothing_more(&fifo).await;
    assert_eq!(fifo.get(&"foo"), None);
}

/// Upstream: TestFIFO_addReplace
#[tokio::test(start_paused = true)]
async fn a_list_replaces_the_queued_value() {
    let fifo = fifo();
    fifo.add(("foo", 10));
    fifo.replace([("foo", 15)]);

    assert_eq!(pop(&fifo), 15);

    assert_nothing_more(&fifo).await;
    assert_eq!(fifo.get(&"foo"), None);
}

/// Upstream: TestFIFO_detectLineJumpers
#[test]
fn a_key_added_again_keeps_its_position() {
    let fifo = fifo();
    for item in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)] {
        fifo.add(item);
    }

    assert_eq!(pop(&fifo), 13);
    fifo.add(("foo", 14));

    assert_eq!([pop(&fifo), pop(&fifo), pop(&fifo)], [1, 30, 14]);
}

/// Upstream: TestFIFO_HasSynced
#[test]
fn synced_when_the_first_list_has_been_popped() {
    let (a, b) = (("a", 1), ("b", 2));
    let none: [Item; 0] = [];

    assert!(!fifo().has_synced());

    let fifo_added = fifo();
    fifo_added.add(a);
    assert!(fifo_added.has_synced());

    let fifo_empty = fifo();
    fifo_empty.replace(none);
    assert!(fifo_empty.has_synced());

    let fifo = fifo();
    fifo.replace([a, b]);
    assert!(!fifo.has_synced());
    pop(&fifo);
    assert!(!fifo.has_synced());
    pop(&fifo);
    assert!(fifo.has_synced());
}

/// Upstream: TestFIFO_PopShouldUnblockWhenClosed
#[tokio::test(start_paused = true)]
async fn closing_ends_all_blocked_pops() {
    let pop = |fifo: Arc<Fifo<Item, &'static str>>| async move {
        matches!(fifo.pop(|_, _| Ok(())).await, Err(PopError::Closed(_)))
    };
    assert_close_ends_blocked_pops(fifo(), pop, Fifo::close).await;
}

async fn assert_nothing_more(fifo: &Fifo<Item, &'static str>) {
    let more = tokio::time::timeout(Duration::from_millis(50), fifo.pop(|_, _| Ok(()))).await;
    assert!(more.is_err(), "unexpected: {more:?}");
}
