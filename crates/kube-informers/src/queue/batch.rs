//! `Batch`: what a delta queue hands out, and the three ways in which its processing can end.

use std::error::Error;
use std::fmt;

use super::Closed;
use super::DeltaQueue;
use crate::delta::Delta;

/// An error of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What was popped, to be processed now.
///
/// Its queue hands out nothing else until this is [`done`](Self::done), [requeued](Self::requeue) or dropped.
/// Dropping it counts it as processed, unless the thread is panicking: then it is requeued.
#[must_use = "dropping a batch counts it as processed"]
pub struct Batch<K> {
    /// The deltas, in the order in which they must be applied. Those taken out count as processed.
    pub deltas: Vec<Delta<K>>,
    /// Whether they belong to the initial population, that is, to the first list.
    #[doc(alias = "isInInitialList")]
    pub initial: bool,
    finish: Option<Finish<K>>,
}

type Finish<K> = Box<dyn FnOnce(Finished<K>) + Send + Sync>;

/// How the processing of a [`Batch`] ended; for those who write a queue of their own.
pub enum Finished<K> {
    /// All of it has been processed.
    Processed,
    /// These deltas have not, and shall come again.
    Requeued(Vec<Delta<K>>),
}

impl<K> Batch<K> {
    /// A batch for a queue of your own; `finish` is called exactly once, when its processing has ended.
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

    /// Says that all of it has been processed. Returns the deltas that were not taken out.
    pub fn done(mut self) -> Vec<Delta<K>> {
        let deltas = std::mem::take(&mut self.deltas);
        self.end(Finished::Processed);
        deltas
    }

    /// Gives back what is still in [`deltas`](Self::deltas), to be popped again.
    ///
    /// [`DeltaFifo`](super::DeltaFifo) puts each key at the end of its line, or drops it when something newer
    /// came under that key; [`InOrderQueue`](super::InOrderQueue) puts everything back where it was. Neither
    /// waits: pause before the next pop if trying again at once is pointless.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(mut self) {
        let rest = std::mem::take(&mut self.deltas);
        self.end(Finished::Requeued(rest));
    }

    /// Processes the batch with a function, and requeues it if that asks for it.
    ///
    /// # Errors
    ///
    /// The error of the function; unless it was a [`Failure::requeue`], the deltas are lost.
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

/// The kinds of deltas, not their contents: they may be Secrets.
impl<K> fmt::Debug for Batch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("deltas", &self.deltas.iter().map(Delta::name).collect::<Vec<_>>())
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}

/// What a process function is told about what it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PopInfo {
    /// Whether it belongs to the initial population, that is, to the first list.
    #[doc(alias = "isInInitialList")]
    pub initial: bool,
}

impl PopInfo {
    pub(super) fn new(initial: bool) -> Self {
        Self { initial }
    }
}

/// Why a process function failed, and whether what it got shall come again.
///
/// Any error turns into one with `?`, and then what was popped is lost, as in client-go.
#[derive(Debug)]
pub struct Failure {
    error: BoxError,
    requeue: bool,
}

impl Failure {
    /// What was popped is lost.
    pub fn lose(error: impl Into<BoxError>) -> Self {
        Self {
            error: error.into(),
            requeue: false,
        }
    }

    /// What was popped shall come again, unless something newer makes it pointless.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(error: impl Into<BoxError>) -> Self {
        Self {
            error: error.into(),
            requeue: true,
        }
    }

    /// Whether what was popped shall come again.
    pub fn is_requeue(&self) -> bool {
        self.requeue
    }

    pub(super) fn into_parts(self) -> (BoxError, bool) {
        (self.error, self.requeue)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::lose(error)
    }
}

/// Why a pop with a process function did not succeed.
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

/// client-go's `Pop`: waits for one entry of the queue and processes it.
pub(super) async fn pop<K>(
    queue: &impl DeltaQueue<K>,
    process: impl FnOnce(&[Delta<K>], PopInfo) -> Result<(), Failure>,
) -> Result<Vec<Delta<K>>, PopError> {
    let batch = queue.pop_batch(1).await.ok_or(Closed)?;
    batch.process(process).map_err(PopError::Process)
}
