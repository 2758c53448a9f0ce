//! `Batch`: the deltas returned by a pop of a `DeltaFifo`, and how their processing ends.

use std::fmt;
use std::sync::Arc;

use kube_informers::Object;

use crate::delta::Delta;
use crate::delta_fifo::KeyedDeltas;
use crate::gate::Gate;
use crate::pop::{BoxError, Failure, PopInfo};

/// Popped deltas, to be processed.
///
/// The queue returns no other batch until this one is [`done`](Self::done), [requeued](Self::requeue) or dropped. A
/// dropped batch counts as processed, or as requeued if the thread is panicking.
#[must_use = "dropping a batch counts it as processed"]
pub struct Batch<K: Object> {
    /// The deltas, in the order in which they must be applied. Removed deltas count as processed.
    pub deltas: Vec<Delta<K>>,
    /// Whether they belong to the initial population, which is the first list.
    #[doc(alias = "isInInitialList")]
    pub initial: bool,
    /// `None` after the end.
    queue: Option<Arc<Gate<KeyedDeltas<K>>>>,
}

impl<K: Object> Batch<K> {
    pub(crate) fn new(deltas: Vec<Delta<K>>, initial: bool, queue: Arc<Gate<KeyedDeltas<K>>>) -> Self {
        Self {
            deltas,
            initial,
            queue: Some(queue),
        }
    }

    /// Ends the processing. Returns the deltas that were not removed.
    pub fn done(mut self) -> Vec<Delta<K>> {
        let deltas = std::mem::take(&mut self.deltas);
        self.end(None);
        deltas
    }

    /// Returns the remaining [`deltas`](Self::deltas) to the queue, to be popped again: each key moves to the end, or its
    /// deltas are dropped if newer ones have arrived. There is no delay before the next pop.
    ///
    /// Differs from client-go: the delta of a list stays in front of newer ones of a watch, because their versions cannot be
    /// compared with the cache if the server was restored.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(mut self) {
        let rest = std::mem::take(&mut self.deltas);
        self.end(Some(rest));
    }

    /// Processes the batch with a function, and requeues it if the function requests it.
    ///
    /// # Errors
    ///
    /// The error of the function. Unless it is a [`Failure::requeue`], the deltas are dropped.
    pub fn process(
        self,
        process: impl FnOnce(&[Delta<K>], PopInfo) -> Result<(), Failure>,
    ) -> Result<Vec<Delta<K>>, BoxError> {
        let info = PopInfo {
            initial: self.initial,
        };
        match process(&self.deltas, info).map_err(Failure::into_parts) {
            Ok(()) => Ok(self.done()),
            Err((error, requeue)) => {
                if requeue {
                    self.requeue();
                }
                Err(error)
            }
        }
    }

    fn end(&mut self, requeued: Option<Vec<Delta<K>>>) {
        if let Some(queue) = self.queue.take() {
            queue.finish(|contents| contents.finish(self.initial, requeued));
        }
    }
}

impl<K: Object> Drop for Batch<K> {
    fn drop(&mut self) {
        let deltas = std::mem::take(&mut self.deltas);
        self.end(std::thread::panicking().then_some(deltas));
    }
}

/// Shows the kinds of the deltas, not their objects, which may be Secrets.
impl<K: Object> fmt::Debug for Batch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("deltas", &self.deltas.iter().map(Delta::name).collect::<Vec<_>>())
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}
