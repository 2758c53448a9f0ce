//! Listing: which version to ask for, in pages or whole, and what to do when a page fails.

use tokio::time::Instant;

use super::{Action, Input, Machine, Phase, Verdict, relist_reason};
use crate::reflector::config::{Deadlines, InitialList};
use crate::reflector::report::{Complaint, Operation, Resume};
use crate::source::{ListMeta, ListRequest, SourceError, VersionMatch};

/// client-go's page size for reads that go to the server's storage.
const PAGE: u32 = 500;

/// An open list.
pub(super) struct Listing {
    /// The request for the first page.
    first: ListRequest,
    /// Pages completed.
    pages: u32,
    /// The version of the first page, which is the version of the list.
    version: Option<String>,
    /// The token of the page being read.
    token: Option<String>,
    started: Instant,
    activity: Option<Instant>,
    /// A list without version was tried already in this cycle.
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
            fell_back: false,
        }
    }

    pub(super) fn progress(&mut self, now: Instant) {
        self.activity = Some(now);
    }

    /// Silence up to now was no fault of the server.
    pub(super) fn held_up(&mut self, now: Instant) {
        match &mut self.activity {
            None => self.started = now,
            Some(activity) => *activity = now,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.activity.is_some()
    }

    pub(super) fn deadline(&self, deadlines: &Deadlines) -> Instant {
        match self.activity {
            None => self.started + deadlines.list_headers,
            Some(activity) => activity + deadlines.list_idle,
        }
    }

    /// A new page or a new attempt: its answer has not begun yet.
    fn reopened(&mut self, now: Instant) {
        self.started = now;
        self.activity = None;
    }
}

impl Machine {
    pub(super) fn start_list(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let request = self.list_request();
        actions.push(Action::List(request.clone()));
        self.phase = Phase::Listing(Listing::new(request, now));
    }

    fn list_request(&self) -> ListRequest {
        let resource_version = match (&self.last, self.config.initial_list) {
            (_, _) if self.last_unavailable => None,
            (Some(last), _) => Some(last.clone()),
            (None, InitialList::Consistent) => None,
            (None, InitialList::AnyCached) => Some("0".to_owned()),
        };
        let from_memory = resource_version.as_deref().is_some_and(|version| version != "0");
        let limit = match self.config.page_size {
            Some(size) => Some(size),
            None if self.always_paged || !from_memory => Some(PAGE),
            None => None,
        };
        // Said outright: with a limit and no match, servers read a version as "exactly this one".
        let version_match = from_memory.then_some(VersionMatch::NotOlderThan);
        ListRequest {
            limit,
            continue_token: None,
            resource_version,
            version_match,
            // The driver's to say.
            shard: None,
        }
    }

    pub(super) fn step_list(
        &mut self,
        mut listing: Listing,
        now: Instant,
        dice: f64,
        input: Input<'_>,
        actions: &mut Vec<Action>,
    ) {
        match input {
            Input::Progress => {
                listing.progress(now);
                self.phase = Phase::Listing(listing);
            }
            Input::PageEnd(meta) => self.page_ended(listing, now, dice, meta, actions),
            Input::Failed(error) => self.list_failed(listing, now, dice, error, actions),
            Input::DeadlinePassed => self.retry_sync(now, dice, None, Operation::List, None, actions),
            Input::Ended => {
                self.retry_sync(
                    now,
                    dice,
                    None,
                    Operation::List,
                    Some(Complaint::Truncated),
                    actions,
                );
            }
            _ => self.phase = Phase::Listing(listing),
        }
    }

    fn page_ended(
        &mut self,
        mut listing: Listing,
        now: Instant,
        dice: f64,
        meta: &ListMeta,
        actions: &mut Vec<Action>,
    ) {
        if listing.pages == 0 {
            listing.version = meta.resource_version.clone();
        } else if meta.resource_version != listing.version {
            // Pages of different versions are no collection that ever existed.
            let complaint = Some(Complaint::PagesDiffer);
            return self.retry_sync(now, dice, None, Operation::List, complaint, actions);
        }
        listing.pages += 1;

        let Some(token) = meta.continue_token.clone().filter(|token| !token.is_empty()) else {
            return self.list_complete(listing, now, dice, actions);
        };
        if listing.token.as_ref() == Some(&token) {
            let complaint = Some(Complaint::RepeatedToken);
            return self.retry_sync(now, dice, None, Operation::List, complaint, actions);
        }
        if listing.first.resource_version.as_deref() == Some("0") && self.config.page_size.is_none() {
            self.always_paged = true;
        }
        actions.push(Action::List(ListRequest {
            limit: listing.first.limit,
            continue_token: Some(token.clone()),
            resource_version: None,
            version_match: None,
            shard: None,
        }));
        listing.token = Some(token);
        listing.reopened(now);
        self.phase = Phase::Listing(listing);
    }

    fn list_complete(&mut self, listing: Listing, now: Instant, dice: f64, actions: &mut Vec<Action>) {
        let version = listing.version.clone();
        match self.accept_version(version.as_deref(), listing.first.resource_version.as_deref()) {
            Verdict::Stale => {
                self.last_unavailable = true;
                let complaint = Some(Complaint::StaleList);
                return self.retry_sync(now, dice, None, Operation::List, complaint, actions);
            }
            Verdict::Rewound => self.report_rewind(Operation::List, actions),
            Verdict::Take => {}
        }
        actions.push(Action::Commit {
            resource_version: version.clone(),
            by: Operation::List,
        });
        self.committed(version);
        self.start_watch(now, dice, actions);
    }

    pub(super) fn report_rewind(&mut self, operation: Operation, actions: &mut Vec<Action>) {
        let mut report = self.report(operation, Resume::Rewatch);
        report.complaint = Some(Complaint::Rewind);
        actions.push(Action::Report(report));
    }

    fn list_failed(
        &mut self,
        mut listing: Listing,
        now: Instant,
        dice: f64,
        error: &SourceError,
        actions: &mut Vec<Action>,
    ) {
        let reason = error.api().and_then(relist_reason);
        if listing.pages > 0 && error.is_expired() {
            // The list took longer than the server keeps its history. One whole list, at the version first
            // asked for, has no tokens that could expire.
            let request = ListRequest {
                limit: None,
                continue_token: None,
                ..listing.first.clone()
            };
            let report = self.report(Operation::List, Resume::RetryWhole);
            actions.extend([
                Action::Discard,
                Action::Report(report),
                Action::List(request.clone()),
            ]);
            listing.first = request;
            listing.pages = 0;
            listing.token = None;
            listing.version = None;
            listing.reopened(now);
            self.phase = Phase::Listing(listing);
        } else if reason.is_some() && listing.first.resource_version.is_some() && !listing.fell_back {
            // The version is gone, not there yet, or not to the server's taste: ask for the newest, once.
            self.last_unavailable = true;
            let request = self.list_request();
            let report = self.report(Operation::List, Resume::RetryNewest);
            actions.extend([
                Action::Discard,
                Action::Report(report),
                Action::List(request.clone()),
            ]);
            listing = Listing::new(request, now);
            listing.fell_back = true;
            self.phase = Phase::Listing(listing);
        } else {
            self.retry_sync(now, dice, error.retry_after(), Operation::List, None, actions);
        }
    }
}
