//! `Batch`: the deltas returned by a pop, and how their processing ends.

use std::fmt;
use std::sync::Arc;

use super::Shared;
use crate::delta::Delta;

/// Popped deltas, to be processed.
///
/// The queue returns no other batch until this one is [`done`](Self::done), [requeued](Self::requeue) or dropped. A
/// dropped batch counts as processed, or as requeued if the thread is panicking.
#[must_use = "dropping a batch counts it as processed"]
pub struct Batch<K> {
    /// The deltas, in the order in which they must be applied. Removed deltas count as processed.
    pub deltas: Vec<Delta<K>>,
    /// Whether they belong to the initial population, which is the first list.
    #[doc(alias = "isInInitialList")]
    pub initial: bool,
    /// `None` after the end.
    queue: Option<Arc<Shared<K>>>,
}

impl<K> Batch<K> {
    pub(super) fn new(deltas: Vec<Delta<K>>, initial: bool, queue: Arc<Shared<K>>) -> Self {
        Self {
            deltas,
            initial,
            queue: Some(queue),
        }
    }

    /// Ends the processing. Returns the deltas that were not removed.
    pub fn done(mut self) -> Vec<Delta<K>> {
        let deltas = std::mem::take(&mut self.deltas);
        self.end(Vec::new());
        deltas
    }

    /// Returns the remaining [`deltas`](Self::deltas) to the front of the queue. There is no delay before the next pop.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(mut self) {
        let rest = std::mem::take(&mut self.deltas);
        self.end(rest);
    }

    fn end(&mut self, rest: Vec<Delta<K>>) {
        if let Some(queue) = self.queue.take() {
            queue.finish(self.initial, rest);
        }
    }
}

impl<K> Drop for Batch<K> {
    fn drop(&mut self) {
        let deltas = std::mem::take(&mut self.deltas);
        self.end(if std::thread::panicking() {
            deltas
        } else {
            Vec::new()
        });
    }
}

/// Shows the kinds of the deltas, not their objects, which may be Secrets.
impl<K> fmt::Debug for Batch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("deltas", &self.deltas.iter().map(Delta::name).collect::<Vec<_>>())
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}
