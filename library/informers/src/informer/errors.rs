//! Errors of an informer.

use std::time::Duration;

use crate::errors::{ParseError, StoppedError};
use crate::key::ObjectKey;
use crate::reflector::ReflectorState;
use crate::shard::ShardFieldError;

/// The shard or the namespaces of an informer were not changed, or do not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The informer has stopped, or is being shut down.
    #[error(transparent)]
    Stopped(#[from] StoppedError),
    /// The informer is shared through a factory.
    #[error(
        "the informer of {informer} is shared through a factory, so its {part} cannot be changed: use \
         `SharedInformerFactory::informer_named` or a separate informer"
    )]
    Shared {
        /// Which informer.
        informer: String,
        /// The shard or the namespaces.
        part: &'static str,
    },
    /// The current shard selects by another field of the objects.
    #[error("the shard cannot be moved: {0}")]
    FieldsDiffer(#[from] ShardFieldError),
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
    /// These namespaces do not exist.
    #[error(
        "no namespace {}: nothing is cached for it until it is created; correct the name or create it",
        .0.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
    )]
    NotFound(Vec<String>),
}

impl ScopeError {
    /// Whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }

    /// Whether the informer is shared through a factory.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }
}

/// The cache has not reached a resource version or the scope of its informer, or a condition on it has not become true.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The version is not a number and cannot be compared.
    #[error("cannot wait for a version that is not a number")]
    NotComparable(#[source] ParseError),
    /// The cache did not reach the version in time.
    #[error(
        "the cache has not reached version {wanted} after {after:?}; it is at {}",
        .reached.as_deref().unwrap_or("no version yet")
    )]
    Version {
        /// The version waited for.
        wanted: String,
        /// The current version of the cache.
        reached: Option<String>,
        /// The time waited.
        after: Duration,
    },
    /// The condition did not hold in time.
    #[error(
        "the condition on the cache of {informer} does not hold after {after:?}; the informer is {state}"
    )]
    Condition {
        /// Which informer.
        informer: String,
        /// Its state.
        state: ReflectorState,
        /// The time waited.
        after: Duration,
    },
    /// The shard or the namespaces were not in the cache in time.
    #[error("not everything in the scope of {informer} is cached after {after:?}; the informer is {state}")]
    Settled {
        /// Which informer.
        informer: String,
        /// Its state.
        state: ReflectorState,
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

impl WaitError {
    /// Whether the timeout elapsed.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Self::Version { .. } | Self::Condition { .. } | Self::Settled { .. }
        )
    }

    /// Whether the informer stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }
}
