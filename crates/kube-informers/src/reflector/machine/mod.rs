//! The reflector's decisions as a state machine: what happened in, what to do next out.
//!
//! No I/O, no clock, no randomness, no tasks: `now` and `dice` are passed in, and a driver performs the
//! actions. The rules of listing are in `list.rs`, those of watching in `watch.rs`.

mod list;
#[cfg(test)]
mod tests;
mod watch;

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::{Backoff, Pace, RetryWindow};
use super::config::ReflectorConfig;
use super::report::{Complaint, Operation, RelistReason, Resume};
use crate::source::{ApiError, ListMeta, ListRequest, SourceError, WatchRequest};
use crate::version::{ResourceVersion, is_step_back};
use list::Listing;
use watch::Watching;

/// What happened.
pub(crate) enum Input<'a> {
    /// The reflector was started.
    Start,
    /// The pause is over.
    Woken,
    /// The answer has begun, or more of it has arrived.
    Progress,
    /// A page is complete.
    PageEnd(&'a ListMeta),
    /// A bookmark of a watch.
    Bookmark {
        resource_version: Option<&'a str>,
        initial_events_end: bool,
    },
    /// An error inside a watch.
    ErrorEvent(&'a ApiError),
    /// The stream ended by itself.
    Ended,
    /// The request was refused, or the stream broke.
    Failed(&'a SourceError),
    /// Nothing came until the deadline.
    DeadlinePassed,
    /// The target did not take the collection this brought.
    CommitRefused(Operation),
    /// The target did not take a resync.
    ResyncRefused,
    /// The shard has moved, and some of it must be fetched.
    ShardMoved,
    /// The shard is empty: there is nothing to ask for.
    ShardEmpty,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Send this request, dropping any open stream.
    List(ListRequest),
    /// Open this watch, dropping any open stream.
    Watch(WatchRequest),
    /// Hand what was gathered to the target, as the collection at this version.
    Commit {
        resource_version: Option<String>,
        by: Operation,
    },
    /// Forget what was gathered.
    Discard,
    /// Hand a bookmark to the target.
    Bookmark { resource_version: String },
    /// Something ended.
    Report(Report),
}

/// What ended, and what follows. The driver adds the error.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) operation: Operation,
    pub(crate) resume: Resume,
    pub(crate) pause: Duration,
    pub(crate) attempts: u32,
    pub(crate) complaint: Option<Complaint>,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// More of the open stream, until the deadline.
    Read { deadline: Instant },
    /// A point in time, without an open stream.
    Sleep { until: Instant },
    /// Nothing but another shard.
    Rest,
}

/// What happened to an object of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// What to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Keep it until the collection is complete.
    Gather,
    /// Hand it to the target.
    Forward,
}

/// What a pause leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// The whole collection, by watch-list or list.
    Sync,
    /// A watch at the last version.
    Watch,
    /// The same, with the token for it already taken.
    PacedWatch,
}

enum Phase {
    Idle,
    /// There is nothing to ask for.
    Resting,
    Waiting {
        until: Instant,
        then: Plan,
    },
    Listing(Listing),
    /// A watch-list before its end marker.
    Initial(Watching),
    Watching(Watching),
}

