//! Watches: the watch-list with its end marker, live watches, and what follows each kind of end.

use std::time::Duration;

use tokio::time::Instant;

use super::flow::Flow;
use super::{Action, Context, EventKind, Input, Machine, Phase, Upcoming, VersionCheck, relist_reason};
use crate::reflector::backoff::Failure;
use crate::reflector::config::{Deadlines, ReflectorConfig};
use crate::reflector::report::{Operation, RelistReason, Resume, Violation};
use crate::source::WatchRequest;
use crate::time::{after, times};
use crate::version::is_step_back;
use crate::wire::{ApiError, SourceError};

/// A watch that ends sooner than this without an event is an error, as in client-go.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// A watch that ends sooner than this without progress delays the next one.
const UNPRODUCTIVE: Duration = Duration::from_secs(30);
/// The allowance for a server that closes a watch after its timeout.
const GRACE: Duration = Duration::from_secs(5);
/// The minimum idle deadline, however frequent the bookmarks.
const MIN_IDLE: Duration = Duration::from_secs(30);
/// The number of watch-lists that may break before a list is used instead.
const MAX_BROKEN_WATCH_LISTS: u32 = 2;

/// An open watch.
pub(super) struct Watching {
    request: WatchRequest,
    started: Instant,
    /// The time by which the server must have ended the watch, whatever it sends.
    pub(super) ends_by: Instant,
    opened: bool,
    /// The time of the last data; for a watch-list, of the last initial event.
    pub(super) activity: Instant,
    /// Until the end of the initial events.
    pub(super) flow: Flow,
    /// A watch-list has sent an event that is not an initial event: the end marker is due.
    live: bool,
    events: u64,
    /// It advanced the version, or sent a bookmark.
    progressed: bool,
    /// `ADDED` events may be the initial state in any order, so their versions are not progress.
    synthetic: bool,
    last_bookmark: Option<Instant>,
    /// This is the retry at the newest version.
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
            started: now,
            ends_by: after(now, request.timeout.saturating_add(GRACE)),
            request,
            opened: false,
            activity: now,
            flow: Flow::new(now),
            live: false,
            events: 0,
            progressed: false,
            synthetic,
            last_bookmark: None,
            fell_back: false,
        }
    }

    /// The request was sent only now.
    pub(super) fn sent(&mut self, now: Instant) {
        self.started = now;
        self.activity = now;
    }

    /// Whether the watch has proved itself: a short watch without progress delays the next one.
    pub(super) fn is_productive(&self, now: Instant) -> bool {
        let lasted = now.saturating_duration_since(self.started);
        self.progressed || self.opened && lasted >= UNPRODUCTIVE
    }

    /// Records data before the end marker. Live events and bookmarks do not extend the deadline: on a busy collection
    /// whose end marker was lost they never stop.
    fn initial_progress(&mut self, now: Instant, live: bool) {
        self.opened = true;
        self.live |= live;
        if !self.live {
            self.activity = now;
        }
    }

    /// Nothing was read for a while, through no fault of the server: what it sent meanwhile is still to be read.
    pub(super) fn restart_deadline(&mut self, now: Instant, idle: Duration) {
        self.activity = now;
        self.flow.restart(now);
        self.ends_by = self.ends_by.max(after(now, idle));
    }

    /// F16: the end marker is due within 20 s, or 5 s after the last initial event, whichever is later.
    pub(super) fn end_marker_deadline(&self, deadlines: &Deadlines) -> Instant {
        let due = after(self.started, deadlines.end_marker);
        let quiet = after(self.activity, deadlines.end_marker_quiet);
        due.max(quiet).min(self.flow.deadline(deadlines))
    }
}

impl Machine {
    pub(super) fn watch_idle(&self) -> Duration {
        let max = self.config.deadlines.watch_idle;
        match self.bookmark_gap {
            Some(gap) => times(gap, 2.5).max(MIN_IDLE).min(max),
            None if self.bookmarks_seen => max,
            None => self.config.deadlines.first_bookmark.min(max),
        }
    }

    fn watch_timeout(&self, cx: &Context) -> Duration {
        let min = self
            .config
            .min_watch_timeout
            .max(ReflectorConfig::MIN_WATCH_TIMEOUT);
        Duration::from_secs(times(min, 1.0 + cx.jitter).as_secs())
    }

    pub(super) fn open_watch_list(&mut self, fell_back: bool, cx: &mut Context) {
        let resource_version = if self.last_unavailable {
            None
        } else {
            self.last.clone()
        };
        let request = WatchRequest {
            resource_version,
            initial_events: true,
            bookmarks: true,
            timeout: self.watch_timeout(cx),
            shard: None,
        };
        cx.actions.push(Action::Watch(request.clone()));
        self.phase = Phase::Initial(Watching {
            fell_back,
            ..Watching::new(request, cx.now)
        });
    }

