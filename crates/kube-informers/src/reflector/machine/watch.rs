//! Watching: the watch-list with its end marker, live watches, and what each way of ending leads to.

use std::time::Duration;

use tokio::time::Instant;

use super::{Action, Disposition, EventKind, Input, Machine, Phase, Plan, Verdict, relist_reason};
use crate::reflector::config::{Deadlines, ReflectorConfig};
use crate::reflector::report::{Complaint, Operation, RelistReason, Resume};
use crate::source::{ApiError, SourceError, WatchRequest};
use crate::version::is_step_back;

/// A watch that ends sooner than this without an event is an error (client-go's figure).
const VERY_SHORT: Duration = Duration::from_secs(1);
/// A watch that ends sooner than this without progress makes the next one wait.
const UNPRODUCTIVE: Duration = Duration::from_secs(30);
/// A server may be late with closing a watch whose time is up.
const GRACE: Duration = Duration::from_secs(5);
/// However close together a server's bookmarks were, a silence shorter than this says nothing.
const SHORTEST_IDLE: Duration = Duration::from_secs(30);
/// So many watch-lists may break before a list is tried instead.
const BROKEN_WATCH_LISTS: u32 = 2;

/// An open watch.
pub(super) struct Watching {
    request: WatchRequest,
    started: Instant,
    opened: bool,
    /// Last sign of life; of a watch-list, last sign that initial events are still coming.
    pub(super) activity: Instant,
    /// A watch-list has told something that is no initial event: the end marker cannot be far.
    live: bool,
    events: u64,
    /// It moved the version forward, or showed by a bookmark that there was nothing to move.
    progressed: bool,
    /// Added events may be the initial state in any order: their versions say nothing yet.
    synthetic: bool,
    last_bookmark: Option<Instant>,
    /// A watch-list at the newest version was tried already in this cycle.
    fell_back: bool,
}

impl Watching {
    fn new(request: WatchRequest, now: Instant) -> Self {
        let synthetic = !request.initial_events
            && request
                .resource_version
                .as_deref()
                .is_none_or(|v| v.is_empty() || v == "0");
        Self {
            request,
            started: now,
            opened: false,
            activity: now,
            live: false,
            events: 0,
            progressed: false,
            synthetic,
            last_bookmark: None,
            fell_back: false,
        }
    }

    /// Initial events are still coming, or may be. On a busy collection whose end marker was lost somewhere, live
    /// events and bookmarks come for ever: they put nothing off.
    fn initial_progress(&mut self, now: Instant, live: bool) {
        self.opened = true;
        self.live |= live;
        if !self.live {
            self.activity = now;
        }
    }

    /// F16: within 20 s, or 5 s after the last sign of initial events, whichever is later.
    pub(super) fn end_marker_deadline(&self, deadlines: &Deadlines) -> Instant {
        (self.started + deadlines.end_marker).max(self.activity + deadlines.end_marker_quiet)
    }
}

impl Machine {
    pub(super) fn watch_idle(&self, watch: &Watching) -> Duration {
        let longest = self.config.deadlines.watch_idle;
        match self.bookmark_gap {
            Some(gap) => gap.mul_f64(2.5).max(SHORTEST_IDLE).min(longest),
            None if self.bookmarks_seen => longest,
            None => watch.request.timeout + GRACE,
        }
    }

    fn watch_timeout(&self, dice: f64) -> Duration {
        let least = self.config.min_watch_timeout.max(ReflectorConfig::SHORTEST_WATCH);
        Duration::from_secs(least.mul_f64(1.0 + dice).as_secs())
    }

    pub(super) fn start_watch_list(&mut self, now: Instant, dice: f64, actions: &mut Vec<Action>) {
        let resource_version = if self.last_unavailable {
            None
        } else {
            self.last.clone()
        };
        let request = WatchRequest {
            resource_version,
            initial_events: true,
            bookmarks: true,
            timeout: self.watch_timeout(dice),
            shard: None,
        };
        actions.push(Action::Watch(request.clone()));
        self.phase = Phase::Initial(Watching::new(request, now));
    }

