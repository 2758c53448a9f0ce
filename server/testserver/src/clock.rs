//! Timestamps that follow tokio's clock, so that a paused clock also stops the dates on objects.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The server's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    started: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            wall: Timestamp::now(),
            started: Instant::now(),
        }
    }

    /// Time since the server was created.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Now.
    pub(crate) fn now(&self) -> Timestamp {
        self.in_seconds(0)
    }

    /// The current time to the second, as in `creationTimestamp`: `2026-01-31T12:00:00Z`.
    pub(crate) fn timestamp(&self) -> String {
        self.timestamp_in(0)
    }

    /// The time a number of seconds from now.
    pub(crate) fn timestamp_in(&self, later: u64) -> String {
        self.in_seconds(later).to_string()
    }

    fn in_seconds(&self, later: u64) -> Timestamp {
        let later = i64::try_from(later).unwrap_or(i64::MAX);
        let seconds = i64::try_from(self.elapsed().as_secs()).unwrap_or(i64::MAX);
        let seconds = self
            .wall
            .as_second()
            .saturating_add(seconds)
            .saturating_add(later);
        Timestamp::from_second(seconds).unwrap_or(self.wall)
    }
}
