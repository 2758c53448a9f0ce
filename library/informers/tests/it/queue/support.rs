//! Pops of an `InOrderQueue` as text.

use std::time::Duration;

use futures_util::FutureExt;
use kube_informers::delta::Delta;
use kube_informers::queue::{Batch, InOrderQueue};

pub use super::things::*;

/// `Added foo=10`, `ReplacedAll@20[foo=15]`, `Bookmark@7`.
pub fn text(delta: &Delta<Thing>) -> String {
    let of = |object: &Thing| format!("{}={}", object.name, object.value);
    match delta {
        Delta::ReplacedAll(list) => {
            let objects = list.objects.iter().map(|object| of(object));
            let unreadable = list.unreadable.iter().map(|bad| match &bad.key {
                Some(key) => format!("{key}=?"),
                None => "?".to_owned(),
            });
            let items: Vec<String> = objects.chain(unreadable).collect();
            let version = list.resource_version.as_deref().unwrap_or("-");
            format!("ReplacedAll@{version}[{}]", items.join(" "))
        }
        Delta::Bookmark { resource_version } => format!("Bookmark@{resource_version}"),
        Delta::SyncAll => "SyncAll".to_owned(),
        other => match (other.object(), other.key()) {
            (Some(object), _) => format!("{} {}", other.name(), of(object)),
            (None, Some(key)) => format!("{} {key}", other.name()),
            (None, None) => other.name().to_owned(),
        },
    }
}

pub fn texts(deltas: &[Delta<Thing>]) -> Vec<String> {
    deltas.iter().map(text).collect()
}

/// Pops without waiting; `None` if the pop would have to wait.
pub fn try_pop(queue: &InOrderQueue<Thing>, max: usize) -> Option<Batch<Thing>> {
    queue.pop_batch(max).now_or_never().flatten()
}

/// Pops and processes one entry. Returns its deltas as text, and whether it was initial.
pub fn pop_flagged(queue: &InOrderQueue<Thing>) -> (Vec<String>, bool) {
    let batch = try_pop(queue, 1).expect("something to pop");
    let initial = batch.initial;
    (texts(&batch.done()), initial)
}

/// Pops and processes one entry. Returns its deltas as text.
pub fn pop(queue: &InOrderQueue<Thing>) -> Vec<String> {
    pop_flagged(queue).0
}

/// Pops and processes everything. Returns the batches as text.
pub fn drain(queue: &InOrderQueue<Thing>, max: usize) -> Vec<Vec<String>> {
    std::iter::from_fn(|| try_pop(queue, max))
        .map(|batch| texts(&batch.done()))
        .collect()
}

/// Asserts that nothing can be popped within 50 ms of virtual time.
pub async fn assert_nothing_more(queue: &InOrderQueue<Thing>) {
    let more = tokio::time::timeout(Duration::from_millis(50), queue.pop_batch(1)).await;
    if let Ok(more) = more {
        panic!("unexpected: {more:?}");
    }
}

/// The producer and the number of the newest of some deltas.
pub fn number_of(deltas: &[Delta<Thing>]) -> (String, u64) {
    let newest = deltas.last().and_then(Delta::object).unwrap();
    (newest.name[..1].to_owned(), newest.value)
}
