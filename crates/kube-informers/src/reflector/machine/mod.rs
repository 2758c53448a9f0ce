//! The reflector's decisions, as a state machine without I/O, clock, randomness or tasks.
//!
//! # Protocol
//!
//! The driver reports each thing that happens as one [`Input`] and performs the [`Action`]s the machine responds with,
//! in order:
//!
//! ```text
//!  driver                                         machine
//!    │ ── step(input, context { now, jitter }) ───▶ │
//!    │ ◀────────────────────────── actions ──────── │
//!    │ ── next(now) ──────────────────────────────▶ │
//!    │ ◀─────────────────── Read | Sleep | Rest ─── │  what to wait for until the next input
//! ```
//!
//! | Phase | Entered by | Inputs it reacts to |
//! |---|---|---|
//! | `Idle` | creation | `Start` |
//! | `Listing` | `Action::List` | `Progress`, `ListedObject`, `PageEnd`, `Ended`, `Failed`, `DeadlinePassed` |
//! | `Initial` | `Action::Watch` with initial events | `Progress`, `Event`, `Bookmark`, `ErrorEvent`, `Ended`, `Failed`, `DeadlinePassed` |
//! | `Watching` | `Action::Watch`, or the end of the initial events | the same, and `ResyncRejected` |
//! | `Waiting` | a failure, or the pacing of watches | `Woken` |
//! | `Resting` | `ShardEmpty` | `ShardMoved` |
//!
//! Rules for the driver:
//!
//! - `Action::List` and `Action::Watch` replace the open stream. `Action::Report` closes it.
//! - An `Event` leads to `Gather` (part of an incomplete collection) or `Forward` (send to the target).
//! - The driver follows `Action::Commit` with `Committed` or `CommitRejected`. In the latter case the remaining actions of
//!   that step are dropped.
//! - `ShardMoved`, `ShardEmpty`, `CommitRejected` and `TargetWasFull` are valid in every phase. An input that the
//!   current phase does not react to changes nothing.
//!
//! The decisions about lists are in `list.rs`, those about watches in `watch.rs`.

mod doubt;
mod flow;
mod list;
#[cfg(test)]
mod tests;
mod watch;

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::{Backoff, Pace, RetryWindow};
use super::config::ReflectorConfig;
use super::report::{Operation, RelistReason, Resume, Violation};
use crate::source::{ListRequest, WatchRequest};
use crate::time::after;
use crate::version::{ResourceVersion, is_step_back};
use crate::wire::{ApiError, ListMeta, SourceError};
use doubt::Credibility;
use list::Listing;
use watch::Watching;

/// Something that happened.
pub(crate) enum Input<'a> {
    /// The reflector was started.
    Start,
    /// The pause is over.
    Woken,
    /// The response has started, or more of it has arrived.
    Progress { bytes: usize },
    /// An object of a list was received.
    ListedObject,
    /// A page of a list is complete.
    PageEnd(&'a ListMeta),
    /// An event of a watch was received.
    Event {
        kind: EventKind,
        version: Option<&'a str>,
    },
    /// A bookmark of a watch was received.
    Bookmark {
        resource_version: Option<&'a str>,
        initial_events_end: bool,
    },
    /// An `ERROR` event of a watch was received.
    ErrorEvent(&'a ApiError),
    /// The stream ended regularly.
    Ended,
    /// The request was rejected, or the connection was lost.
    Failed(&'a SourceError),
    /// Nothing was received until the deadline.
    DeadlinePassed,
    /// The target accepted the collection.
    Committed,
    /// The target rejected the collection of this operation.
    CommitRejected(Operation),
    /// The target rejected a resync.
    ResyncRejected,
    /// The target had no room, so nothing was read for a while. The silence was not the server's.
    TargetWasFull,
    /// The shard has moved, and a part of it must be fetched.
    ShardMoved,
    /// The shard is empty: there is nothing to request.
    ShardEmpty,
    /// An audit found that the cache differs from the collection.
    RelistRequested(RelistReason),
}

/// What the driver must do.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Send this list request and close any open stream.
    List(ListRequest),
    /// Open this watch and close any open stream.
    Watch(WatchRequest),
    /// Keep the object of this event until the collection is complete.
    Gather,
    /// Send the object of this event to the target.
    Forward,
    /// Send the gathered objects to the target, as the collection at this version.
    Commit {
        resource_version: Option<String>,
        by: Operation,
    },
    /// Discard the gathered objects.
    Discard,
    /// Send a bookmark to the target.
    Bookmark { resource_version: String },
    /// Report the end of a stream.
    Report(Report),
}

/// The end of a stream, and what follows. The driver adds the error.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) operation: Operation,
    pub(crate) resume: Resume,
    pub(crate) pause: Duration,
    pub(crate) attempts: u32,
    pub(crate) violation: Option<Violation>,
}

