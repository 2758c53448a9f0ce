//! Why a controller did not run, or does not run any more.

use std::sync::Arc;
use std::time::Duration;

use kube_informers::error::{AddHandlerError, HandlerEndedError, SyncError};

/// Why a controller ended, other than by being told to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An informer had stopped before the controller began.
    #[error("controller {controller} cannot start: one of its informers has stopped")]
    NotAdded {
        /// The name of the controller.
        controller: Arc<str>,
        /// Which informer.
        #[source]
        source: AddHandlerError,
    },
    /// An informer was not synced within the time it was [given](crate::Controller::sync_within).
    #[error("controller {controller} has not started after {after:?}: a cache is not complete")]
    NotSynced {
        /// The name of the controller.
        controller: Arc<str>,
        /// How long was waited.
        after: Duration,
        /// Which informer, and what is in its way. `None`: it is synced, and the mapping of its objects to keys
        /// takes long.
        #[source]
        source: Option<Box<SyncError>>,
    },
    /// An informer stopped while the controller ran: it would not have noticed changes any more.
    #[error("controller {controller} has ended: one of its informers has stopped")]
    InformerStopped {
        /// The name of the controller.
        controller: Arc<str>,
        /// The handler that is not told any more; its name says of which informer.
        #[source]
        source: HandlerEndedError,
    },
    /// Runs did not end within their [grace](crate::Controller::grace) and were cancelled.
    #[error(
        "controller {controller} has ended, and {running} runs with it that were not finished after {grace:?}; \
         allow more time, or look for what they wait for"
    )]
    Aborted {
        /// The name of the controller.
        controller: Arc<str>,
        /// How many.
        running: usize,
        /// How long they were waited for.
        grace: Duration,
    },
    /// Its task panicked, outside of the reconciler. The `Hash`, `Eq`, `Clone` or `Drop` of the key can do that.
    #[error(
        "controller {controller} has ended: its task panicked; the message was printed where it happened"
    )]
    Died {
        /// The name of the controller.
        controller: Arc<str>,
    },
}