    /// Watches from the last version.
    pub(super) fn open_watch(&mut self, cx: &mut Context) {
        let request = WatchRequest {
            resource_version: self.last.clone(),
            initial_events: false,
            bookmarks: true,
            timeout: self.watch_timeout(cx),
            shard: None,
        };
        cx.actions.push(Action::Watch(request.clone()));
        self.phase = Phase::Watching(Watching::new(request, cx.now));
    }

    pub(super) fn event(&mut self, kind: EventKind, version: Option<&str>, cx: &mut Context) {
        let action = match &mut self.phase {
            Phase::Watching(watch) => {
                watch.activity = cx.now;
                watch.opened = true;
                watch.events += 1;
                if kind != EventKind::Added {
                    watch.synthetic = false;
                }
                let synthetic = watch.synthetic;
                if !synthetic && let Some(version) = version {
                    if self.advance(version) {
                        if let Phase::Watching(watch) = &mut self.phase {
                            watch.progressed = true;
                        }
                        self.newer_event();
                        self.watch_progress();
                    } else {
                        self.older_event(version);
                    }
                }
                Action::Forward
            }
            Phase::Initial(watch) => {
                watch.initial_progress(cx.now, kind != EventKind::Added);
                watch.events += 1;
                Action::Gather
            }
            _ => Action::Gather,
        };
        cx.actions.push(action);
    }

    pub(super) fn step_initial(&mut self, mut watch: Watching, input: Input<'_>, cx: &mut Context) {
        match input {
            Input::Progress { bytes } => {
                watch.initial_progress(cx.now, false);
                watch.flow.received(bytes, &self.config.deadlines, cx.now);
                self.phase = Phase::Initial(watch);
            }
            Input::Bookmark {
                resource_version: Some(version),
                initial_events_end: true,
            } => {
                self.initial_events_ended(watch, version, cx);
            }
            Input::Bookmark { .. } => {
                watch.initial_progress(cx.now, true);
                self.phase = Phase::Initial(watch);
            }
            Input::ErrorEvent(error) => self.watch_list_rejected(watch, error, cx),
            Input::Failed(SourceError::Api(error)) => self.watch_list_rejected(watch, error, cx),
            Input::Failed(error) => self.watch_list_broken(&watch, error, cx),
            Input::Ended => {
                let violation = if watch.events == 0 {
                    Violation::ShortWatch
                } else {
                    Violation::NoEndMarker
                };
                self.disable_watch_lists(cx);
                self.list_instead(Some(violation), cx);
            }
            Input::DeadlinePassed => {
                // A server that never started to respond may still support watch-lists.
                if watch.opened {
                    self.disable_watch_lists(cx);
                }
                let limit = watch.flow.exceeded(&self.config.deadlines, cx.now);
                self.list_instead(limit.is_none().then_some(Violation::NoEndMarker), cx);
            }
            _ => self.phase = Phase::Initial(watch),
        }
    }

    fn initial_events_ended(&mut self, mut watch: Watching, version: &str, cx: &mut Context) {
        match self.check_version(Some(version), watch.request.resource_version.as_deref()) {
            VersionCheck::Stale => {
                self.last_unavailable = true;
                let violation = Some(Violation::StaleList);
                return self.retry_sync(Failure::SERVED, Operation::WatchList, violation, cx);
            }
            VersionCheck::Rewound => self.report_rewind(Operation::WatchList, cx),
            VersionCheck::Accept => {}
        }
        cx.actions.push(Action::Commit {
            resource_version: Some(version.to_owned()),
            by: Operation::WatchList,
        });
        self.committed(Some(version.to_owned()));
        self.broken_watch_lists = 0;
        watch.opened = true;
        watch.activity = cx.now;
        watch.synthetic = false;
        self.phase = Phase::Watching(watch);
    }

    /// The server rejected a watch-list, by HTTP status or by an `ERROR` event.
    fn watch_list_rejected(&mut self, watch: Watching, error: &ApiError, cx: &mut Context) {
        let version_rejected = error.is_expired() || error.is_too_large_resource_version();
        if version_rejected && watch.request.resource_version.is_some() && !watch.fell_back {
            self.last_unavailable = true;
            let report = self.report(Operation::WatchList, Resume::RetryNewest);
            cx.actions.push(Action::Discard);
            self.proceed(Upcoming::WatchList { fell_back: true }, report, cx);
        } else if error.is_too_many_requests() {
            self.retry_sync(Failure::of_api(error), Operation::WatchList, None, cx);
        } else if error.retry_after.is_some() {
            // The requested delay also applies to the list that replaces a watch-list that keeps failing.
            self.broken_watch_lists += 1;
            if self.broken_watch_lists >= MAX_BROKEN_WATCH_LISTS {
                self.disable_watch_lists(cx);
            }
            self.retry_sync(Failure::of_api(error), Operation::WatchList, None, cx);
        } else {
            // The server does not support the parameters for this resource. Other errors may affect the list as well,
            // and the next cycle then tries a watch-list again. A replica that lags behind even the newest version
            // serves a list from storage.
            if error.is_invalid() || matches!(error.code, 405 | 406 | 501) {
                self.disable_watch_lists(cx);
            }
            self.list_instead(None, cx);
        }
    }

