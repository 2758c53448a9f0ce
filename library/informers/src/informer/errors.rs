//! Errors of an informer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::key::ObjectKey;
use crate::reflector::{ReflectorState, write_obstacle};
use crate::shard::ShardFieldError;
use crate::source::SourceError;
use crate::version::ParseVersionError;

/// The informer has stopped and cannot be restarted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer of {informer} has stopped; build a new one")]
pub struct StoppedError {
    pub(super) informer: String,
}

/// The shard of an informer was not moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetShardError {
    /// The informer has stopped.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
    /// The current shard selects by another field of the objects.
    #[error("the shard cannot be moved: {0}")]
    FieldsDiffer(#[from] ShardFieldError),
    /// The informer is shared through a factory.
    #[error(
        "the informer of {informer} is shared through a factory, so its shard cannot be moved: use \
         `SharedInformerFactory::informer_named` or a separate informer"
    )]
    Shared {
        /// Which informer.
        informer: String,
    },
}

/// The namespaces of an informer were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetNamespacesError {
    /// The informer has stopped, or is being shut down.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
    /// The informer is shared through a factory.
    #[error(
        "the informer of {informer} is shared through a factory, so its namespaces cannot be changed: use \
         `SharedInformerFactory::informer_named` or a separate informer"
    )]
    Shared {
        /// Which informer.
        informer: String,
    },
    /// The informer watches all namespaces, or its source is not a [`ListWatch`](crate::source::ListWatch).
    #[error(
        "the informer of {informer} was not created for named namespaces: create it with \
         `Informer::scoped` and `Scope::namespaces`"
    )]
    NoNamespaces {
        /// Which informer.
        informer: String,
    },
    /// A namespace cannot be requested: its name is invalid, or the resource is cluster-scoped.
    #[error("namespace {namespace:?} cannot be watched: {reason}")]
    Invalid {
        /// The namespace.
        namespace: String,
        /// The reason.
        reason: String,
    },
}

/// The initial list is not in the cache. The message includes that of the last error, which is also the `source()`.
#[derive(Clone, Debug)]
#[doc(alias = "SyncResult")]
pub struct SyncError {
    /// Which informer.
    pub informer: String,
    /// The time waited.
    pub after: Duration,
    /// Its state at the end.
    pub state: ReflectorState,
    /// The last error, if any.
    pub last_error: Option<Arc<SourceError>>,
    /// Failed attempts since the last progress.
    pub attempts: u32,
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { informer, after, .. } = self;
        write!(f, "the informer of {informer} is not synced after {after:?}: ")?;
        write_obstacle(
            f,
            informer,
            &self.state,
            self.last_error.as_deref(),
            self.attempts,
        )
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_deref().map(|error| error as _)
    }
}

/// The cache has not reached a resource version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitForVersionError {
    /// The version is not a number and cannot be compared.
    #[error("cannot wait for a version that is not a number")]
    NotComparable(#[source] ParseVersionError),
    /// The timeout elapsed.
    #[error(
        "the cache has not reached version {wanted} after {after:?}; it is at {}",
        .reached.as_deref().unwrap_or("no version yet")
    )]
    Deadline {
        /// The version waited for.
        wanted: String,
        /// The current version of the cache.
        reached: Option<String>,
        /// The time waited.
        after: Duration,
    },
    /// The informer does not watch the namespace of the object.
    #[error("{key} is outside the scope of the informer of {informer}: its cache will never hold it")]
    OutsideScope {
        /// The key waited for.
        key: ObjectKey,
        /// Which informer.
        informer: String,
    },
    /// The informer stopped.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
}

/// A condition on the cache has not become true.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitUntilError {
    /// The timeout elapsed.
    #[error(
        "the condition on the cache of {informer} does not hold after {after:?}; the informer is {state}"
    )]
    Deadline {
        /// Which informer.
        informer: String,
        /// Its state.
        state: ReflectorState,
        /// The time waited.
        after: Duration,
    },
    /// The informer stopped.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
}
