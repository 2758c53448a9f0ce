//! Doubts about a watch that looks healthy, and the lists that an audit requests.

use super::{Context, Machine, Upcoming};
use crate::reflector::oversight::Doubt;
use crate::reflector::report::{Operation, RelistReason, Resume};
use crate::version::is_step_back;

/// The number of consecutive events older than the last version that raise a doubt. One alone may be a repetition.
const OLDER_EVENTS: u32 = 3;

/// What the machine knows about the credibility of its last version.
#[derive(Debug, Default)]
pub(super) struct Credibility {
    /// The watch was interrupted. The version has not been verified since.
    unverified: bool,
    /// The number of events since the last progress that are older than the last version.
    older_events: u32,
    doubt: Option<Doubt>,
    /// The cache differs from the collection at the last version: fetch exactly that version, which the server reads from
    /// its storage and not from its watch cache.
    repair: bool,
}

impl Machine {
    /// The doubt that arose since the last call.
    pub(crate) fn take_doubt(&mut self) -> Option<Doubt> {
        self.credibility.doubt.take()
    }

    /// Whether the last events were older than the last version.
    pub(crate) fn receives_older_events(&self) -> bool {
        self.credibility.older_events > 0
    }

    /// Whether the next list must be at exactly the last version.
    pub(super) fn is_repairing(&self) -> bool {
        self.credibility.repair && !self.last_unavailable && self.last.is_some()
    }

    /// The watch was interrupted other than by its timeout.
    pub(super) fn watch_interrupted(&mut self) {
        self.credibility.unverified = true;
    }

    /// The server accepted a watch.
    pub(super) fn watch_accepted(&mut self) {
        if std::mem::take(&mut self.credibility.unverified) {
            self.credibility.doubt = Some(Doubt::Reconnected);
        }
    }

    /// An event advanced the version.
    pub(super) fn newer_event(&mut self) {
        self.credibility.older_events = 0;
    }

    /// An event did not advance the version.
    pub(super) fn older_event(&mut self, version: &str) {
        if self
            .last
            .as_deref()
            .is_some_and(|last| is_step_back(last, version))
        {
            self.credibility.older_events += 1;
            if self.credibility.older_events == OLDER_EVENTS {
                self.credibility.doubt = Some(Doubt::OlderEvents);
            }
        }
    }

    /// A bookmark is older than the last version. Unlike an event it is not a repetition.
    pub(super) fn older_bookmark(&mut self) {
        self.credibility.older_events += 1;
        self.credibility.doubt = Some(Doubt::OlderEvents);
    }

    /// The collection is complete: its version is verified.
    pub(super) fn version_verified(&mut self) {
        self.credibility = Credibility::default();
    }

    /// An audit found that the cache differs from the collection. The list is a plain one: a watch-list is served from
    /// the server's watch cache, which may be what is wrong.
    pub(super) fn relist_requested(&mut self, reason: RelistReason, cx: &mut Context) {
        if reason == RelistReason::Rewind {
            self.rewinds += 1;
            self.last = None;
            self.last_unavailable = true;
        } else {
            self.credibility.repair = true;
        }
        let report = self.report(Operation::Watch, Resume::Relist(reason));
        let listing = self.new_list(cx);
        self.proceed(Upcoming::Page(Box::new(listing)), report, cx);
    }
}
