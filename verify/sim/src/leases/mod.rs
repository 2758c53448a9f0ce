//! Elections and shard groups of `kube-leases`: their state machines, with clocks that differ, messages that are lost and late,
//! and processes that pause, die and come back.
//!
//! The tape says what goes wrong and when; what it leaves open, such as the usual delay of a message, follows from the setting
//! `jitter`, the process and a number of the message, and so does not change when entries of the tape are deleted.

pub mod election;
pub mod group;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use crate::invariants::{Check, Violation};
use crate::tape::{Kind, Op, Settings, Tape};
use crate::world::{Failure, Outcome};

/// True time since the beginning of a run.
type Time = Duration;

/// How far the rates of clocks may differ, by the setting `clocks`: equal, within the documented bound of lease duration / renew
/// deadline = 1.5, and beyond it.
const RATES: [(f64, f64); 3] = [(1.0, 1.0), (0.82, 1.2), (0.4, 2.5)];

/// The monotonic clock of one process: wrong by any offset, fast or slow by a rate.
#[derive(Clone, Copy)]
struct Clock {
    origin: Instant,
    rate: f64,
}

impl Clock {
    fn new(start: Instant, settings: &Settings, rng: &mut Rng) -> Self {
        let (low, high) = RATES[settings.clocks as usize % RATES.len()];
        Self {
            origin: start + Duration::from_secs(rng.u64(0..100_000)),
            rate: low + rng.f64() * (high - low),
        }
    }

    /// What the clock shows.
    fn local(&self, time: Time) -> Instant {
        self.origin + time.mul_f64(self.rate)
    }

    /// The first moment at which the clock shows `local`, and not before `now`.
    fn when(&self, local: Instant, now: Time) -> Time {
        let shown = local.saturating_duration_since(self.origin);
        // One nanosecond more, so that rounding never makes an event come before its time.
        (shown.div_f64(self.rate) + Duration::from_nanos(1)).max(now)
    }
}

/// Events in the order of their time; those of one time in the order they were added.
struct Agenda<E> {
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    events: Vec<Option<E>>,
    /// Places of `events` that are free.
    free: Vec<usize>,
    count: u64,
}

impl<E> Agenda<E> {
    fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            count: 0,
        }
    }

    fn add(&mut self, at: Time, event: E) {
        self.count += 1;
        let place = self.free.pop().unwrap_or(self.events.len());
        match self.events.get_mut(place) {
            Some(free) => *free = Some(event),
            None => self.events.push(Some(event)),
        }
        self.heap.push(Reverse((at, self.count, place)));
    }

    /// The next event that is not after `end`.
    fn next(&mut self, end: Time) -> Option<(Time, E)> {
        let Reverse((at, _, _)) = self.heap.peek()?;
        if *at > end {
            return None;
        }
        let Reverse((at, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some((at, self.events[place].take()?))
    }
}

/// What goes wrong with the messages of one process.
#[derive(Clone, Debug, Default)]
struct Link {
    /// The number of messages, for what the tape leaves open.
    messages: u64,
    /// The next messages are lost.
    lost: u32,
    /// The next message takes so long.
    delay: Option<Duration>,
    /// The next requests are refused.
    refused: u32,
    /// The next list is so many lists old.
    stale: Option<u32>,
}

impl Link {
    /// When a message arrives, if it does.
    fn sends(&mut self, settings: &Settings, process: usize) -> Option<Duration> {
        self.messages += 1;
        if self.lost > 0 {
            self.lost -= 1;
            return None;
        }
        let usual = || up_to(&mut noise(settings, process, self.messages), 50);
        Some(self.delay.take().unwrap_or_else(usual))
    }

    fn is_refused(&mut self) -> bool {
        let refused = self.refused > 0;
        self.refused = self.refused.saturating_sub(1);
        refused
    }

    /// Faults that any process can have; whether it was one.
    fn fault(&mut self, op: Op) -> bool {
        match op.kind {
            Kind::Lose => self.lost = op.b,
            Kind::Delay => self.delay = Some(Duration::from_millis(op.b.into())),
            Kind::Deny => self.refused = op.b,
            Kind::StaleRead => self.stale = Some(op.b),
            _ => return false,
        }
        true
    }

    fn heal(&mut self) {
        *self = Self {
            messages: self.messages,
            ..Self::default()
        };
    }
}

/// Random numbers of one message of one process.
fn noise(settings: &Settings, process: usize, number: u64) -> Rng {
    let mut hasher = DefaultHasher::new();
    (settings.jitter, process, number).hash(&mut hasher);
    Rng::with_seed(hasher.finish())
}

/// A random duration of up to so many milliseconds.
fn up_to(rng: &mut Rng, milliseconds: u64) -> Duration {
    Duration::from_micros(rng.u64(0..=milliseconds * 1000))
}

/// An election or a shard group.
trait Model {
    /// Something goes wrong.
    fn perform(&mut self, op: Op);
    /// Time passes.
    fn advance(&mut self, by: Duration) -> Check;
    /// Nothing goes wrong any more: everything must become well.
    fn heal(&mut self) -> Check;
    /// The true time and what was observed, for the hash.
    fn observed(&self) -> (Time, u64);
    /// One line about the state.
    fn describe(&self) -> String;
}

/// Plays a tape.
fn play(model: &mut dyn Model, tape: &Tape, with_journal: bool) -> Outcome {
    let mut trace = DefaultHasher::new();
    let mut journal = Vec::new();
    let mut failure = None;
    let mut note = |model: &dyn Model, text: &dyn std::fmt::Display| {
        model.observed().hash(&mut trace);
        if with_journal {
            let (at, line) = (model.observed().0.as_secs_f64(), model.describe());
            journal.push(format!("{:<22} # {at:>7.1} s  {line}", text.to_string()));
        }
    };
    for (step, op) in tape.ops.iter().enumerate() {
        let done = match op.kind {
            Kind::Advance => model.advance(Duration::from_millis(op.a.into())),
            _ => {
                model.perform(*op);
                Ok(())
            }
        };
        note(model, op);
        if let Err(violation) = done {
            failure = Some(Failure { step, violation });
            break;
        }
    }
    if failure.is_none() {
        let healed: Result<(), Violation> = model.heal();
        let step = tape.ops.len();
        failure = healed.err().map(|violation| Failure { step, violation });
        note(model, &"healed");
    }
    Outcome {
        hash: trace.finish(),
        failure,
        requests: 0,
        coverage: Default::default(),
        journal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Profile, tape};

    /// Plays the tape of a seed, with the given clocks instead of its own. Returns the model as it is then, or the invariant that
    /// was violated.
    pub(super) fn played<M: Model>(
        new: impl Fn(&Settings) -> M,
        profile: Profile,
        seed: u64,
        clocks: Option<u32>,
    ) -> Result<M, &'static str> {
        let mut tape = tape(seed, profile);
        tape.settings.clocks = clocks.unwrap_or(tape.settings.clocks);
        let mut model = new(&tape.settings);
        match play(&mut model, &tape, false).failure {
            None => Ok(model),
            Some(failure) => Err(failure.violation.invariant),
        }
    }
}
