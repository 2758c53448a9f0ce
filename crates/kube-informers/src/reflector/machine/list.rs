//! Lists: which version to request, in pages or as a whole, and how to react to a failed page.

use std::time::Duration;

use tokio::time::Instant;

use super::flow::Flow;
use super::{Action, Context, Input, Machine, Phase, VersionCheck, relist_reason};
use crate::reflector::config::{Deadlines, InitialList};
use crate::reflector::report::{Operation, Resume, Violation};
use crate::source::{ListRequest, VersionMatch};
use crate::time::after;
use crate::wire::{ListMeta, SourceError};

/// client-go's page size for reads from the server's storage.
const PAGE: u32 = 500;

/// An open list.
pub(super) struct Listing {
    /// The request for the first page.
    first: ListRequest,
    /// The number of complete pages.
    pages: u32,
    /// The version of the first page, which is that of the list.
    version: Option<String>,
    /// The token of the page being read.
    token: Option<String>,
    started: Instant,
    activity: Option<Instant>,
    pub(super) flow: Flow,
    /// This is the retry without a version.
    fell_back: bool,
}

impl Listing {
    fn new(first: ListRequest, now: Instant) -> Self {
        Self {
            first,
            pages: 0,
            version: None,
            token: None,
            started: now,
            activity: None,
            flow: Flow::new(now),
            fell_back: false,
        }
    }

    pub(super) fn progress(&mut self, now: Instant) {
        self.activity = Some(now);
    }

    /// Restarts the deadline after a delay that was not caused by the server.
    pub(super) fn restart_deadline(&mut self, now: Instant) {
        match &mut self.activity {
            None => self.started = now,
            Some(activity) => {
                *activity = now;
                self.flow.restart(now);
            }
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.activity.is_some()
    }

    pub(super) fn deadline(&self, deadlines: &Deadlines) -> Instant {
        let idle = match self.activity {
            None => after(self.started, deadlines.list_headers),
            Some(activity) => after(activity, deadlines.list_idle),
        };
        idle.min(self.flow.deadline(deadlines))
    }

    /// Starts the next page or attempt.
    fn reopened(&mut self, now: Instant) {
        self.started = now;
        self.activity = None;
        self.flow.reopened();
    }
}

impl Machine {
    pub(super) fn start_list(&mut self, cx: &mut Context) {
        let request = self.list_request();
        cx.actions.push(Action::List(request.clone()));
        self.phase = Phase::Listing(Listing::new(request, cx.now));
    }

    fn list_request(&self) -> ListRequest {
        let resource_version = match (&self.last, self.config.initial_list) {
            (_, _) if self.last_unavailable => None,
            (Some(last), _) => Some(last.clone()),
            (None, InitialList::Consistent) => None,
            (None, InitialList::AnyCached) => Some("0".to_owned()),
        };
        if self.is_repairing() {
            return ListRequest {
                limit: Some(self.config.page_size.unwrap_or(PAGE)),
                resource_version,
                version_match: Some(VersionMatch::Exact),
                ..ListRequest::default()
            };
        }
        let from_memory = resource_version.as_deref().is_some_and(|version| version != "0");
        let limit = match self.config.page_size {
            Some(size) => Some(size),
            None if self.always_paged || !from_memory => Some(PAGE),
            None => None,
        };
        // Explicit, because servers interpret a version with a limit and no match as "exactly this version".
        let version_match = from_memory.then_some(VersionMatch::NotOlderThan);
        ListRequest {
            limit,
            continue_token: None,
            resource_version,
            version_match,
            // Set by the driver.
            shard: None,
        }
    }

    pub(super) fn step_list(&mut self, mut listing: Listing, input: Input<'_>, cx: &mut Context) {
        match input {
            Input::Progress { bytes } => {
                listing.progress(cx.now);
                listing.flow.received(bytes, &self.config.deadlines, cx.now);
                self.phase = Phase::Listing(listing);
            }
            Input::PageEnd(meta) => self.page_ended(listing, meta, cx),
            Input::Failed(error) => self.list_failed(listing, error, cx),
            Input::DeadlinePassed => self.retry_sync(None, Operation::List, None, cx),
            Input::Ended => {
                self.retry_sync(None, Operation::List, Some(Violation::Truncated), cx);
            }
            _ => self.phase = Phase::Listing(listing),
        }
    }

