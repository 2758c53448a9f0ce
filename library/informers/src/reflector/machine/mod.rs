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
//! | `Waiting` | a failure, or the pacing of requests | `Woken`, `RetryNow`, `ServerReached` |
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
//! # Pacing
//!
//! Every request takes a token of one bucket, so that no loop of requests exceeds the ceiling, whatever the server does.
//! The exception is the next page of a list that makes progress.
//!
//! The decisions about lists are in `list.rs`, those about watches in `watch.rs`, pauses and the pacing in `waiting.rs`.

mod doubt;
mod flow;
mod list;
#[cfg(test)]
mod tests;
mod waiting;
mod watch;

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::{Backoff, Delays, Failure, Pace, RetryWindow};
use super::config::ReflectorConfig;
use super::report::{Operation, RelistReason, Resume, Violation};
use crate::source::{ListRequest, WatchRequest};
use crate::time::after;
use crate::version::{ResourceVersion, is_step_back};
use crate::wire::{ApiError, ListMeta, SourceError};
use doubt::Credibility;
use list::Listing;
use waiting::{Upcoming, Waiting};
use watch::Watching;

/// Something that happened.
pub enum Input<'a> {
    /// The reflector was started.
    Start,
    /// The pause is over.
    Woken,
    /// The response has started, or more of it has arrived.
    Progress { bytes: usize },
    /// An object of a list was received. The first object of a page carries a hash of its key, if it has one.
    ListedObject { first_key: Option<u64> },
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
    /// The request was sent only now, because others had to finish first.
    RequestSent,
    /// The user requests an attempt now.
    RetryNow,
    /// Another reflector has reached the server again.
    ServerReached,
    /// The shard has moved, and a part of it must be fetched.
    ShardMoved,
    /// The shard is empty: there is nothing to request.
    ShardEmpty,
    /// An audit found that the cache differs from the collection.
    RelistRequested(RelistReason),
}

/// What the driver must do.
#[derive(Debug, PartialEq)]
pub enum Action {
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
pub struct Report {
    pub operation: Operation,
    pub resume: Resume,
    pub pause: Duration,
    pub attempts: u32,
    pub violation: Option<Violation>,
}

/// What to wait for until the next input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// The next item of the open stream, until the deadline.
    Read { deadline: Instant },
    /// A point in time. No stream is open.
    Sleep { until: Instant },
    /// A new shard.
    Rest,
}

/// The kind of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// The surroundings of one step, and its result.
pub struct Context {
    pub now: Instant,
    /// Uniform in [0, 1).
    pub jitter: f64,
    /// The delay before a productive watch is resumed: not zero while many others of the process resume as well.
    pub resume_delay: Duration,
    pub actions: Vec<Action>,
}

impl Context {
    pub fn new(now: Instant, jitter: f64) -> Self {
        Self {
            now,
            jitter,
            resume_delay: Duration::ZERO,
            actions: Vec::new(),
        }
    }
}

enum Phase {
    Idle,
    /// The shard is empty. A pause that was under way goes on.
    Resting(Option<Waiting>),
    Waiting(Waiting),
    Listing(Listing),
    /// A watch-list before the end of its initial events.
    Initial(Watching),
    Watching(Watching),
}

pub struct Machine {
    config: ReflectorConfig,
    phase: Phase,
    /// The version up to which the target has received everything.
    last: Option<String>,
    /// The server rejected `last`: request the newest version instead.
    last_unavailable: bool,
    /// The server returned pages although it could have served the list from memory: it has no watch cache.
    always_paged: bool,
    /// The last list failed because the resource does not exist. It is requested by list until it does, because a rejected
    /// watch-list is followed by a list.
    not_found: bool,
    /// Whether the source supports watch-lists.
    watch_list: bool,
    watch_list_disabled_until: Option<Instant>,
    broken_watch_lists: u32,
    list_delays: Delays,
    watch_delays: Delays,
    /// The delays of lists after a version expired repeatedly.
    expired_backoff: Backoff,
    /// A version has expired since the last progress of a watch.
    expired: bool,
    internal_errors: RetryWindow,
    pace: Pace,
    /// The number of lists that failed after their first page, since the last complete list.
    failed_pages: u32,
    /// The pages of the next list are paced, even if they make progress.
    distrust_pages: bool,
    paced_pages: u64,
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
    pub fn new(config: ReflectorConfig, watch_list_supported: bool) -> Self {
        Self {
            watch_list: config.watch_list && watch_list_supported,
            list_delays: Delays::new(&config),
            watch_delays: Delays::new(&config),
            expired_backoff: Backoff::new(config.backoff),
            expired: false,
            internal_errors: RetryWindow::new(config.internal_error_window),
            pace: Pace::new(),
            config,
            phase: Phase::Idle,
            last: None,
            last_unavailable: false,
            always_paged: false,
            not_found: false,
            watch_list_disabled_until: None,
            broken_watch_lists: 0,
            failed_pages: 0,
            distrust_pages: false,
            paced_pages: 0,
            bookmark_gap: None,
            bookmarks_seen: false,
            attempts: 0,
            ignored_bookmarks: 0,
            rewinds: 0,
            credibility: Credibility::default(),
        }
    }