    /// Watches on from the last version, as soon as the pace allows.
    pub(super) fn start_watch(&mut self, now: Instant, dice: f64, actions: &mut Vec<Action>) {
        let at = self.pace.take(now);
        if at <= now {
            self.open_watch(now, dice, actions);
        } else {
            self.phase = Phase::Waiting {
                until: at,
                then: Plan::PacedWatch,
            };
        }
    }

    pub(super) fn open_watch(&mut self, now: Instant, dice: f64, actions: &mut Vec<Action>) {
        let request = WatchRequest {
            resource_version: self.last.clone(),
            initial_events: false,
            bookmarks: true,
            timeout: self.watch_timeout(dice),
            shard: None,
        };
        actions.push(Action::Watch(request.clone()));
        self.phase = Phase::Watching(Watching::new(request, now));
    }

    /// Something happened to an object: where does it go?
    pub(crate) fn event(&mut self, now: Instant, kind: EventKind, version: Option<&str>) -> Disposition {
        match &mut self.phase {
            Phase::Watching(watch) => {
                watch.activity = now;
                watch.opened = true;
                watch.events += 1;
                if kind != EventKind::Added {
                    watch.synthetic = false;
                }
                let synthetic = watch.synthetic;
                if !synthetic
                    && let Some(version) = version
                    && self.advance(version)
                {
                    if let Phase::Watching(watch) = &mut self.phase {
                        watch.progressed = true;
                    }
                    self.watch_progress();
                }
                Disposition::Forward
            }
            Phase::Initial(watch) => {
                watch.initial_progress(now, kind != EventKind::Added);
                watch.events += 1;
                Disposition::Gather
            }
            _ => Disposition::Gather,
        }
    }

    pub(super) fn step_initial(
        &mut self,
        mut watch: Watching,
        now: Instant,
        dice: f64,
        input: Input<'_>,
        actions: &mut Vec<Action>,
    ) {
        match input {
            Input::Progress => {
                watch.initial_progress(now, false);
                self.phase = Phase::Initial(watch);
            }
            Input::Bookmark {
                resource_version: Some(version),
                initial_events_end: true,
            } => {
                self.initial_events_ended(watch, now, dice, version, actions);
            }
            Input::Bookmark { .. } => {
                watch.initial_progress(now, true);
                self.phase = Phase::Initial(watch);
            }
            Input::ErrorEvent(error) => self.watch_list_refused(watch, now, dice, error, actions),
            Input::Failed(SourceError::Api(error)) => {
                self.watch_list_refused(watch, now, dice, error, actions)
            }
            Input::Failed(error) => self.watch_list_broken(&watch, now, dice, error, actions),
            Input::Ended => {
                let complaint = if watch.events == 0 {
                    Complaint::ShortWatch
                } else {
                    Complaint::NoEndMarker
                };
                self.remember_refusal(now);
                self.list_instead(now, Some(complaint), actions);
            }
            Input::DeadlinePassed => {
                // A server that never even began to answer has said nothing about watch-lists.
                if watch.opened {
                    self.remember_refusal(now);
                }
                self.list_instead(now, Some(Complaint::NoEndMarker), actions);
            }
            _ => self.phase = Phase::Initial(watch),
        }
    }

    fn initial_events_ended(
        &mut self,
        mut watch: Watching,
        now: Instant,
        dice: f64,
        version: &str,
        actions: &mut Vec<Action>,
    ) {
        match self.accept_version(Some(version), watch.request.resource_version.as_deref()) {
            Verdict::Stale => {
                self.last_unavailable = true;
                let complaint = Some(Complaint::StaleList);
                return self.retry_sync(now, dice, None, Operation::WatchList, complaint, actions);
            }
            Verdict::Rewound => self.report_rewind(Operation::WatchList, actions),
            Verdict::Take => {}
        }
        actions.push(Action::Commit {
            resource_version: Some(version.to_owned()),
            by: Operation::WatchList,
        });
        self.committed(Some(version.to_owned()));
        self.watch_lists_broken = 0;
        watch.opened = true;
        watch.activity = now;
        watch.synthetic = false;
        self.phase = Phase::Watching(watch);
    }

