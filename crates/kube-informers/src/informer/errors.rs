//! Errors of an informer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::key::ObjectKey;
use crate::reflector::ReflectorState;
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
        "the informer of {informer} has no set of namespaces that could be changed: create it with \
         `Informer::scoped` and `Scope::namespaces`"
    )]
    NoNamespaces {
        /// Which informer.
        informer: String,
    },
    /// A namespace cannot be requested: its name is invalid, or the resource is cluster-scoped.
    #[error("namespace {namespace:?} cannot be watched: {reason}")]
    Invalid {
        /// Which one.
        namespace: String,
        /// Why.
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
        write!(
            f,
            "the informer of {} is not synced after {:?}: ",
            self.informer, self.after
        )?;
        // In back-off, the error is the reason. While a request is open, the error is history: for example, a watch-list
        // was rejected and the list that replaces it takes long.
        let waits = matches!(
            self.state,
            ReflectorState::BackingOff { .. } | ReflectorState::Stopped
        );
        let error = self.last_error.as_deref().filter(|_| self.attempts > 0);
        if !waits || error.is_none() {
            write!(f, "{}", self.state)?;
        }
        let Some(error) = error else { return Ok(()) };
        if !waits {
            f.write_str(", after ")?;
        }
        write!(f, "{error} ({} failed attempts)", self.attempts)?;
        match hint(error, &self.informer) {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_deref().map(|error| error as _)
    }
}

/// A hint for the user.
fn hint(error: &SourceError, resource: &str) -> Option<String> {
    let api = error.api()?;
    match api.code {
        // What a TLS port of Go's servers responds to a request without TLS.
        400 if api.message.contains("HTTP request to an HTTPS server") => {
            Some("use https:// in the server address".to_owned())
        }
        401 => Some("the credentials are missing, wrong or expired".to_owned()),
        403 => Some(format!(
            "grant the verbs list and watch on {resource} to this user"
        )),
        404 => Some("the server does not serve this resource: is its definition installed?".to_owned()),
        _ => None,
    }
}

/// The cache has not reached a resource version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitForVersionError {
    /// The version is not a number and cannot be compared.
    #[error("cannot wait for a version that has no order")]
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