/// What to wait for until the next input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// The next item of the open stream, until the deadline.
    Read { deadline: Instant },
    /// A point in time. No stream is open.
    Sleep { until: Instant },
    /// A new shard.
    Rest,
}

/// The kind of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// The surroundings of one step, and its result.
pub(crate) struct Context {
    pub(crate) now: Instant,
    /// Uniform in [0, 1).
    pub(crate) jitter: f64,
    pub(crate) actions: Vec<Action>,
}

impl Context {
    pub(crate) fn new(now: Instant, jitter: f64) -> Self {
        Self {
            now,
            jitter,
            actions: Vec::new(),
        }
    }
}

/// What follows a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterPause {
    /// Fetch the whole collection, by watch-list or list.
    Sync,
    /// Watch from the last version.
    Watch,
    /// The same, with the pacing token already taken.
    PacedWatch,
}

enum Phase {
    Idle,
    /// The shard is empty.
    Resting,
    Waiting {
        until: Instant,
        then: AfterPause,
    },
    Listing(Listing),
    /// A watch-list before the end of its initial events.
    Initial(Watching),
    Watching(Watching),
}

pub(crate) struct Machine {
    config: ReflectorConfig,
    phase: Phase,
    /// The version up to which the target has received everything.
    last: Option<String>,
    /// The server rejected `last`: request the newest version instead.
    last_unavailable: bool,
    /// The server returned pages although it could have served the list from memory: it has no watch cache.
    always_paged: bool,
    /// Whether the source supports watch-lists.
    watch_list: bool,
    watch_list_disabled_until: Option<Instant>,
    broken_watch_lists: u32,
    list_backoff: Backoff,
    watch_backoff: Backoff,
    internal_errors: RetryWindow,
    pace: Pace,
    /// The longest gap between two bookmarks of one watch.
    bookmark_gap: Option<Duration>,
    bookmarks_seen: bool,
    /// The number of failures since the last progress.
    attempts: u32,
    ignored_bookmarks: u64,
    rewinds: u64,
    credibility: Credibility,
}

impl Machine {
    pub(crate) fn new(config: ReflectorConfig, watch_list_supported: bool) -> Self {
        Self {
            watch_list: config.watch_list && watch_list_supported,
            list_backoff: Backoff::new(config.backoff),
            watch_backoff: Backoff::new(config.backoff),
            internal_errors: RetryWindow::new(config.internal_error_window),
            pace: Pace::new(),
            config,
            phase: Phase::Idle,
            last: None,
            last_unavailable: false,
            always_paged: false,
            watch_list_disabled_until: None,
            broken_watch_lists: 0,
            bookmark_gap: None,
            bookmarks_seen: false,
            attempts: 0,
            ignored_bookmarks: 0,
            rewinds: 0,
            credibility: Credibility::default(),
        }
    }