    /// The server answered a watch-list by an error, as HTTP status or inside the stream.
    fn watch_list_refused(
        &mut self,
        watch: Watching,
        now: Instant,
        dice: f64,
        error: &ApiError,
        actions: &mut Vec<Action>,
    ) {
        let version_refused = error.is_expired() || error.is_too_large_resource_version();
        if version_refused && watch.request.resource_version.is_some() && !watch.fell_back {
            self.last_unavailable = true;
            let report = self.report(Operation::WatchList, Resume::RetryNewest);
            actions.extend([Action::Discard, Action::Report(report)]);
            self.start_watch_list(now, dice, actions);
            if let Phase::Initial(watch) = &mut self.phase {
                watch.fell_back = true;
            }
        } else if error.is_too_many_requests() {
            self.retry_sync(now, dice, error.retry_after, Operation::WatchList, None, actions);
        } else if error.retry_after.is_some() {
            // A server that asks for patience gets it, also from the list that takes the place of a watch-list
            // it goes on refusing.
            self.watch_lists_broken += 1;
            if self.watch_lists_broken >= BROKEN_WATCH_LISTS {
                self.remember_refusal(now);
            }
            self.retry_sync(now, dice, error.retry_after, Operation::WatchList, None, actions);
        } else {
            // The server does not know the parameters, or this resource cannot be watched that way. Other
            // errors may well hit the list too, and then the next cycle tries the watch-list again. A replica
            // that is too far behind even for the newest version answers a list past its own memory.
            if error.is_invalid() || matches!(error.code, 405 | 406 | 501) {
                self.remember_refusal(now);
            }
            self.list_instead(now, None, actions);
        }
    }

    fn watch_list_broken(
        &mut self,
        watch: &Watching,
        now: Instant,
        dice: f64,
        error: &SourceError,
        actions: &mut Vec<Action>,
    ) {
        match error {
            // An answer that is no watch at all: perhaps a list works.
            SourceError::Malformed(_) => self.list_instead(now, None, actions),
            _ if watch.opened && self.watch_lists_broken + 1 >= BROKEN_WATCH_LISTS => {
                self.remember_refusal(now);
                self.list_instead(now, None, actions);
            }
            _ => {
                if watch.opened {
                    self.watch_lists_broken += 1;
                }
                self.retry_sync(now, dice, None, Operation::WatchList, None, actions);
            }
        }
    }

    fn remember_refusal(&mut self, now: Instant) {
        self.watch_lists_broken = 0;
        self.watch_list_refused_until = Some(now + self.config.deadlines.watch_list_refused);
    }

    fn list_instead(&mut self, now: Instant, complaint: Option<Complaint>, actions: &mut Vec<Action>) {
        let mut report = self.report(Operation::WatchList, Resume::ListInstead);
        report.complaint = complaint;
        actions.extend([Action::Discard, Action::Report(report)]);
        self.start_list(now, actions);
    }

    pub(super) fn step_watch(
        &mut self,
        mut watch: Watching,
        now: Instant,
        dice: f64,
        input: Input<'_>,
        actions: &mut Vec<Action>,
    ) {
        match input {
            Input::Progress => {
                watch.opened = true;
                watch.activity = now;
                self.phase = Phase::Watching(watch);
            }
            Input::Bookmark { resource_version, .. } => {
                self.bookmark(&mut watch, now, resource_version, actions);
                self.phase = Phase::Watching(watch);
            }
            Input::ErrorEvent(error) => self.watch_error_event(now, dice, error, actions),
            Input::Failed(SourceError::Api(error)) => self.watch_refused(now, dice, error, actions),
            Input::Failed(_) | Input::DeadlinePassed | Input::ResyncRefused => {
                self.rewatch_later(now, dice, None, None, actions);
            }
            Input::Ended => self.watch_ended(&watch, now, dice, actions),
            _ => self.phase = Phase::Watching(watch),
        }
    }

