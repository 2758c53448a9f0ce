//! Lists: which version to request, in pages or as a whole, and how to react to a failed page.
//!
//! The next page of a list is requested at once if the page before it made progress: it has objects, and does not start
//! with the same object as an earlier page. All other requests are paced. Lists that fail after their first page cannot be
//! used to get around this: after an expired token, or three failures in a row, the collection is requested without pages,
//! and a server that returns pages all the same gets each request at the paced rate.

use std::collections::HashSet;

use tokio::time::Instant;

use super::flow::Flow;
use super::{Action, Context, Input, Machine, Phase, Upcoming, VersionCheck, relist_reason};
use crate::reflector::backoff::{Failure, FailureClass};
use crate::reflector::config::{Deadlines, InitialList};
use crate::reflector::pages::Pages;
use crate::reflector::report::{Operation, Resume, Violation};
use crate::source::{ListRequest, VersionMatch};
use crate::time::after;
use crate::wire::{ListMeta, SourceError};

/// client-go's page size for reads from the server's storage.
const PAGE: u32 = 500;
/// The number of lists that may fail after their first page before the collection is requested without pages.
const MAX_FAILED_PAGES: u32 = 3;

/// A list, possibly between two pages.
pub(super) struct Listing {
    pages: Pages,
    /// The request for the page that is being read or comes next.
    request: ListRequest,
    /// The version of the first page, which is that of the list.
    version: Option<String>,
    /// Hashes of the keys of the first objects of its pages.
    first_keys: HashSet<u64>,
    /// The page being read made progress.
    progressed: bool,
    started: Instant,
    activity: Option<Instant>,
    pub(super) flow: Flow,
    /// This is the retry without a version.
    fell_back: bool,
}

impl Listing {
    fn new(first: ListRequest, max_pages: u32, now: Instant) -> Self {
        Self {
            request: first.clone(),
            pages: Pages::new(first, max_pages),
            version: None,
            first_keys: HashSet::new(),
            progressed: false,
            started: now,
            activity: None,
            flow: Flow::new(now),
            fell_back: false,
        }
    }

    /// Records an object. `first_key` is given for the first object of a page.
    pub(super) fn object(&mut self, first_key: Option<u64>, now: Instant) {
        self.progress(now);
        self.progressed |= first_key.is_none_or(|key| self.first_keys.insert(key));
    }

    /// Whether a page has been received.
    pub(super) fn is_under_way(&self) -> bool {
        self.pages.complete() > 0
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

    /// The request for the next page was sent.
    pub(super) fn reopened(&mut self, now: Instant) {
        self.started = now;
        self.activity = None;
        self.flow.reopened();
        self.progressed = false;
    }
}

impl Machine {
    pub(super) fn new_list(&self, cx: &Context) -> Listing {
        Listing::new(self.list_request(), self.config.max_pages, cx.now)
    }

    pub(super) fn open_page(&mut self, mut listing: Listing, cx: &mut Context) {
        cx.actions.push(Action::List(listing.request.clone()));
        listing.reopened(cx.now);
        self.phase = Phase::Listing(listing);
    }

    fn list_request(&self) -> ListRequest {
        let resource_version = match (&self.last, self.config.initial_list) {
            (_, _) if self.last_unavailable => None,
            (Some(last), _) => Some(last.clone()),
            (None, InitialList::Consistent) => None,
            (None, _) => Some("0".to_owned()),
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
            _ if self.failed_pages >= MAX_FAILED_PAGES => None,
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
            Input::DeadlinePassed => self.retry_list(&listing, Failure::SERVED, None, cx),
            Input::Ended => self.retry_list(&listing, Failure::SERVED, Some(Violation::Truncated), cx),
            _ => self.phase = Phase::Listing(listing),
        }
    }

