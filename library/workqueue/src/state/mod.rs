//! The rules of the queue as a state machine over inputs and time. No clock, lock or waker, no observable randomness,
//! and no user code but `Hash`, `Eq` and `Clone` of the key; a simulator can drive it.
//!
//! A key is in the machine while it is *ready*, *running* (in flight) or *delayed*; it may be delayed and one of the
//! other two at once. Keys that leave are returned, so that the caller can drop them, and their failure counts, outside
//! its lock.

mod delay;
mod list;
mod ready;
mod table;

use crate::priority::Priority;
use crate::stats::{Meter, Stats};
use delay::Delayed;
use list::{Links, List, Slot, TURN};
use ready::Ready;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU64;
use std::time::Duration;
use table::{Phase, Table};
use tokio::time::Instant;

/// Above this number of slots, memory is freed when the last key leaves, so that a burst is not kept forever.
const KEEP_SLOTS: usize = 4096;

/// The maximum delay (about 30 years), so that `now + delay` cannot overflow.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The work queue without clock and waiters: time is an argument of its methods.
pub struct QueueMachine<T> {
    table: Table<T>,
    ready: Ready,
    delayed: Delayed,
    /// Keys in flight, the longest running first.
    running: List<TURN>,
    links: Links,
    /// The number of running keys that were added again.
    again: usize,
    shutting_down: bool,
    next_run: NonZeroU64,
    timings: bool,
    pub(crate) meter: Meter,
}

/// One run of a key, from [`take`](QueueMachine::take) to [`finish`](QueueMachine::finish). Numbers are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    number: NonZeroU64,
    slot: Slot,
    priority: Priority,
}

impl Run {
    /// The priority the key had when it was taken.
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

/// A key taken by a worker.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    /// The key.
    pub key: T,
    /// Identifies this run for [`finish`](QueueMachine::finish).
    pub run: Run,
}

/// The result of an add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added<T> {
    /// The key was not outstanding; now it is outstanding or delayed.
    New,
    /// The key was already outstanding or delayed. The duplicate is returned.
    Merged(T),
    /// The queue is shutting down. The key is returned.
    Refused(T),
}

/// A key that has left the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone<T> {
    /// The key.
    pub key: T,
    /// Whether the rate limiter was called for it, so that it may hold a failure count.
    pub limited: bool,
}

/// The result of a finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished<T> {
    /// No such run is in progress: it was finished before. Nothing changed.
    Unknown,
    /// The key is ready again, or delayed.
    Live,
    /// The key has left the machine.
    Gone(Gone<T>),
}

/// A request to run a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The delay after the end of this run.
    pub delay: Duration,
    /// The priority.
    pub priority: Priority,
    /// Whether the delay came from the rate limiter.
    pub limited: bool,
}

/// Counts only: keys belong to the user.
impl<T> fmt::Debug for QueueMachine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueMachine")
            .field("shutting_down", &self.shutting_down)
            .field("next_run", &self.next_run)
            .finish_non_exhaustive()
    }
}

impl<T: Clone + Eq + Hash> QueueMachine<T> {
    /// An empty machine. The key that has waited longest goes next after it was passed over `ageing` times; 0: never.
    /// Without `timings` durations are not recorded, and `now` only matters for delays.
    pub fn new(ageing: u32, timings: bool) -> Self {
        QueueMachine {
            table: Table::new(),
            ready: Ready::new(ageing),
            delayed: Delayed::default(),
            running: List::new(),
            links: Links::default(),
            again: 0,
            shutting_down: false,
            next_run: NonZeroU64::MIN,
            timings,
            meter: Meter::default(),
        }
    }

    /// Adds a key.
    #[inline]
    pub fn add(&mut self, key: T, priority: Priority, now: Instant) -> Added<T> {
        self.admit(key, priority, None, false, now)
    }

    /// Adds a key after a delay. If it is already delayed, the earlier time wins.
    pub fn add_after(&mut self, key: T, again: Again, now: Instant) -> Added<T> {
        self.meter.retries += u64::from(!self.shutting_down);
        self.admit(key, again.priority, due(now, again.delay), again.limited, now)
    }