    fn bookmark(
        &mut self,
        watch: &mut Watching,
        now: Instant,
        version: Option<&str>,
        actions: &mut Vec<Action>,
    ) {
        watch.opened = true;
        watch.activity = now;
        self.bookmarks_seen = true;
        if let Some(previous) = watch.last_bookmark.replace(now) {
            let gap = now.saturating_duration_since(previous);
            self.bookmark_gap = Some(self.bookmark_gap.map_or(gap, |longest| longest.max(gap)));
        }
        let backwards = match (version, &self.last) {
            (None | Some(""), _) => true,
            (Some(version), Some(last)) => is_step_back(last, version),
            _ => false,
        };
        let Some(version) = version.filter(|_| !backwards) else {
            // F10: a bookmark that goes back, or says nothing, moves nothing.
            self.ignored_bookmarks += 1;
            return;
        };
        watch.synthetic = false;
        watch.progressed = true;
        self.advance(version);
        self.watch_progress();
        actions.push(Action::Bookmark {
            resource_version: version.to_owned(),
        });
    }

    /// An error inside the stream: only "too many requests" leaves the version trustworthy.
    fn watch_error_event(&mut self, now: Instant, dice: f64, error: &ApiError, actions: &mut Vec<Action>) {
        let version_holds =
            error.is_too_many_requests() || error.is_internal() && self.internal_errors.allows(now);
        if version_holds {
            self.rewatch_later(now, dice, error.retry_after, None, actions);
        } else {
            let reason = relist_reason(error).unwrap_or(RelistReason::ErrorEvent);
            self.relist_later(now, dice, error.retry_after, reason, actions);
        }
    }

    /// A watch that was refused by HTTP status.
    fn watch_refused(&mut self, now: Instant, dice: f64, error: &ApiError, actions: &mut Vec<Action>) {
        let reason = match relist_reason(error) {
            Some(reason) => Some(reason),
            // The collection itself is gone (a deleted definition). When it comes back it is another one.
            None if error.is_not_found() => Some(RelistReason::NotFound),
            None => None,
        };
        match reason {
            Some(reason) => self.relist_later(now, dice, error.retry_after, reason, actions),
            None => self.rewatch_later(now, dice, error.retry_after, None, actions),
        }
    }

    fn watch_ended(&mut self, watch: &Watching, now: Instant, dice: f64, actions: &mut Vec<Action>) {
        let lasted = now.saturating_duration_since(watch.started);
        if watch.events == 0 && !watch.progressed && lasted < VERY_SHORT {
            self.rewatch_later(now, dice, None, Some(Complaint::ShortWatch), actions);
        } else if !watch.progressed && lasted < UNPRODUCTIVE {
            self.rewatch_later(now, dice, None, None, actions);
        } else {
            let mut report = self.report(Operation::Watch, Resume::Rewatch);
            // The normal end of a watch is no failure.
            self.attempts = 0;
            report.attempts = 0;
            actions.push(Action::Report(report));
            self.start_watch(now, dice, actions);
        }
    }

    fn rewatch_later(
        &mut self,
        now: Instant,
        dice: f64,
        retry_after: Option<Duration>,
        complaint: Option<Complaint>,
        actions: &mut Vec<Action>,
    ) {
        let pause = self.watch_backoff.next(dice, retry_after);
        let mut report = self.report(Operation::Watch, Resume::Rewatch);
        report.complaint = complaint;
        self.pause(now, pause, Plan::Watch, report, actions);
    }

    fn relist_later(
        &mut self,
        now: Instant,
        dice: f64,
        retry_after: Option<Duration>,
        reason: RelistReason,
        actions: &mut Vec<Action>,
    ) {
        // An expired version is merely old: a list at least as new will do, and comes from memory. In all
        // other cases the version itself is in doubt.
        if reason != RelistReason::Expired && reason != RelistReason::ErrorEvent {
            self.last_unavailable = true;
        }
        // The pause grows with the failures of watches and is not reset by the list that follows, so that a
        // server that refuses every watch is not listed in a tight loop.
        let pause = self.watch_backoff.next(dice, retry_after);
        let report = self.report(Operation::Watch, Resume::Relist(reason));
        self.pause(now, pause, Plan::Sync, report, actions);
    }
}
