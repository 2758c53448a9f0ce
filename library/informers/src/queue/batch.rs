//! `Batch`: the deltas returned by a pop, and how their processing ends.

use std::error::Error;
use std::fmt;

use super::Closed;
use super::DeltaQueue;
use crate::delta::Delta;

/// An error of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

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
    finish: Option<Finish<K>>,
}

type Finish<K> = Box<dyn FnOnce(Finished<K>) + Send + Sync>;

/// How the processing of a [`Batch`] ended, for implementations of [`DeltaQueue`].
pub enum Finished<K> {
    /// All deltas have been processed.
    Processed,
    /// These deltas have not been processed and are popped again.
    Requeued(Vec<Delta<K>>),
}

/// Without the objects, which may be Secrets.
impl<K> fmt::Debug for Finished<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processed => f.write_str("Processed"),
            Self::Requeued(deltas) => write!(f, "Requeued({} deltas)", deltas.len()),
        }
    }
}

impl<K> Batch<K> {
    /// Creates a batch. `finish` is called exactly once, when the processing has ended.
    pub fn new(
        deltas: Vec<Delta<K>>,
        initial: bool,
        finish: impl FnOnce(Finished<K>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            deltas,
            initial,
            finish: Some(Box::new(finish)),
        }
    }

    /// Ends the processing. Returns the deltas that were not removed.
    pub fn done(mut self) -> Vec<Delta<K>> {
        let deltas = std::mem::take(&mut self.deltas);
        self.end(Finished::Processed);
        deltas
    }

    /// Returns the remaining [`deltas`](Self::deltas) to the queue, to be popped again.
    ///
    /// [`DeltaFifo`](super::DeltaFifo) moves each key to the end, or drops its deltas if newer ones have arrived.
    /// [`InOrderQueue`](super::InOrderQueue) returns the deltas to the front. There is no delay before the next pop.
    ///
    /// Differs from client-go: a [`DeltaFifo`](super::DeltaFifo) keeps the delta of a list in front of newer ones of a watch, because
    /// their versions cannot be compared with the cache if the server was restored.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(mut self) {
        let rest = std::mem::take(&mut self.deltas);
        self.end(Finished::Requeued(rest));
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
        match process(&self.deltas, info) {
            Ok(()) => Ok(self.done()),
            Err(failure) => {
                if failure.requeue {
                    self.requeue();
                }
                Err(failure.error)
            }
        }
    }

    fn end(&mut self, finished: Finished<K>) {
        if let Some(finish) = self.finish.take() {
            finish(finished);
        }
    }
}

impl<K> Drop for Batch<K> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let rest = std::mem::take(&mut self.deltas);
            self.end(Finished::Requeued(rest));
        } else {
            self.end(Finished::Processed);
        }
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

/// Information about a pop, for the process function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PopInfo {
    /// Whether the deltas belong to the initial population, which is the first list.
    #[doc(alias = "isInInitialList")]
    pub initial: bool,
}

/// The failure of a process function, and whether the deltas are requeued.
///
/// `?` converts any error into a failure without requeue, as in client-go.
#[derive(Debug)]
pub struct Failure {
    error: BoxError,
    requeue: bool,
}

impl Failure {
    /// The deltas are dropped.
    pub fn lose(error: impl Into<BoxError>) -> Self {
        Self {
            error: error.into(),
            requeue: false,
        }
    }

    /// The deltas are requeued, unless newer ones have arrived.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(error: impl Into<BoxError>) -> Self {
        Self {
            error: error.into(),
            requeue: true,
        }
    }

    /// Whether the deltas are requeued.
    pub fn is_requeue(&self) -> bool {
        self.requeue
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::lose(error)
    }
}

/// The error of a pop with a process function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PopError {
    /// The queue is closed and empty.
    #[doc(alias = "ErrFIFOClosed")]
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The process function failed.
    #[error("the process function failed")]
    Process(#[source] BoxError),
}

/// client-go's `Pop`: waits for one entry and processes it.
pub(super) async fn pop<K>(
    queue: &impl DeltaQueue<K>,
    process: impl FnOnce(&[Delta<K>], PopInfo) -> Result<(), Failure>,
) -> Result<Vec<Delta<K>>, PopError> {
    let batch = queue.pop_batch(1).await.ok_or(Closed)?;
    batch.process(process).map_err(PopError::Process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_requeue_only_if_that_was_requested() {
        assert!(Failure::requeue("not now").is_requeue());
        assert!(!Failure::lose("never").is_requeue());
        assert!(!Failure::from(Closed).is_requeue());
    }
}