    /// The version up to which the target has received everything.
    pub(crate) fn last_version(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The number of failures since the last progress.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn ignored_bookmarks(&self) -> u64 {
        self.ignored_bookmarks
    }

    pub(crate) fn rewinds(&self) -> u64 {
        self.rewinds
    }

    /// What to wait for until the next input.
    pub(crate) fn next(&self, now: Instant) -> Next {
        match &self.phase {
            Phase::Idle => Next::Sleep { until: now },
            Phase::Resting => Next::Rest,
            Phase::Waiting { until, .. } => Next::Sleep { until: *until },
            Phase::Listing(listing) => Next::Read {
                deadline: listing.deadline(&self.config.deadlines),
            },
            Phase::Initial(watch) => Next::Read {
                deadline: watch.end_marker_deadline(&self.config.deadlines),
            },
            Phase::Watching(watch) => Next::Read {
                deadline: after(watch.activity, self.watch_idle()).min(watch.ends_by),
            },
        }
    }

    /// The error of a passed deadline, after this time without data.
    pub(crate) fn overdue(&self, now: Instant, silence: Duration) -> SourceError {
        let deadlines = &self.config.deadlines;
        let limit = match &self.phase {
            Phase::Listing(listing) => listing.flow.exceeded(deadlines, now),
            Phase::Initial(watch) => watch.flow.exceeded(deadlines, now),
            _ => None,
        };
        limit.map_or_else(
            || SourceError::Deadline {
                what: self.awaited(),
                after: silence,
            },
            SourceError::Limit,
        )
    }

    /// What the open stream is expected to deliver.
    fn awaited(&self) -> &'static str {
        match &self.phase {
            Phase::Listing(listing) if listing.has_started() => "more of the list",
            Phase::Listing(_) => "response to the list request",
            Phase::Initial(_) => "end of the initial events of the watch-list",
            _ => "data on the watch",
        }
    }

    /// Handles one input. The actions are added to the context.
    pub(crate) fn step(&mut self, input: Input<'_>, cx: &mut Context) {
        match input {
            Input::Event { kind, version } => return self.event(kind, version, cx),
            Input::ListedObject => {
                if let Phase::Listing(listing) = &mut self.phase {
                    listing.progress(cx.now);
                }
                return;
            }
            Input::TargetWasFull => {
                match &mut self.phase {
                    Phase::Listing(listing) => listing.restart_deadline(cx.now),
                    Phase::Initial(watch) | Phase::Watching(watch) => {
                        watch.restart_deadline(cx.now, self.config.deadlines.watch_idle);
                    }
                    Phase::Idle | Phase::Resting | Phase::Waiting { .. } => {}
                }
                return;
            }
            Input::Committed => {
                // The next failure starts with the shortest pause again.
                self.list_backoff.reset();
                self.attempts = 0;
                return;
            }
            // Replaces what was to follow the commit: a watch, or the wait for its turn.
            Input::CommitRejected(operation) => return self.retry_sync(None, operation, None, cx),
            Input::ShardMoved => return self.shard_moved(false, cx),
            Input::ShardEmpty => return self.shard_moved(true, cx),
            _ => {}
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {
                if matches!(input, Input::Start) {
                    self.start_sync(cx);
                }
            }
            Phase::Resting => self.phase = Phase::Resting,
            Phase::Waiting { until, then } => match input {
                Input::Woken => match then {
                    AfterPause::Sync => self.start_sync(cx),
                    AfterPause::Watch => self.start_watch(cx),
                    AfterPause::PacedWatch => self.open_watch(cx),
                },
                _ => self.phase = Phase::Waiting { until, then },
            },
            Phase::Listing(listing) => self.step_list(listing, input, cx),
            Phase::Initial(watch) => self.step_initial(watch, input, cx),
            Phase::Watching(watch) => self.step_watch(watch, input, cx),
        }
    }

    /// Replaces the open stream by a fetch of the new shard. A pause continues: the reason for it is not the shard.
    fn shard_moved(&mut self, is_empty: bool, cx: &mut Context) {
        let resume = if is_empty {
            Resume::Rest
        } else {
            Resume::ListMovedShard
        };
        let operation = match &self.phase {
            Phase::Listing(_) => Some(Operation::List),
            Phase::Initial(_) => Some(Operation::WatchList),
            Phase::Watching(_) => Some(Operation::Watch),
            Phase::Idle | Phase::Resting | Phase::Waiting { .. } => None,
        };
        if let Some(operation) = operation {
            cx.actions.push(Action::Discard);
            cx.actions.push(Action::Report(Report {
                operation,
                resume,
                pause: Duration::ZERO,
                attempts: self.attempts,
                violation: None,
            }));
        }
        match &mut self.phase {
            phase if is_empty => *phase = Phase::Resting,
            Phase::Waiting { then, .. } => *then = AfterPause::Sync,
            _ => self.start_sync(cx),
        }
    }

