//! The state of an informer at one moment, in numbers.

use std::sync::Arc;
use std::time::Duration;

use kube_informers::reflector::ReflectorState;

use super::contact::Health;
use crate::objects::kinds::Kind;

/// The state of an informer. Numbers are cumulative unless stated otherwise.
#[derive(Clone, Debug)]
pub struct InformerView {
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// What it is doing.
    pub state: ReflectorState,
    /// Whether the cache holds the initial list.
    pub synced: bool,
    /// The current number of objects in the cache.
    pub objects: usize,
    /// The current number of quarantined objects.
    pub quarantined: usize,
    /// Bytes received.
    pub bytes: u64,
    /// Additions, updates and deletions so far, without the initial list.
    pub events: u64,
    /// Complete lists, the first one included.
    pub lists: u64,
    /// Lists that had to be repeated.
    pub relists: u64,
    /// Watches opened.
    pub watches: u64,
    /// The number of open watches: one per namespace when everything works.
    pub members: usize,
    /// Failed lists and watches.
    pub errors: u64,
    /// The last failure in words, while it lasts.
    pub last_error: Option<String>,
    /// The current number of changes this program has not consumed.
    pub backlog: usize,
    /// The version of the cache.
    pub resource_version: Option<String>,
    /// The age of the last proof that the cache is current.
    pub version_age: Option<Duration>,
    /// The progress of the list in progress, if there is one.
    pub progress: Option<Progress>,
    /// Whether the cache is current.
    pub health: Health,
}

impl InformerView {
    /// The state in one word: `starting`, `listing`, `watching`, `waiting`, `stopped`.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            ReflectorState::Idle => "starting",
            ReflectorState::Listing { .. } => "listing",
            ReflectorState::Watching { .. } => "watching",
            ReflectorState::BackingOff { .. } => "waiting",
            _ => "stopped",
        }
    }
}

/// How far a list is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Objects so far.
    pub items: u64,
    /// The approximate total; `None` if the server does not report it.
    pub of: Option<u64>,
    /// For how long.
    pub elapsed: Duration,
}

impl Progress {
    /// Objects a second.
    pub fn rate(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            seconds if seconds > 0.0 => self.items as f64 / seconds,
            _ => 0.0,
        }
    }
}

/// The progress of the list in progress, if there is one.
pub(super) fn progress(state: &ReflectorState) -> Option<Progress> {
    match state {
        ReflectorState::Listing {
            since,
            items,
            remaining,
        } => Some(Progress {
            items: *items,
            of: remaining.map(|remaining| items.saturating_add(remaining)),
            elapsed: since.elapsed(),
        }),
        _ => None,
    }
}
