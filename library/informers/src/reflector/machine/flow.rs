//! The throughput and the total duration of fetching a collection.

use std::time::Duration;

use tokio::time::Instant;

use crate::reflector::config::Deadlines;
use crate::time::after;
use crate::wire::LimitExceeded;

/// The time in which the average throughput must reach the minimum.
const WINDOW: Duration = Duration::from_secs(60);

/// Measures one fetch. A response that is slow but within the idle deadline would otherwise never end.
#[derive(Debug)]
pub(super) struct Flow {
    /// The start of the fetch.
    began: Instant,
    /// The start of the current window, if a response is being read.
    window: Option<Instant>,
    /// The bytes received in it.
    bytes: u64,
}

impl Flow {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            window: None,
            bytes: 0,
        }
    }

    /// A window ends as soon as enough was received for all of it.
    pub(super) fn received(&mut self, bytes: usize, deadlines: &Deadlines, now: Instant) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let enough = u64::from(deadlines.min_throughput).saturating_mul(WINDOW.as_secs());
        if self.window.is_none() || self.bytes >= enough {
            self.restart(now);
        }
    }

    /// Starts a new window, for example because the delay was not caused by the server.
    pub(super) fn restart(&mut self, now: Instant) {
        self.window = Some(now);
        self.bytes = 0;
    }

    /// The next page is requested. It has its own deadline until the response starts.
    pub(super) fn reopened(&mut self) {
        self.window = None;
        self.bytes = 0;
    }

    pub(super) fn deadline(&self, deadlines: &Deadlines) -> Instant {
        let total = after(self.began, deadlines.list_total);
        match self.window.filter(|_| deadlines.min_throughput > 0) {
            Some(window) => total.min(after(window, WINDOW)),
            None => total,
        }
    }

    /// The limit that has been exceeded, if any.
    pub(super) fn exceeded(&self, deadlines: &Deadlines, now: Instant) -> Option<LimitExceeded> {
        if now < self.deadline(deadlines) {
            None
        } else if now >= after(self.began, deadlines.list_total) {
            Some(LimitExceeded::Duration {
                limit: deadlines.list_total,
            })
        } else {
            Some(LimitExceeded::Throughput {
                received: self.bytes,
                within: WINDOW,
                limit: deadlines.min_throughput,
            })
        }
    }
}