pub(crate) struct Machine {
    config: ReflectorConfig,
    phase: Phase,
    /// Everything up to this version has been handed over.
    last: Option<String>,
    /// The server refused `last`: ask for the newest instead.
    last_unavailable: bool,
    /// The server answered in pages although it could have answered from memory: it has no watch cache.
    always_paged: bool,
    /// Whether the source can do watch-lists at all.
    watch_list: bool,
    watch_list_refused_until: Option<Instant>,
    watch_lists_broken: u32,
    list_backoff: Backoff,
    watch_backoff: Backoff,
    internal_errors: RetryWindow,
    pace: Pace,
    /// The longest gap between two bookmarks of one watch.
    bookmark_gap: Option<Duration>,
    bookmarks_seen: bool,
    /// Failures since the last progress.
    attempts: u32,
    ignored_bookmarks: u64,
    rewinds: u64,
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
            watch_list_refused_until: None,
            watch_lists_broken: 0,
            bookmark_gap: None,
            bookmarks_seen: false,
            attempts: 0,
            ignored_bookmarks: 0,
            rewinds: 0,
        }
    }

    /// The version up to which everything has been handed over.
    pub(crate) fn last_version(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Failures since the last progress.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn ignored_bookmarks(&self) -> u64 {
        self.ignored_bookmarks
    }

    pub(crate) fn rewinds(&self) -> u64 {
        self.rewinds
    }

    /// What to wait for now.
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
                deadline: watch.activity + self.watch_idle(watch),
            },
        }
    }

    /// What is being waited for while a stream is open, for the error that says it did not come.
    pub(crate) fn awaited(&self) -> &'static str {
        match &self.phase {
            Phase::Listing(listing) if listing.has_begun() => "more of the list",
            Phase::Listing(_) => "answer to the list request",
            Phase::Initial(_) => "end of the initial events of the watch-list",
            _ => "sign of life on the watch",
        }
    }

    /// One object of the open list.
    pub(crate) fn listed(&mut self, now: Instant) {
        if let Phase::Listing(listing) = &mut self.phase {
            listing.progress(now);
        }
    }

    /// The target had no room and nothing was read meanwhile: that silence was ours.
    pub(crate) fn held_up(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::Listing(listing) => listing.held_up(now),
            Phase::Initial(watch) | Phase::Watching(watch) => watch.activity = now,
            Phase::Idle | Phase::Resting | Phase::Waiting { .. } => {}
        }
    }

    /// The target took the collection: the next failure starts from the shortest pause again.
    pub(crate) fn commit_taken(&mut self) {
        self.list_backoff.reset();
        self.attempts = 0;
    }

    /// Takes one input, decides, and says what to do.
    pub(crate) fn step(&mut self, now: Instant, dice: f64, input: Input<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Input::CommitRefused(operation) = input {
            // Whatever was to follow the commit, a watch or the wait for its turn, does not.
            self.retry_sync(now, dice, None, operation, None, &mut actions);
            return actions;
        }
        if let Input::ShardMoved | Input::ShardEmpty = input {
            self.shard_moved(now, dice, matches!(input, Input::ShardEmpty), &mut actions);
            return actions;
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {
                if matches!(input, Input::Start) {
                    self.start_sync(now, dice, &mut actions);
                }
            }
            Phase::Resting => self.phase = Phase::Resting,
            Phase::Waiting { until, then } => match input {
                Input::Woken => match then {
                    Plan::Sync => self.start_sync(now, dice, &mut actions),
                    Plan::Watch => self.start_watch(now, dice, &mut actions),
                    Plan::PacedWatch => self.open_watch(now, dice, &mut actions),
                },
                _ => self.phase = Phase::Waiting { until, then },
            },
            Phase::Listing(listing) => self.step_list(listing, now, dice, input, &mut actions),
            Phase::Initial(watch) => self.step_initial(watch, now, dice, input, &mut actions),
            Phase::Watching(watch) => self.step_watch(watch, now, dice, input, &mut actions),
        }
        actions
    }

    /// What is being fetched, or watched, is no longer what is wanted. A pause goes on: the server that asked for it
    /// does not care for shards.
    fn shard_moved(&mut self, now: Instant, dice: f64, is_empty: bool, actions: &mut Vec<Action>) {
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
            actions.push(Action::Discard);
            actions.push(Action::Report(Report {
                operation,
                resume,
                pause: Duration::ZERO,
                attempts: self.attempts,
                complaint: None,
            }));
        }
        match &mut self.phase {
            phase if is_empty => *phase = Phase::Resting,
            Phase::Waiting { then, .. } => *then = Plan::Sync,
            _ => self.start_sync(now, dice, actions),
        }
    }

    /// Whether the whole collection is being fetched, or about to be.
    pub(crate) fn is_fetching(&self) -> bool {
        matches!(self.phase, Phase::Listing(_) | Phase::Initial(_))
    }

    /// Fetches the whole collection, by the best way known to work.
    fn start_sync(&mut self, now: Instant, dice: f64, actions: &mut Vec<Action>) {
        let refused = self.watch_list_refused_until.is_some_and(|until| now < until);
        if self.watch_list && !refused {
            self.watch_list_refused_until = None;
            self.start_watch_list(now, dice, actions);
        } else {
            self.start_list(now, actions);
        }
    }

    /// Reports what ended and waits before what follows.
    fn pause(
        &mut self,
        now: Instant,
        pause: Duration,
        then: Plan,
        mut report: Report,
        actions: &mut Vec<Action>,
    ) {
        report.pause = pause;
        actions.push(Action::Report(report));
        self.phase = Phase::Waiting {
            until: now + pause,
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
            complaint: None,
        }
    }

    /// The list failed for good: start over after a pause.
    fn retry_sync(
        &mut self,
        now: Instant,
        dice: f64,
        retry_after: Option<Duration>,
        operation: Operation,
        complaint: Option<Complaint>,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Discard);
        let pause = self.list_backoff.next(dice, retry_after);
        let mut report = self.report(operation, Resume::RetrySync);
        report.complaint = complaint;
        self.pause(now, pause, Plan::Sync, report, actions);
    }

    /// The collection is complete at this version; `false` if it is older than what we already have.
    fn accept_version(&mut self, version: Option<&str>, asked_for: Option<&str>) -> Verdict {
        let older = match (self.last.as_deref(), version) {
            (Some(last), Some(version)) => ResourceVersion::compare(version, last) == Some(Ordering::Less),
            _ => false,
        };
        if !older {
            return Verdict::Take;
        }
        // The newest the server has is older than what it once told us: its history was replaced (a restored
        // backup). Anything else is one replica behind the others: within one process versions never go back.
        if asked_for.is_none() {
            self.rewinds += 1;
            Verdict::Rewound
        } else {
            Verdict::Stale
        }
    }

    /// Takes note that the collection is complete at `version` and on its way to the target.
    fn committed(&mut self, version: Option<String>) {
        self.last = version;
        self.last_unavailable = false;
    }

    /// A version seen on a live watch. Never goes back.
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

    /// Real progress of a watch: the next failure starts from the shortest pause again.
    fn watch_progress(&mut self) {
        self.watch_backoff.reset();
        self.attempts = 0;
    }
}

enum Verdict {
    Take,
    Rewound,
    Stale,
}

/// What a refusal of a version leads to.
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
