//! Why the first list has not reached the target.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::report::ReflectorState;
use crate::wire::SourceError;

/// The reflector stopped, or was dropped, before its target received the first list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reflector of {resource} has stopped before its first list was complete; build a new one")]
pub struct ReflectorStoppedError {
    pub(super) resource: String,
}

/// The target has not received the first list. The message includes that of the last error, which is also the `source()`.
#[derive(Clone, Debug)]
pub struct NotSyncedError {
    /// A description of the objects: `pods in shop`.
    pub resource: String,
    /// The time waited.
    pub after: Duration,
    /// The state of the reflector at the end.
    pub state: ReflectorState,
    /// The last error, if any.
    pub last_error: Option<Arc<SourceError>>,
    /// Failed attempts since the last progress.
    pub attempts: u32,
}

impl fmt::Display for NotSyncedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, after, .. } = self;
        write!(f, "the reflector of {resource} is not synced after {after:?}: ")?;
        write_obstacle(
            f,
            resource,
            &self.state,
            self.last_error.as_deref(),
            self.attempts,
        )
    }
}

impl std::error::Error for NotSyncedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_deref().map(|error| error as _)
    }
}

/// Writes why the first list is not complete, and what the user can do about it.
pub(crate) fn write_obstacle(
    f: &mut fmt::Formatter<'_>,
    resource: &str,
    state: &ReflectorState,
    last_error: Option<&SourceError>,
    attempts: u32,
) -> fmt::Result {
    // In back-off, the error is the reason. While a request is open, the error is history: for example, a watch-list
    // was rejected and the list that replaces it takes long.
    let waits = matches!(state, ReflectorState::BackingOff { .. } | ReflectorState::Stopped);
    let error = last_error.filter(|_| attempts > 0);
    if !waits || error.is_none() {
        write!(f, "{state}")?;
    }
    let Some(error) = error else { return Ok(()) };
    if !waits {
        f.write_str(", after ")?;
    }
    write!(f, "{error} ({attempts} failed attempts)")?;
    match hint(error, resource) {
        Some(hint) => write!(f, "; {hint}"),
        None => Ok(()),
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