    /// The version up to which the target has received everything.
    pub fn last_version(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The number of failures since the last progress.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub fn ignored_bookmarks(&self) -> u64 {
        self.ignored_bookmarks
    }

    pub fn rewinds(&self) -> u64 {
        self.rewinds
    }

    /// The number of pages that were delayed.
    pub fn paced_pages(&self) -> u64 {
        self.paced_pages
    }

    /// Whether the open watch is productive: when it ends, the next one follows at once.
    pub fn is_productive(&self, now: Instant) -> bool {
        matches!(&self.phase, Phase::Watching(watch) if watch.is_productive(now))
    }

    /// What to wait for until the next input.
    pub fn next(&self, now: Instant) -> Next {
        match &self.phase {
            Phase::Idle => Next::Sleep { until: now },
            Phase::Resting(_) => Next::Rest,
            Phase::Waiting(waiting) => Next::Sleep { until: waiting.until },
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
    pub fn overdue(&self, now: Instant, silence: Duration) -> SourceError {
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
    pub fn step(&mut self, input: Input<'_>, cx: &mut Context) {
        match input {
            Input::Event { kind, version } => return self.event(kind, version, cx),
            Input::ListedObject { first_key } => {
                if let Phase::Listing(listing) = &mut self.phase {
                    listing.object(first_key, cx.now);
                }
                return;
            }
            Input::RequestSent => {
                match &mut self.phase {
                    Phase::Listing(listing) => listing.reopened(cx.now),
                    Phase::Initial(watch) | Phase::Watching(watch) => watch.sent(cx.now),
                    Phase::Idle | Phase::Resting(_) | Phase::Waiting(_) => {}
                }
                return;
            }
            Input::TargetWasFull => {
                match &mut self.phase {
                    Phase::Listing(listing) => listing.restart_deadline(cx.now),
                    Phase::Initial(watch) | Phase::Watching(watch) => {
                        watch.restart_deadline(cx.now, self.config.deadlines.watch_idle);
                    }
                    Phase::Idle | Phase::Resting(_) | Phase::Waiting(_) => {}
                }
                return;
            }
            Input::Committed => {
                // The next failure starts with the shortest pause again.
                self.list_delays.reset();
                self.attempts = 0;
                self.failed_pages = 0;
                self.distrust_pages = false;
                self.not_found = false;
                return;
            }
            // Replaces what was to follow the commit: a watch, or the wait for its turn.
            Input::CommitRejected(operation) => return self.retry_sync(Failure::SERVED, operation, None, cx),
            Input::ShardMoved => return self.shard_moved(false, cx),
            Input::ShardEmpty => return self.shard_moved(true, cx),
            _ => {}
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {
                if matches!(input, Input::Start) {
                    self.request(Upcoming::Sync, cx);
                }
            }
            resting @ Phase::Resting(_) => self.phase = resting,
            Phase::Waiting(waiting) => self.step_waiting(waiting, input, cx),
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
            Phase::Waiting(waiting) if waiting.is_within_list() => Some(Operation::List),
            Phase::Idle | Phase::Resting(_) | Phase::Waiting(_) => None,
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
        let waiting = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Waiting(waiting) | Phase::Resting(Some(waiting)) if waiting.until > cx.now => {
                Some(waiting)
            }
            _ => None,
        };
        match waiting {
            waiting if is_empty => self.phase = Phase::Resting(waiting),
            Some(waiting) => {
                self.phase = Phase::Waiting(Waiting {
                    then: Upcoming::Sync,
                    ..waiting
                });
            }
            None => self.request(Upcoming::Sync, cx),
        }
    }

    /// Whether the whole collection is being fetched.
    pub fn is_fetching(&self) -> bool {
        match &self.phase {
            Phase::Listing(_) | Phase::Initial(_) => true,
            Phase::Waiting(waiting) => waiting.is_within_list(),
            Phase::Idle | Phase::Resting(_) | Phase::Watching(_) => false,
        }
    }

    /// Whether a watch is open whose collection is complete.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching(_))
    }

    /// Fetches the whole collection, by watch-list if possible.
    fn open_sync(&mut self, cx: &mut Context) {
        let disabled = self.watch_list_disabled_until.is_some_and(|until| cx.now < until);
        if self.watch_list && !disabled && !self.not_found && !self.is_repairing() {
            self.watch_list_disabled_until = None;
            self.open_watch_list(false, cx);
        } else {
            let listing = self.new_list(cx);
            self.open_page(listing, cx);
        }
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
        failure: Failure,
        operation: Operation,
        violation: Option<Violation>,
        cx: &mut Context,
    ) {
        cx.actions.push(Action::Discard);
        let pause = self.list_delays.next(failure, cx.jitter);
        let mut report = self.report(operation, Resume::RetrySync);
        report.violation = violation;
        self.pause(pause, Some(failure.class), Upcoming::Sync, report, cx);
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
        self.watch_delays.reset();
        self.expired_backoff.reset();
        self.expired = false;
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
