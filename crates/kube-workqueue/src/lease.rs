//! Who judges an item that ends without a verdict: the item itself, or the runner that drives the worker's future
//! and can tell whether it completed.

use crate::Key;
use crate::item::{Held, Item, Verdict};
use parking_lot::Mutex;
use std::sync::Arc;

/// QueueCore by an item and the runner that runs a worker's future with it.
pub(crate) struct Lease<T: Key>(Mutex<Holder<T>>);

enum Holder<T> {
    /// The runner waits for its future; the item is in there, or on its way somewhere else.
    Item,
    /// The item ended without a verdict while the runner was still waiting.
    Runner(Held<T>),
    /// There is nothing left to judge, or the runner has ended and the item is on its own.
    Nobody,
}

impl<T: Key> Lease<T> {
    /// The item ended with a verdict of its own.
    pub(crate) fn settled(&self) {
        *self.0.lock() = Holder::Nobody;
    }

    /// The item ended without a verdict. Returned if there is no runner any more to judge it.
    pub(crate) fn give_back(&self, held: Held<T>) -> Option<Held<T>> {
        let mut holder = self.0.lock();
        match *holder {
            Holder::Item => {
                *holder = Holder::Runner(held);
                None
            }
            Holder::Runner(_) | Holder::Nobody => Some(held),
        }
    }

    /// The runner ends. Returns what it has to judge: nothing if the item had its verdict, or lives on elsewhere
    /// and will have it there.
    fn end(&self) -> Option<Held<T>> {
        match std::mem::replace(&mut *self.0.lock(), Holder::Nobody) {
            Holder::Runner(held) => Some(held),
            Holder::Item | Holder::Nobody => None,
        }
    }
}

/// Runs a worker's future with an item, and judges the item by how the future ends.
pub(crate) async fn run<T, F, R>(item: Item<T>, work: F)
where
    T: Key,
    F: FnOnce(Item<T>) -> R,
    R: Future<Output: Into<Verdict>>,
{
    // Declared before the future is made, so dropped after it: by then the item is gone or handed on.
    let watch = Watch(Arc::new(Lease(Mutex::new(Holder::Item))));
    let output = work(item.under(&watch.0)).await;
    // Converted while the watch is still on: this too is user code.
    let verdict = output.into();
    if let Some(held) = watch.0.end() {
        held.settle(verdict);
    }
}

/// The runner's side of a lease. If it still has something to judge when dropped, the future did not complete.
struct Watch<T: Key>(Arc<Lease<T>>);

impl<T: Key> Drop for Watch<T> {
    fn drop(&mut self) {
        if let Some(held) = self.0.end() {
            held.abandon();
        }
    }
}
