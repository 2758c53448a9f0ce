//! Decides the verdict of an item that is dropped: the item itself, or the runner that drives the worker's future and
//! knows whether it completed.

use crate::Key;
use crate::item::{Held, Item, Verdict};
use crate::lock::Mutex;
use std::sync::Arc;

/// Shared by an item and the runner that drives a worker's future with it.
pub(crate) struct Lease<T: Key>(Mutex<Holder<T>>);

enum Holder<T> {
    /// The runner awaits its future; the future holds the item, or has passed it on.
    Item,
    /// The item was dropped without a verdict while the runner was still waiting.
    Runner(Held<T>),
    /// The item is finished, or the runner has ended and the item decides for itself.
    Nobody,
}

impl<T: Key> Lease<T> {
    /// The item was finished with a verdict.
    pub(crate) fn settled(&self) {
        *self.0.lock() = Holder::Nobody;
    }

    /// The item was dropped without a verdict. Returned if there is no runner any more.
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

    /// Ends the runner. Returns the key it has to finish: none if the item had its verdict, or was passed on.
    fn end(&self) -> Option<Held<T>> {
        match std::mem::replace(&mut *self.0.lock(), Holder::Nobody) {
            Holder::Runner(held) => Some(held),
            Holder::Item | Holder::Nobody => None,
        }
    }
}

/// Runs a worker's future with an item; the output of the future is the verdict.
pub(crate) async fn run<T, F, R>(item: Item<T>, work: F)
where
    T: Key,
    F: FnOnce(Item<T>) -> R,
    R: Future<Output: Into<Verdict>>,
{
    // Declared before the future, so dropped after it: by then the item is dropped or passed on.
    let watch = Watch(Arc::new(Lease(Mutex::new(Holder::Item))));
    let output = work(item.under(&watch.0)).await;
    // Converted while the guard is active: this is user code, too.
    let verdict = output.into();
    if let Some(mut held) = watch.0.end() {
        held.settle(verdict);
    }
}

/// The runner's side of a lease. If it is dropped with a key to finish, the future did not complete.
struct Watch<T: Key>(Arc<Lease<T>>);

impl<T: Key> Drop for Watch<T> {
    fn drop(&mut self) {
        if let Some(mut held) = self.0.end() {
            held.abandon();
        }
    }
}
