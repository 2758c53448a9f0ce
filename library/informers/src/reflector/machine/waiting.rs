//! Pauses and pacing: when the next request is sent.

use std::time::Duration;

use tokio::time::Instant;

use super::list::Listing;
use super::{Action, Context, Input, Machine, Phase, Report};
use crate::reflector::backoff::FailureClass;
use crate::time::after;

/// The time over which the reflectors of a process spread their requests when the server is reachable again.
const SPREAD: Duration = Duration::from_secs(5);

/// The next request.
pub(super) enum Upcoming {
    /// Fetch the whole collection, by watch-list or list.
    Sync,
    /// Fetch the whole collection by watch-list; `fell_back` if this is the retry at the newest version.
    WatchList { fell_back: bool },
    /// The next page of this list, which may be its first.
    Page(Box<Listing>),
    /// Watch from the last version.
    Watch,
}

/// A pause before the next request.
pub(super) struct Waiting {
    pub(super) until: Instant,
    pub(super) then: Upcoming,
    /// The token of the request has been taken.
    pub(super) paced: bool,
    /// The failure that caused the pause.
    pub(super) class: Option<FailureClass>,
}

impl Waiting {
    /// Whether the pause is between two pages of a list.
    pub(super) fn is_within_list(&self) -> bool {
        matches!(&self.then, Upcoming::Page(listing) if listing.is_under_way())
    }
}

impl Machine {
    pub(super) fn step_waiting(&mut self, mut waiting: Waiting, input: Input<'_>, cx: &mut Context) {
        match input {
            Input::Woken if waiting.paced => self.open(waiting.then, cx),
            Input::Woken => self.request(waiting.then, cx),
            // The pause ends, but the pacing of requests holds.
            Input::RetryNow if !waiting.paced => self.request(waiting.then, cx),
            Input::ServerReached if waiting.class == Some(FailureClass::Unreachable) => {
                // Spread out: all reflectors of the process receive this at the same time.
                let spread = cx.now + SPREAD.mul_f64(cx.jitter);
                waiting.until = waiting.until.min(spread);
                self.phase = Phase::Waiting(waiting);
            }
            _ => self.phase = Phase::Waiting(waiting),
        }
    }

    /// Sends the next request as soon as the pacing allows.
    pub(super) fn request(&mut self, then: Upcoming, cx: &mut Context) {
        let at = self.pace.take(cx.now);
        if at <= cx.now {
            return self.open(then, cx);
        }
        if matches!(&then, Upcoming::Page(listing) if listing.is_under_way()) {
            self.paced_pages += 1;
        }
        self.phase = Phase::Waiting(Waiting {
            until: at,
            then,
            paced: true,
            class: None,
        });
    }

    pub(super) fn open(&mut self, then: Upcoming, cx: &mut Context) {
        match then {
            Upcoming::Sync => self.open_sync(cx),
            Upcoming::WatchList { fell_back } => self.open_watch_list(fell_back, cx),
            Upcoming::Page(listing) => self.open_page(*listing, cx),
            Upcoming::Watch => self.open_watch(cx),
        }
    }

    /// Reports the end of a stream and sends the next request after a pause.
    pub(super) fn pause(
        &mut self,
        pause: Duration,
        class: Option<FailureClass>,
        then: Upcoming,
        mut report: Report,
        cx: &mut Context,
    ) {
        let until = after(cx.now, pause).max(self.pace.ready_at(cx.now));
        report.pause = until.saturating_duration_since(cx.now);
        cx.actions.push(Action::Report(report));
        if until <= cx.now {
            return self.request(then, cx);
        }
        self.phase = Phase::Waiting(Waiting {
            until,
            then,
            paced: false,
            class,
        });
    }

    /// Reports the end of a stream and sends the next request at once, if the pacing allows.
    pub(super) fn proceed(&mut self, then: Upcoming, report: Report, cx: &mut Context) {
        self.pause(Duration::ZERO, None, then, report, cx);
    }
}
