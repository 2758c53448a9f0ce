//! Decides the verdict of an item that is dropped: the item itself, or the runner that drives the worker's future and
//! knows whether it completed.

use crate::Key;
use crate::held::Held;
use crate::lock::Mutex;

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
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Holder::Item))
    }

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
    pub(crate) fn end(&self) -> Option<Held<T>> {
        match std::mem::replace(&mut *self.0.lock(), Holder::Nobody) {
            Holder::Runner(held) => Some(held),
            Holder::Item | Holder::Nobody => None,
        }
    }
}