    fn page_ended(&mut self, mut listing: Listing, meta: &ListMeta, cx: &mut Context) {
        if listing.pages == 0 {
            listing.version = meta.resource_version.clone();
        } else if meta.resource_version != listing.version {
            // Pages of different versions do not form a collection that ever existed.
            let violation = Some(Violation::PagesDiffer);
            return self.retry_sync(None, Operation::List, violation, cx);
        }
        listing.pages += 1;

        let Some(token) = meta.continue_token.clone().filter(|token| !token.is_empty()) else {
            return self.list_complete(listing, cx);
        };
        if listing.token.as_ref() == Some(&token) {
            let violation = Some(Violation::RepeatedToken);
            return self.retry_sync(None, Operation::List, violation, cx);
        }
        if listing.first.resource_version.as_deref() == Some("0") && self.config.page_size.is_none() {
            self.always_paged = true;
        }
        cx.actions.push(Action::List(ListRequest {
            limit: listing.first.limit,
            continue_token: Some(token.clone()),
            resource_version: None,
            version_match: None,
            shard: None,
        }));
        listing.token = Some(token);
        listing.reopened(cx.now);
        self.phase = Phase::Listing(listing);
    }

    fn list_complete(&mut self, listing: Listing, cx: &mut Context) {
        let version = listing.version.clone();
        match self.check_version(version.as_deref(), listing.first.resource_version.as_deref()) {
            VersionCheck::Stale => {
                self.last_unavailable = true;
                let violation = Some(Violation::StaleList);
                return self.retry_sync(None, Operation::List, violation, cx);
            }
            VersionCheck::Rewound => self.report_rewind(Operation::List, cx),
            VersionCheck::Accept => {}
        }
        cx.actions.push(Action::Commit {
            resource_version: version.clone(),
            by: Operation::List,
        });
        self.committed(version);
        self.start_watch(cx);
    }

    pub(super) fn report_rewind(&mut self, operation: Operation, cx: &mut Context) {
        let mut report = self.report(operation, Resume::Rewatch);
        report.violation = Some(Violation::Rewind);
        cx.actions.push(Action::Report(report));
    }

    fn list_failed(&mut self, mut listing: Listing, error: &SourceError, cx: &mut Context) {
        let reason = error.api().and_then(relist_reason);
        if listing.pages > 0 && error.is_expired() {
            // The list took longer than the server keeps its history. A list without pages, at the version first
            // requested, has no tokens that could expire.
            let request = ListRequest {
                limit: None,
                continue_token: None,
                ..listing.first.clone()
            };
            let report = self.report(Operation::List, Resume::RetryWhole);
            cx.actions.extend([
                Action::Discard,
                Action::Report(report),
                Action::List(request.clone()),
            ]);
            listing.first = request;
            listing.pages = 0;
            listing.token = None;
            listing.version = None;
            listing.reopened(cx.now);
            self.phase = Phase::Listing(listing);
        } else if reason.is_some() && listing.first.resource_version.is_some() && !listing.fell_back {
            // The version is expired, too new or invalid: request the newest version, once.
            self.last_unavailable = true;
            let request = self.list_request();
            let report = self.report(Operation::List, Resume::RetryNewest);
            cx.actions.extend([
                Action::Discard,
                Action::Report(report),
                Action::List(request.clone()),
            ]);
            listing = Listing::new(request, cx.now);
            listing.fell_back = true;
            self.phase = Phase::Listing(listing);
        } else {
            self.retry_sync(retry_after(error), Operation::List, None, cx);
        }
    }
}

/// A collection that exceeds a limit will most likely do so again, and every attempt costs as much as the limit allows.
const OVER_THE_LIMIT: Duration = Duration::from_secs(60);

/// The minimum delay after an error.
pub(super) fn retry_after(error: &SourceError) -> Option<Duration> {
    match error {
        SourceError::Limit(_) => Some(OVER_THE_LIMIT),
        error => error.retry_after(),
    }
}