    /// Makes all delayed keys ready that are due at or before `now`. The inputs that queue a key do this first, so that
    /// keys due before it are queued before it.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        // Called by nearly every input, usually with nothing to do.
        if self.delayed.next_due().is_some_and(|due| due <= now) {
            for waiting in self.delayed.take_due(now) {
                // Outstanding since its due time, not since this call.
                self.ask(waiting.slot, waiting.priority, waiting.due);
            }
        }
    }

    /// Takes the next key.
    #[inline]
    pub fn take(&mut self, now: Instant) -> Option<Taken<T>> {
        let slot = self.ready.next()?;
        let entry = self.table.entry_mut(slot);
        // Cloned before anything changes: if `Clone` panics, the key must not be lost.
        let key = entry.key().clone();
        let number = self.next_run;
        self.next_run = number.saturating_add(1);
        self.ready.take(&mut self.links, slot, entry.priority);
        self.running.push_back(&mut self.links, slot);
        entry.phase = Phase::Running;
        entry.run = Some(number);
        entry.started = now;
        if self.timings {
            self.meter
                .queue_latency
                .observe(now.saturating_duration_since(entry.since));
        }
        Some(Taken {
            key,
            run: Run {
                number,
                slot,
                priority: entry.priority,
            },
        })
    }

    /// Ends a run. If the key was added in the meantime it is ready again; `again` adds it once more. A run that was
    /// finished before is ignored.
    #[inline]
    pub fn finish(&mut self, run: Run, again: Option<Again>, now: Instant) -> Finished<T> {
        if self.running_key(run).is_none() {
            return Finished::Unknown;
        }
        self.advance(now);
        let slot = run.slot;
        self.running.remove(&mut self.links, slot);
        let entry = self.table.entry_mut(slot);
        if self.timings {
            self.meter
                .work_duration
                .observe(now.saturating_duration_since(entry.started));
        }
        entry.run = None;
        if entry.phase == Phase::RunningAgain {
            self.again -= 1;
            entry.phase = Phase::Ready;
            self.ready.push(&mut self.links, slot, entry.priority);
        } else {
            entry.phase = Phase::Idle;
        }
        if let Some(again) = again {
            entry.limited |= again.limited;
            if self.shutting_down {
                self.meter.discarded += 1;
            } else {
                self.meter.retries += 1;
                self.schedule(slot, again.priority, due(now, again.delay), now);
            }
        }
        match self.remove_if_idle(slot) {
            Some(gone) => Finished::Gone(gone),
            None => Finished::Live,
        }
    }

    /// The key of a run that is in progress.
    pub fn running_key(&self, run: Run) -> Option<&T> {
        self.table
            .get(run.slot)
            .filter(|entry| entry.run == Some(run.number))
            .map(|entry| entry.key())
    }

    /// Cancels a delay. `None`: the key was not delayed; `Some(Some(_))`: it has left the machine.
    pub fn cancel(&mut self, key: &T) -> Option<Option<Gone<T>>> {
        let slot = self.table.find(key)?;
        self.delayed.remove(slot).then(|| self.remove_if_idle(slot))
    }

    /// Stops accepting keys and drops the delayed ones. Ready keys, and keys added while running, remain.
    pub fn shutdown(&mut self) -> Vec<Gone<T>> {
        self.shutting_down = true;
        let waiting = self.delayed.take_all();
        self.meter.discarded += waiting.len() as u64;
        waiting
            .into_iter()
            .filter_map(|waiting| self.remove_if_idle(waiting.slot))
            .collect()
    }

    /// Drops outstanding work that has not started.
    pub fn discard(&mut self) -> Vec<Gone<T>> {
        let mut gone = Vec::with_capacity(self.ready.len());
        self.meter.discarded += (self.ready.len() + self.again) as u64;
        self.again = 0;
        for slot in self.running.iter(&self.links) {
            self.table.entry_mut(slot).phase = Phase::Running;
        }
        while let Some(slot) = self.ready.next() {
            let entry = self.table.entry_mut(slot);
            entry.phase = Phase::Idle;
            self.ready.take(&mut self.links, slot, entry.priority);
            gone.extend(self.remove_if_idle(slot));
        }
        gone
    }

    /// The number of ready keys.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The number of keys in flight.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The number of delayed keys.
    pub fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// The number of distinct keys.
    pub fn live(&self) -> usize {
        self.table.len()
    }

    /// When the next delayed key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.next_due()
    }

    /// Whether keys are no longer accepted.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether no key is ready or in flight.
    pub fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty()
    }

    /// Statistics at this instant.
    pub fn stats(&self, now: Instant) -> Stats {
        let timed = if self.timings { self.running.len() } else { 0 };
        let ages = self.running.iter(&self.links).take(timed);
        let mut ages = ages.map(|slot| now.saturating_duration_since(self.table.entry(slot).started));
        let longest_running = ages.next().unwrap_or_default();
        Stats {
            depth: self.ready.len() + self.again,
            ready: self.ready.len(),
            delayed: self.delayed.len(),
            running: self.running.len(),
            waiting_workers: 0,
            adds: self.meter.adds,
            retries: self.meter.retries,
            abandoned: self.meter.abandoned,
            panics: self.meter.panics,
            discarded: self.meter.discarded,
            queue_latency: self.meter.queue_latency.clone(),
            work_duration: self.meter.work_duration.clone(),
            longest_running,
            unfinished_work: ages.fold(longest_running, Duration::saturating_add),
        }
    }

    #[inline]
    fn admit(
        &mut self,
        key: T,
        priority: Priority,
        due: Option<Instant>,
        limited: bool,
        now: Instant,
    ) -> Added<T> {
        if self.shutting_down {
            self.meter.discarded += 1;
            return Added::Refused(key);
        }
        if due.is_none() {
            self.advance(now);
        }
        let (slot, duplicate) = self.table.find_or_insert(key, now);
        self.table.entry_mut(slot).limited |= limited;
        self.schedule(slot, priority, due, now);
        match duplicate {
            Some(key) => Added::Merged(key),
            None => Added::New,
        }
    }

    #[inline]
    fn schedule(&mut self, slot: Slot, priority: Priority, due: Option<Instant>, now: Instant) {
        match due {
            Some(due) => self.delayed.push(slot, due, priority),
            None => self.ask(slot, priority, now),
        }
    }

    /// Makes a live key outstanding, once.
    #[inline]
    fn ask(&mut self, slot: Slot, priority: Priority, since: Instant) {
        let entry = self.table.entry_mut(slot);
        match entry.phase {
            Phase::Ready => {
                if priority > entry.priority {
                    self.ready.raise(&mut self.links, slot, entry.priority, priority);
                    entry.priority = priority;
                }
                return;
            }
            Phase::RunningAgain => {
                entry.priority = entry.priority.max(priority);
                return;
            }
            Phase::Idle => {
                entry.phase = Phase::Ready;
                self.ready.push(&mut self.links, slot, priority);
            }
            // Not ready before this run ends: a key never has two runs at once.
            Phase::Running => {
                entry.phase = Phase::RunningAgain;
                self.again += 1;
            }
        }
        entry.priority = priority;
        entry.since = since;
        self.meter.adds += 1;
    }

    /// Removes a key that is neither outstanding nor running nor delayed.
    #[inline]
    fn remove_if_idle(&mut self, slot: Slot) -> Option<Gone<T>> {
        if self.table.entry(slot).phase != Phase::Idle || self.delayed.contains(slot) {
            return None;
        }
        let (key, limited) = self.table.remove(slot);
        if self.table.len() == 0 && self.table.capacity() > KEEP_SLOTS {
            self.table.reset();
            self.delayed.reset();
            self.links.reset();
        }
        Some(Gone { key, limited })
    }
}

