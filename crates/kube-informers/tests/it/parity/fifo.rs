//! client-go's `fifo_test.go`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::queue::{Fifo, PopError};
use tokio::task::JoinSet;

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
    const AMOUNT: u64 = 500;
    let fifo = Arc::new(Fifo::new(|item: &((char, u64), u64)| item.0));
    let mut producers = JoinSet::new();
    for producer in ['a', 'b'] {
        let fifo = fifo.clone();
        producers.spawn(async move {
            for i in 0..AMOUNT {
                fifo.add(((producer, i), i + 1));
            }
        });
    }

    let mut last = std::collections::HashMap::new();
    for _ in 0..2 * AMOUNT {
        let popped = fifo.pop(|_, _| Ok(())).await.unwrap();
        let last = last.entry(popped.0.0).or_insert(0);
        assert!(popped.1 > *last, "{} came after {last}", popped.1);
        *last = popped.1;
    }

    assert_eq!(last, [('a', AMOUNT), ('b', AMOUNT)].into());
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
fn a_key_added_again_does_not_jump_the_line() {
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
    let fifo = Arc::new(fifo());
    let mut pops = JoinSet::new();
    for _ in 0..10 {
        let fifo = fifo.clone();
        pops.spawn(async move { fifo.pop(|_, _| Ok(())).await });
    }
    tokio::task::yield_now().await;
    assert_eq!(pops.len(), 10);

    fifo.close();

    let ended = tokio::time::timeout(Duration::from_millis(500), pops.join_all())
        .await
        .expect("all pops end");
    assert!(
        ended
            .iter()
            .all(|result| matches!(result, Err(PopError::Closed(_))))
    );
}

async fn assert_nothing_more(fifo: &Fifo<Item, &'static str>) {
    let more = tokio::time::timeout(Duration::from_millis(50), fifo.pop(|_, _| Ok(()))).await;
    assert!(more.is_err(), "unexpected: {more:?}");
}
