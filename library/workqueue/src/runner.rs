//! Runs a worker's future with an item.

use crate::Key;
use crate::held::Verdict;
use crate::item::Item;
use crate::lease::Lease;
use std::sync::Arc;

/// Runs a worker's future with an item; the output of the future is the verdict.
pub(crate) async fn run<T, F, R>(item: Item<T>, work: F)
where
    T: Key,
    F: FnOnce(Item<T>) -> R,
    R: Future<Output: Into<Verdict>>,
{
    // Declared before the future, so dropped after it: by then the item is dropped or passed on.
    let watch = Watch(Arc::new(Lease::new()));
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