    fn watch_list_broken(&mut self, watch: &Watching, error: &SourceError, cx: &mut Context) {
        match error {
            // The response is not a watch. A list may work.
            SourceError::Malformed(_) => self.list_instead(None, cx),
            // A list of the same collection would exceed the same limit.
            SourceError::Limit(limit) if limit.is_of_the_collection() => {
                self.retry_sync(Failure::of(error), Operation::WatchList, None, cx);
            }
            SourceError::Limit(_) => {
                self.disable_watch_lists(cx);
                self.list_instead(None, cx);
            }
            _ if watch.opened && self.broken_watch_lists + 1 >= MAX_BROKEN_WATCH_LISTS => {
                self.disable_watch_lists(cx);
                self.list_instead(None, cx);
            }
            _ => {
                if watch.opened {
                    self.broken_watch_lists += 1;
                }
                let spent = cx.now.saturating_duration_since(watch.started);
                // A connection that breaks among the initial events has cost the server a part of them.
                let failure = match watch.opened {
                    true => Failure::of(error).served(),
                    false => Failure::of(error).after(spent),
                };
                self.retry_sync(failure, Operation::WatchList, None, cx);
            }
        }
    }

    fn disable_watch_lists(&mut self, cx: &mut Context) {
        self.broken_watch_lists = 0;
        self.watch_list_disabled_until = Some(after(cx.now, self.config.deadlines.watch_list_refused));
    }

    fn list_instead(&mut self, violation: Option<Violation>, cx: &mut Context) {
        let mut report = self.report(Operation::WatchList, Resume::ListInstead);
        report.violation = violation;
        cx.actions.push(Action::Discard);
        let listing = self.new_list(cx);
        self.proceed(Upcoming::Page(Box::new(listing)), report, cx);
    }

    pub(super) fn step_watch(&mut self, mut watch: Watching, input: Input<'_>, cx: &mut Context) {
        match input {
            Input::Progress { .. } => {
                if !watch.opened {
                    self.watch_accepted();
                }
                watch.opened = true;
                watch.activity = cx.now;
                self.phase = Phase::Watching(watch);
            }
            Input::Bookmark { resource_version, .. } => {
                self.bookmark(&mut watch, resource_version, cx);
                self.phase = Phase::Watching(watch);
            }
            Input::ErrorEvent(error) => {
                if watch.is_productive(cx.now) {
                    self.watch_progress();
                }
                self.watch_error_event(error, cx);
            }
            Input::Failed(SourceError::Api(error)) => self.watch_rejected(error, cx),
            Input::Failed(_) if watch.is_productive(cx.now) => self.watch_lost(cx),
            Input::Failed(error) => {
                let spent = cx.now.saturating_duration_since(watch.started);
                self.rewatch_later(Failure::of(error).after(spent), None, cx);
            }
            Input::DeadlinePassed => self.watch_silent(&watch, cx),
            Input::ResyncRejected => self.rewatch_later(Failure::SERVED, None, cx),
            Input::RelistRequested(reason) => self.relist_requested(reason, cx),
            Input::Ended => {
                // The regular end of a response, even if nothing else was received of it.
                watch.opened = true;
                self.watch_ended(&watch, cx);
            }
            _ => self.phase = Phase::Watching(watch),
        }
    }

    fn bookmark(&mut self, watch: &mut Watching, version: Option<&str>, cx: &mut Context) {
        watch.opened = true;
        watch.activity = cx.now;
        self.bookmarks_seen = true;
        if let Some(previous) = watch.last_bookmark.replace(cx.now) {
            let gap = cx.now.saturating_duration_since(previous);
            self.bookmark_gap = Some(self.bookmark_gap.map_or(gap, |longest| longest.max(gap)));
        }
        let backwards = match (version, &self.last) {
            (None | Some(""), _) => true,
            (Some(version), Some(last)) if is_step_back(last, version) => {
                self.older_bookmark();
                true
            }
            _ => false,
        };
        let Some(version) = version.filter(|_| !backwards) else {
            // F10: a bookmark that goes back or has no version is ignored.
            self.ignored_bookmarks += 1;
            return;
        };
        watch.synthetic = false;
        watch.progressed = true;
        self.newer_event();
        self.advance(version);
        self.watch_progress();
        cx.actions.push(Action::Bookmark {
            resource_version: version.to_owned(),
        });
    }

