//! Why the first list has not reached the target.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::report::ReflectorState;
use crate::wire::{ApiError, SourceError};

/// An initial list is not in the cache, or a handler has not received it. The message names each informer that is not
/// synced, with its last error, which is also the `source()`.
#[derive(Clone, Debug)]
#[doc(alias = "SyncResult")]
pub struct SyncError {
    name: String,
    after: Duration,
    obstacle: Obstacle,
}

#[derive(Clone, Debug)]
enum Obstacle {
    List {
        kind: &'static str,
        state: ReflectorState,
        last_error: Option<Arc<SourceError>>,
        attempts: u32,
    },
    Handler(String),
    NotStarted(Vec<SyncError>),
    /// Some of this number of informers of a factory.
    Missing(Vec<SyncError>, usize),
    ShutDown,
    Several(Vec<SyncError>),
}

impl SyncError {
    /// The first list of an informer or a reflector is incomplete: its state, the last error and the number of attempts.
    pub(crate) fn list(
        kind: &'static str,
        name: &str,
        after: Duration,
        state: ReflectorState,
        failed: Option<(Arc<SourceError>, u32)>,
    ) -> Self {
        let (last_error, attempts) = failed.map_or((None, 0), |(error, n)| (Some(error), n));
        Self {
            name: name.to_owned(),
            after,
            obstacle: Obstacle::List {
                kind,
                state,
                last_error,
                attempts,
            },
        }
    }

    pub(crate) fn handler(name: &str, after: Duration, problem: String) -> Self {
        Self {
            name: name.to_owned(),
            after,
            obstacle: Obstacle::Handler(problem),
        }
    }

    /// These informers of a factory were not started.
    pub(crate) fn not_started(mut missing: Vec<Self>) -> Self {
        sort(&mut missing);
        Self::combined(Duration::ZERO, Obstacle::NotStarted(missing))
    }

    /// These of `of` informers of a factory are not synced.
    pub(crate) fn missing_of(mut missing: Vec<Self>, of: usize, after: Duration) -> Self {
        sort(&mut missing);
        Self::combined(after, Obstacle::Missing(missing, of))
    }

    pub(crate) fn shut_down(after: Duration) -> Self {
        Self::combined(after, Obstacle::ShutDown)
    }

    pub(crate) fn several(missing: Vec<Self>, after: Duration) -> Self {
        Self::combined(after, Obstacle::Several(missing))
    }

    fn combined(after: Duration, obstacle: Obstacle) -> Self {
        Self {
            name: String::new(),
            after,
            obstacle,
        }
    }

    /// The informer, reflector or handler; empty if the error is of several.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time waited.
    pub fn after(&self) -> Duration {
        self.after
    }

    /// The state of the informer at the end.
    pub fn state(&self) -> Option<&ReflectorState> {
        match &self.obstacle {
            Obstacle::List { state, .. } => Some(state),
            _ => None,
        }
    }

    /// The last error, if any; of several informers, that of the first.
    pub fn last_error(&self) -> Option<&SourceError> {
        match &self.obstacle {
            Obstacle::List { last_error, .. } => last_error.as_deref(),
            _ => self.missing().first()?.last_error(),
        }
    }

    /// Failed attempts since the last progress.
    pub fn attempts(&self) -> u32 {
        match &self.obstacle {
            Obstacle::List { attempts, .. } => *attempts,
            _ => 0,
        }
    }

    /// Those that are not synced, if the error is of several. Those of a factory are sorted by name.
    pub fn missing(&self) -> &[Self] {
        match &self.obstacle {
            Obstacle::NotStarted(missing) | Obstacle::Missing(missing, _) | Obstacle::Several(missing) => {
                missing
            }
            _ => &[],
        }
    }

    /// Whether the informer or reflector has stopped, or the factory was shut down.
    pub fn is_stopped(&self) -> bool {
        matches!(
            self.obstacle,
            Obstacle::ShutDown
                | Obstacle::List {
                    state: ReflectorState::Stopped,
                    ..
                }
        )
    }

    /// Whether the informer was not started.
    pub fn is_not_started(&self) -> bool {
        matches!(
            self.obstacle,
            Obstacle::NotStarted(_)
                | Obstacle::List {
                    state: ReflectorState::Idle,
                    ..
                }
        )
    }

    /// Whether the server forbids the list or the watch.
    pub fn is_forbidden(&self) -> bool {
        let last = self.last_error().and_then(SourceError::api);
        last.is_some_and(ApiError::is_forbidden)
    }
}

fn sort(missing: &mut [SyncError]) {
    missing.sort_by(|left, right| left.name.cmp(&right.name));
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, after, .. } = self;
        match &self.obstacle {
            Obstacle::List {
                kind,
                state,
                last_error,
                attempts,
            } => {
                write!(f, "the {kind} of {name} is not synced after {after:?}: ")?;
                write_obstacle(f, name, state, last_error.as_deref(), *attempts)
            }
            Obstacle::Handler(problem) => f.write_str(problem),
            Obstacle::NotStarted(missing) => {
                let names: Vec<&str> = missing.iter().map(Self::name).collect();
                let names = names.join(", ");
                write!(f, "not started: {names}; call `start` after requesting informers")
            }
            Obstacle::Missing(missing, of) => {
                write!(f, "{} of {of} informers are not synced: ", missing.len())?;
                write_all(f, missing)
            }
            Obstacle::ShutDown => f.write_str("the factory was shut down; create a new one"),
            Obstacle::Several(missing) => write_all(f, missing),
        }
    }
}

fn write_all(f: &mut fmt::Formatter<'_>, missing: &[SyncError]) -> fmt::Result {
    for (i, error) in missing.iter().enumerate() {
        let before = if i == 0 { "" } else { "; " };
        write!(f, "{before}{error}")?;
    }
    Ok(())
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.obstacle {
            Obstacle::List { last_error, .. } => last_error.as_deref().map(|error| error as _),
            _ => self.missing().first().map(|missing| missing as _),
        }
    }
}

/// Writes why the first list is not complete, and what the user can do about it.
fn write_obstacle(
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