    fn page_ended(&mut self, mut listing: Listing, meta: &ListMeta, cx: &mut Context) {
        if !listing.is_under_way() {
            listing.version = meta.resource_version.clone();
        } else if meta.resource_version != listing.version {
            // Pages of different versions do not form a collection that ever existed.
            let violation = Some(Violation::PagesDiffer);
            return self.retry_list(&listing, Failure::SERVED, violation, cx);
        }
        listing.request = match listing.pages.advance(meta) {
            Ok(Some(request)) => request,
            Ok(None) => return self.list_complete(listing, cx),
            Err(violation) => {
                self.distrust_pages = true;
                return self.retry_list(&listing, Failure::SERVED, Some(violation), cx);
            }
        };
        if listing.pages.first().resource_version.as_deref() == Some("0") && self.config.page_size.is_none() {
            self.always_paged = true;
        }
        let next = Upcoming::Page(Box::new(listing));
        match &next {
            Upcoming::Page(listing) if listing.progressed && !self.distrust_pages => self.open(next, cx),
            _ => self.request(next, cx),
        }
    }

    /// Starts over after a failed list.
    fn retry_list(
        &mut self,
        listing: &Listing,
        failure: Failure,
        violation: Option<Violation>,
        cx: &mut Context,
    ) {
        if listing.is_under_way() {
            self.failed_pages += 1;
            self.distrust_pages |= self.failed_pages >= MAX_FAILED_PAGES;
        }
        self.retry_sync(failure, Operation::List, violation, cx);
    }

    fn list_complete(&mut self, listing: Listing, cx: &mut Context) {
        let version = listing.version.clone();
        match self.check_version(
            version.as_deref(),
            listing.pages.first().resource_version.as_deref(),
        ) {
            VersionCheck::Stale => {
                self.last_unavailable = true;
                let violation = Some(Violation::StaleList);
                return self.retry_sync(Failure::SERVED, Operation::List, violation, cx);
            }
            VersionCheck::Rewound => self.report_rewind(Operation::List, cx),
            VersionCheck::Accept => {}
        }
        cx.actions.push(Action::Commit {
            resource_version: version.clone(),
            by: Operation::List,
        });
        self.committed(version);
        self.request(Upcoming::Watch, cx);
    }

    pub(super) fn report_rewind(&mut self, operation: Operation, cx: &mut Context) {
        let mut report = self.report(operation, Resume::Rewatch);
        report.violation = Some(Violation::Rewind);
        cx.actions.push(Action::Report(report));
    }

    fn list_failed(&mut self, listing: Listing, error: &SourceError, cx: &mut Context) {
        let reason = error.api().and_then(relist_reason);
        if listing.is_under_way() && error.is_expired() {
            // The list took longer than the server keeps its history. A list without pages, at the version first
            // requested, has no tokens that could expire.
            let request = listing.pages.whole();
            self.failed_pages = MAX_FAILED_PAGES;
            let resume = match self.distrust_pages {
                false => Resume::RetryWhole,
                // The server returns pages although none were requested, and lets them expire.
                true => return self.retry_sync(Failure::SERVED, Operation::List, None, cx),
            };
            self.distrust_pages = true;
            let fell_back = listing.fell_back;
            self.list_again(request, fell_back, resume, cx);
        } else if reason.is_some() && listing.pages.first().resource_version.is_some() && !listing.fell_back {
            // The version is expired, too new or invalid: request the newest version, once.
            self.last_unavailable = true;
            self.list_again(self.list_request(), true, Resume::RetryNewest, cx);
        } else {
            let spent = cx.now.saturating_duration_since(listing.started);
            let failure = match Failure::of(error) {
                // A connection that breaks in the middle of a list has cost the server a part of it.
                failure if listing.has_started() => failure.served(),
                failure => failure.after(spent),
            };
            self.not_found = failure.class == FailureClass::NotFound;
            self.retry_list(&listing, failure, None, cx);
        }
    }

    /// Replaces a failed list by another one, without a pause.
    fn list_again(&mut self, request: ListRequest, fell_back: bool, resume: Resume, cx: &mut Context) {
        cx.actions.push(Action::Discard);
        let report = self.report(Operation::List, resume);
        let mut listing = Listing::new(request, self.config.max_pages, cx.now);
        listing.fell_back = fell_back;
        self.proceed(Upcoming::Page(Box::new(listing)), report, cx);
    }
}
