//! What can be said about an informer that does not get there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::reflector::ReflectorState;
use crate::shard::ShardFieldError;
use crate::source::SourceError;
use crate::version::ParseVersionError;

/// The informer has stopped and cannot be started again: build a new one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer of {informer} has stopped; build a new one")]
pub struct Stopped {
    pub(super) informer: String,
}

/// The shard of an informer was not moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotMoved {
    /// It has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The shard it has goes by another field of the objects.
    #[error("the shard cannot be moved: {0}")]
    ShardFieldError(#[from] ShardFieldError),
    /// The informer is shared by everybody who asks its factory for the same.
    #[error(
        "the informer of {informer} is shared by all who ask its factory for the same, so its shard stays: use \
         `SharedInformerFactory::informer_named`, or an informer of your own, for a shard that moves"
    )]
    Shared {
        /// Which informer.
        informer: String,
    },
}

/// The first complete collection is not in the cache.
#[derive(Clone, Debug)]
#[doc(alias = "SyncResult")]
pub struct NotSynced {
    /// Which informer.
    pub informer: String,
    /// How long was waited.
    pub after: Duration,
    /// What it was doing in the end.
    pub state: ReflectorState,
    /// The last failure, if there was one.
    pub last_error: Option<Arc<SourceError>>,
    /// How often it has failed since the last progress.
    pub attempts: u32,
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the informer of {} is not synced after {:?}: ",
            self.informer, self.after
        )?;
        // While it waits, the failure is the reason. While it is at work, the failure is what happened before: a
        // watch-list that was refused, say, and the list in its place takes long.
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

impl std::error::Error for NotSynced {}

/// What the user can do about it.
fn hint(error: &SourceError, resource: &str) -> Option<String> {
    if error.is_connection_refused() {
        return Some("is the server running, and is its address right?".to_owned());
    }
    match error.api()?.code {
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
pub enum NotReached {
    /// Versions that are no numbers cannot be compared.
    #[error("cannot wait for a version that has no order")]
    NotComparable(#[source] ParseVersionError),
    /// Not within the deadline.
    #[error(
        "the cache has not reached version {wanted} after {after:?}; it is at {}",
        .reached.as_deref().unwrap_or("no version yet")
    )]
    Deadline {
        /// The version waited for.
        wanted: String,
        /// The version of the cache.
        reached: Option<String>,
        /// How long was waited.
        after: Duration,
    },
    /// The informer stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