    /// Whether the whole collection is being fetched.
    pub(crate) fn is_fetching(&self) -> bool {
        matches!(self.phase, Phase::Listing(_) | Phase::Initial(_))
    }

    /// Whether a watch is open whose collection is complete.
    pub(crate) fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching(_))
    }

    /// Fetches the whole collection, by watch-list if possible.
    fn start_sync(&mut self, cx: &mut Context) {
        let disabled = self.watch_list_disabled_until.is_some_and(|until| cx.now < until);
        if self.watch_list && !disabled && !self.is_repairing() {
            self.watch_list_disabled_until = None;
            self.start_watch_list(cx);
        } else {
            self.start_list(cx);
        }
    }

    /// Reports the end of a stream and waits before the next one.
    fn pause(&mut self, pause: Duration, then: AfterPause, mut report: Report, cx: &mut Context) {
        report.pause = pause;
        cx.actions.push(Action::Report(report));
        self.phase = Phase::Waiting {
            until: after(cx.now, pause),
            then,
        };
    }

    fn report(&mut self, operation: Operation, resume: Resume) -> Report {
        self.attempts = self.attempts.saturating_add(1);
        Report {
            operation,
            resume,
            pause: Duration::ZERO,
            attempts: self.attempts,
            violation: None,
        }
    }

    /// Starts over with the whole collection after a pause.
    fn retry_sync(
        &mut self,
        retry_after: Option<Duration>,
        operation: Operation,
        violation: Option<Violation>,
        cx: &mut Context,
    ) {
        cx.actions.push(Action::Discard);
        let pause = self.list_backoff.next(cx.jitter, retry_after);
        let mut report = self.report(operation, Resume::RetrySync);
        report.violation = violation;
        self.pause(pause, AfterPause::Sync, report, cx);
    }

    /// Compares the version of a complete collection with the last version.
    fn check_version(&mut self, version: Option<&str>, requested: Option<&str>) -> VersionCheck {
        let older = match (self.last.as_deref(), version) {
            (Some(last), Some(version)) => ResourceVersion::compare(version, last) == Some(Ordering::Less),
            _ => false,
        };
        if !older {
            return VersionCheck::Accept;
        }
        // If the newest version of the server is older than one it sent before, its history was replaced, for example
        // by a restored backup. Otherwise one replica lags behind the others, and versions never go back.
        if requested.is_none() {
            self.rewinds += 1;
            VersionCheck::Rewound
        } else {
            VersionCheck::Stale
        }
    }

    /// Records that the collection at `version` is complete and on its way to the target.
    fn committed(&mut self, version: Option<String>) {
        self.last = version;
        self.last_unavailable = false;
        self.version_verified();
    }

    /// Advances the last version. Never goes back.
    fn advance(&mut self, version: &str) -> bool {
        let forward = match &self.last {
            None => true,
            Some(last) => version != last && !is_step_back(last, version),
        };
        if forward {
            self.last = Some(version.to_owned());
        }
        forward
    }

    /// Records progress of a watch: the next failure starts with the shortest pause again.
    fn watch_progress(&mut self) {
        self.watch_backoff.reset();
        self.attempts = 0;
    }
}

enum VersionCheck {
    Accept,
    Rewound,
    Stale,
}

/// Why an error requires a new list, if it does.
fn relist_reason(error: &ApiError) -> Option<RelistReason> {
    if error.is_expired() {
        Some(RelistReason::Expired)
    } else if error.is_too_large_resource_version() {
        Some(RelistReason::VersionTooLarge)
    } else if error.is_invalid() {
        Some(RelistReason::Refused)
    } else {
        None
    }
}
