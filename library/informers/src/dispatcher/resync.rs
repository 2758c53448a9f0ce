//! `Resync`: the schedule of one handler's resyncs.

use std::time::Duration;

use tokio::time::Instant;

/// Shorter periods are raised to this (client-go: 1 s).
const SHORTEST: Duration = Duration::from_secs(1);

const NANOS_PER_SEC: u128 = 1_000_000_000;

pub(super) struct Resync {
    period: Duration,
    due: Instant,
}

impl Resync {
    /// `None` (never) for zero, and for periods beyond the range of the clock.
    pub(super) fn every(period: Duration, now: Instant) -> Option<Self> {
        if period.is_zero() {
            return None;
        }
        let period = period.max(SHORTEST);
        let due = now.checked_add(period)?;
        Some(Self { period, due })
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Restarts the period at `now`.
    pub(super) fn restart(&mut self, now: Instant) {
        self.due = now.checked_add(self.period).unwrap_or(self.due);
    }

    /// Whether a resync is due; if so, schedules the next one. A late call does not shift the schedule, and missed periods
    /// are not made up for.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let late = now.duration_since(self.due).as_nanos();
        let nanos = late % self.period.as_nanos();
        // Fits: less than a period.
        let into_beat = Duration::new((nanos / NANOS_PER_SEC) as u64, (nanos % NANOS_PER_SEC) as u32);
        self.due = now.checked_add(self.period - into_beat).unwrap_or(now + SHORTEST);
        true
    }
}
