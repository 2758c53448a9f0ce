//! What the simulators share: clocks that differ, and a queue of events in true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::Instant;

/// True time since the beginning of a simulation.
pub(crate) type Time = Duration;

/// The monotonic clock of one process: wrong by any offset, fast or slow by a rate.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    offset: Duration,
    rate: f64,
}

impl Clock {
    pub(crate) fn new(origin: Instant, offset: Duration, rate: f64) -> Self {
        Self { origin, offset, rate }
    }

    /// What the clock shows.
    pub(crate) fn local(&self, time: Time) -> Instant {
        self.origin + self.offset + time.mul_f64(self.rate)
    }

    /// The first moment at which the clock shows `local`, and not before `now`.
    pub(crate) fn when(&self, local: Instant, now: Time) -> Time {
        let shown = local.saturating_duration_since(self.origin + self.offset);
        // One nanosecond more, so that rounding never makes an event come before its time.
        (shown.div_f64(self.rate) + Duration::from_nanos(1)).max(now)
    }
}

/// Events in the order of their time; those of one time in the order they were added.
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    events: Vec<Option<E>>,
    count: u64,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            events: Vec::new(),
            count: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Time, event: E) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, self.events.len())));
        self.events.push(Some(event));
    }

    pub(crate) fn next(&mut self) -> Option<(Time, E)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        Some((at, self.events[place].take()?))
    }
}

/// A random duration of up to so many milliseconds.
pub(crate) fn up_to(rng: &mut fastrand::Rng, milliseconds: u64) -> Duration {
    Duration::from_micros(rng.u64(0..=milliseconds * 1000))
}
