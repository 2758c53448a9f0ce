//! Why a controller did not start, or ended.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kube_informers::error::{HandlerEndedError, StoppedError, SyncError};

fn not_synced(cause: Option<&SyncError>) -> String {
    match cause {
        Some(cause) => cause.to_string(),
        None => "the caches are synced, but mapping their objects to keys takes long".to_owned(),
    }
}

/// Why a controller ended without a clean shutdown.
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
        source: StoppedError,
    },
    /// The caches were not synced within the [timeout](crate::Controller::sync_within).
    #[error("controller {controller} has not started within {after:?}: {}", not_synced(.source.as_deref()))]
    NotSynced {
        /// The name of the controller.
        controller: Arc<str>,
        /// The timeout.
        after: Duration,
        /// Which informer, and why. `None` if all informers are synced and mapping their objects to keys takes long.
        #[source]
        source: Option<Box<SyncError>>,
    },
    /// An informer stopped while the controller was running, so changes would be missed.
    #[error("controller {controller} ended because one of its informers stopped")]
    InformerStopped {
        /// The name of the controller.
        controller: Arc<str>,
        /// The handler that receives no more events; its name contains the informer.
        #[source]
        source: HandlerEndedError,
    },
    /// Reconciles did not end within the [grace period](crate::Controller::grace) and were cancelled.
    #[error(
        "controller {controller} ended and cancelled {running} reconciles that were still running after {grace:?}; allow \
         more time, or find out what they wait for"
    )]
    Aborted {
        /// The name of the controller.
        controller: Arc<str>,
        /// How many.
        running: usize,
        /// The grace period.
        grace: Duration,
    },
    /// Its task panicked outside the reconciler: in `Hash`, `Eq`, `Clone` or `Drop` of the key.
    #[error(
        "controller {controller} ended because its task panicked; the panic hook has printed the message"
    )]
    Died {
        /// The name of the controller.
        controller: Arc<str>,
    },
}

/// Why one run failed: [`Controller::on_failure`](crate::Controller::on_failure).
#[derive(Debug)]
#[non_exhaustive]
pub enum RunFailure<'a> {
    /// The reconciler returned an error.
    Error {
        /// The error.
        error: &'a (dyn Error + Send + Sync + 'static),
        /// How often the key had failed before.
        retries: u32,
        /// Whether the key is given up; see [`Controller::max_retries`](crate::Controller::max_retries).
        given_up: bool,
    },
    /// The reconciler panicked. The panic hook has printed the message.
    Panic {
        /// How often the key had failed before.
        retries: u32,
        /// Whether the key is given up.
        given_up: bool,
    },
}
