//! How a process function ends a pop.

use std::error::Error;

use kube_informers::queue::Closed;

/// An error of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Information about a pop, for the process function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PopInfo {
    /// Whether the values belong to the initial population, which is the first list.
    #[doc(alias = "isInInitialList")]
    pub initial: bool,
}

/// The failure of a process function, and whether what it was given is requeued.
///
/// `?` converts any error into a failure without requeue, as in client-go.
#[derive(Debug)]
pub struct Failure {
    error: BoxError,
    requeue: bool,
}

impl Failure {
    /// The values are dropped.
    pub fn lose(error: impl Into<BoxError>) -> Self {
        Self {
            error: error.into(),
            requeue: false,
        }
    }

    /// The values are requeued, unless newer ones have arrived.
    #[doc(alias = "ErrRequeue")]
    pub fn requeue(error: impl Into<BoxError>) -> Self {
        Self {
            error: error.into(),
            requeue: true,
        }
    }

    /// Whether the values are requeued.
    pub fn is_requeue(&self) -> bool {
        self.requeue
    }

    pub(crate) fn into_parts(self) -> (BoxError, bool) {
        (self.error, self.requeue)
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