    /// After an `ERROR` event only "too many requests" leaves the version valid.
    fn watch_error_event(&mut self, error: &ApiError, cx: &mut Context) {
        let version_is_valid =
            error.is_too_many_requests() || error.is_internal() && self.internal_errors.allows(cx.now);
        if version_is_valid {
            self.rewatch_later(Failure::of_api(error), None, cx);
        } else {
            let reason = relist_reason(error).unwrap_or(RelistReason::ErrorEvent);
            self.relist(error, reason, cx);
        }
    }

    /// The server rejected a watch by HTTP status.
    fn watch_rejected(&mut self, error: &ApiError, cx: &mut Context) {
        let reason = match relist_reason(error) {
            Some(reason) => Some(reason),
            // The collection itself is gone (a deleted CRD). If it is created again, it is a different one.
            None if error.is_not_found() => Some(RelistReason::NotFound),
            None => None,
        };
        match reason {
            Some(reason) => self.relist(error, reason, cx),
            None => self.rewatch_later(Failure::of_api(error), None, cx),
        }
    }

    /// The connection of a productive watch was lost. The next one is opened at once, unless many others were lost too: the
    /// server has proved that it serves watches, and what happened in between may soon expire.
    fn watch_lost(&mut self, cx: &mut Context) {
        self.watch_interrupted();
        self.watch_progress();
        let report = self.report(Operation::Watch, Resume::Rewatch);
        self.pause(cx.resume_delay, None, Upcoming::Watch, report, cx);
    }

    fn watch_ended(&mut self, watch: &Watching, cx: &mut Context) {
        let lasted = cx.now.saturating_duration_since(watch.started);
        if watch.events == 0 && !watch.progressed && lasted < VERY_SHORT {
            self.rewatch_later(Failure::SERVED, Some(Violation::ShortWatch), cx);
        } else if !watch.is_productive(cx.now) {
            self.rewatch_later(Failure::SERVED, None, cx);
        } else {
            if after(cx.now, GRACE) < after(watch.started, watch.request.timeout) {
                self.watch_interrupted();
            }
            self.rewatch(cx);
        }
    }

    /// Nothing was received until the deadline, or the watch outlived its timeout.
    fn watch_silent(&mut self, watch: &Watching, cx: &mut Context) {
        // A server that ignores the timeout, or one that never sends bookmarks and has nothing to send: neither is a
        // failure. A server that does not even respond is one.
        if cx.now >= watch.ends_by || watch.opened && !self.bookmarks_seen {
            self.watch_interrupted();
            self.rewatch(cx);
        } else if watch.is_productive(cx.now) {
            self.watch_lost(cx);
        } else {
            self.rewatch_later(Failure::SERVED, None, cx);
        }
    }

    /// Opens the next watch after the regular end of one, which is not a failure.
    fn rewatch(&mut self, cx: &mut Context) {
        let mut report = self.report(Operation::Watch, Resume::Rewatch);
        self.watch_progress();
        report.attempts = 0;
        self.pause(cx.resume_delay, None, Upcoming::Watch, report, cx);
    }

    fn rewatch_later(&mut self, failure: Failure, violation: Option<Violation>, cx: &mut Context) {
        self.watch_interrupted();
        let pause = self.watch_delays.next(failure, cx.jitter);
        let mut report = self.report(Operation::Watch, Resume::Rewatch);
        report.violation = violation;
        self.pause(pause, Some(failure.class), Upcoming::Watch, report, cx);
    }

    fn relist(&mut self, error: &ApiError, reason: RelistReason, cx: &mut Context) {
        // An expired version is merely old: a list that is not older suffices and is served from memory. Otherwise
        // the version itself is in doubt.
        if reason != RelistReason::Expired && reason != RelistReason::ErrorEvent {
            self.last_unavailable = true;
        }
        // The list that follows costs the server more than the watch, also if the watch was not found.
        let failure = Failure::of_api(error).served();
        let pause = match reason {
            // The server is there and has said what it needs: any delay would only make the cache staler.
            RelistReason::Expired if !self.expired && error.retry_after.is_none() => Duration::ZERO,
            // The pause grows with each expired watch and is not reset by the list that follows. Otherwise a server
            // that rejects every watch would be listed in a tight loop.
            RelistReason::Expired => self.expired_backoff.next(cx.jitter, error.retry_after),
            _ => self.watch_delays.next(failure, cx.jitter),
        };
        self.expired |= reason == RelistReason::Expired;
        let report = self.report(Operation::Watch, Resume::Relist(reason));
        self.pause(pause, None, Upcoming::Sync, report, cx);
    }
}