/// The instant after `delay`; `None` for no delay.
fn due(now: Instant, delay: Duration) -> Option<Instant> {
    (delay > Duration::ZERO).then(|| now + delay.min(LONGEST_DELAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work_off(state: &mut QueueMachine<usize>, now: Instant) {
        while let Some(taken) = state.take(now) {
            state.finish(taken.run, None, now);
        }
    }

    #[test]
    fn memory_of_a_burst_is_freed_and_the_machine_keeps_working() {
        let now = Instant::now();
        let mut state = QueueMachine::new(16, true);
        let later = Again {
            delay: Duration::from_secs(1),
            priority: Priority::LOW,
            limited: false,
        };
        for key in 0..2 * KEEP_SLOTS {
            state.add(key, Priority(key as i32 % 3), now);
            state.add_after(key, later, now);
        }
        assert!(state.table.capacity() > KEEP_SLOTS);

        work_off(&mut state, now);
        assert_eq!(state.live(), 2 * KEEP_SLOTS, "still delayed");
        state.advance(now + Duration::from_secs(1));
        work_off(&mut state, now + Duration::from_secs(1));

        assert_eq!((state.live(), state.table.capacity()), (0, 0));
        assert_eq!((state.delayed.capacity(), state.links.capacity()), (0, 0));
        state.add(7, Priority::NORMAL, now);
        assert_eq!(state.take(now).map(|taken| taken.key), Some(7));
    }

    #[test]
    fn stale_run_is_ignored_after_memory_was_freed() {
        let now = Instant::now();
        let mut state = QueueMachine::new(16, true);
        for key in 0..2 * KEEP_SLOTS {
            state.add(key, Priority::NORMAL, now);
        }
        let old = state.take(now).unwrap();
        state.finish(old.run, None, now);
        work_off(&mut state, now);

        assert_eq!(state.finish(old.run, None, now), Finished::Unknown);
        assert!(state.running_key(old.run).is_none());
    }
}
