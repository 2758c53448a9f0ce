//! The rules of the queue as a state machine: inputs and the time go in, facts come out. No clock, no lock, no
//! waker, no randomness that shows, no user code but `Hash`, `Eq` and `Clone` of the key; a simulator can drive it.
//!
//! A key is in the machine while it is *ready*, *running* (being worked on) or *delayed*; it may be delayed and
//! one of the other two at once. Keys that leave are handed back, so that the caller can drop them, and the
//! failure counts kept for them, outside its lock.

mod delay;
mod list;
mod ready;
mod table;

use crate::priority::Priority;
use crate::stats::{Meter, Stats};
use delay::Delayed;
use list::{Kind, Links, List, Slot};
use ready::Ready;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;
use table::{Phase, Table};
use tokio::time::Instant;

/// Above this many slots the memory is given back when the last key leaves, so that a burst is not kept for ever.
const KEEP_SLOTS: usize = 4096;

/// No delay is longer than this (about 30 years): `now + delay` must not overflow, whatever the caller asks for.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The work queue without its shell: see the [module](self).
pub struct QueueMachine<T> {
    table: Table<T>,
    ready: Ready,
    delayed: Delayed,
    /// Those being worked on, the longest running first.
    running: List,
    links: Links,
    /// Of those running, how many were asked for again.
    again: usize,
    shutting_down: bool,
    next_run: u64,
    timings: bool,
    pub(crate) meter: Meter,
}

/// One run of a key, from [`take`](QueueMachine::take) to [`finish`](QueueMachine::finish). Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    number: u64,
    slot: Slot,
    priority: Priority,
}

impl Run {
    /// The priority the key had when it was taken.
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

/// A key that was handed to a worker.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    /// The key.
    pub key: T,
    /// Names this run to [`finish`](QueueMachine::finish).
    pub run: Run,
}

/// What became of an add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added<T> {
    /// The key was not outstanding; now it is, or it is delayed.
    New,
    /// The key was outstanding or delayed already. The second copy is handed back.
    Merged(T),
    /// The queue is shutting down. The key is handed back.
    Refused(T),
}

/// A key that has left the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone<T> {
    /// The key.
    pub key: T,
    /// The rate limiter was asked about it while it was live, so it may hold a failure count.
    pub limited: bool,
}

/// What became of a key whose run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished<T> {
    /// No such run is in progress: it has ended before. Nothing was changed.
    Unknown,
    /// The key lives on: it is ready again, or delayed.
    Live,
    /// Nobody asked for the key again.
    Gone(Gone<T>),
}

/// A wish to run a key again after its present run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// How long after the end of this run.
    pub delay: Duration,
    /// At which priority.
    pub priority: Priority,
    /// The delay came from the rate limiter.
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
    /// An empty machine. After the longest waiting key was passed over `ageing` times it goes next; 0: never.
    /// Without `timings` it takes no note of how long things last, and `now` matters to delays alone.
    pub fn new(ageing: u32, timings: bool) -> Self {
        QueueMachine {
            table: Table::new(),
            ready: Ready::new(ageing),
            delayed: Delayed::default(),
            running: List::new(Kind::Turn),
            links: Links::default(),
            again: 0,
            shutting_down: false,
            next_run: 1,
            timings,
            meter: Meter::default(),
        }
    }

    /// Asks for a key to be worked on.
    #[inline]
    pub fn add(&mut self, key: T, priority: Priority, now: Instant) -> Added<T> {
        self.admit(key, priority, None, false, now)
    }

    /// Asks for a key to be worked on when `delay` has passed. Of two such wishes the earlier one wins.
    pub fn add_after(&mut self, key: T, again: Again, now: Instant) -> Added<T> {
        self.meter.retries += u64::from(!self.shutting_down);
        self.admit(key, again.priority, due(now, again.delay), again.limited, now)
    }

    /// Makes every delayed key that is due ready. Due means that its time is not after `now`. The inputs that
    /// queue a key do this first, so that what was due before it goes before it.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        // Looked at by nearly every input, and there is nearly never anything to do.
        if self.delayed.next_due().is_some_and(|due| due <= now) {
            for waiting in self.delayed.take_due(now) {
                // Outstanding since it was due, not since somebody looked.
                self.ask(waiting.slot, waiting.priority, waiting.due);
            }
        }
    }

    /// Hands out the key whose turn it is.
    #[inline]
    pub fn take(&mut self, now: Instant) -> Option<Taken<T>> {
        let slot = self.ready.next()?;
        let entry = self.table.entry_mut(slot);
        // Cloned before anything is changed: a `Clone` that panics must not take the key with it.
        let key = entry.key().clone();
        let number = self.next_run;
        self.next_run += 1;
        self.ready.take(&mut self.links, slot, entry.priority);
        self.running.push_back(&mut self.links, slot);
        entry.phase = Phase::Running;
        entry.run = number;
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

    /// Ends a run. If the key was asked for in the meantime it is ready again; `again` asks once more.
    /// A run that has ended before is ignored.
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
        entry.run = 0;
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
            .filter(|entry| entry.run == run.number)
            .map(|entry| entry.key())
    }

    /// Lets a delayed key wait no longer. `None`: it was not delayed; `Some(Some(_))`: it has left altogether.
    pub fn cancel(&mut self, key: &T) -> Option<Option<Gone<T>>> {
        let slot = self.table.find(self.table.hash(key), key)?;
        self.delayed.remove(slot).then(|| self.remove_if_idle(slot))
    }

    /// Accepts nothing from now on, and drops what is delayed. What is ready and what was asked for while running
    /// stays to be worked off.
    pub fn shutdown(&mut self) -> Vec<Gone<T>> {
        self.shutting_down = true;
        let waiting = self.delayed.take_all();
        self.meter.discarded += waiting.len() as u64;
        waiting
            .into_iter()
            .filter_map(|waiting| self.remove_if_idle(waiting.slot))
            .collect()
    }

    /// Drops what is outstanding and has not begun.
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

    /// How many keys are ready.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many keys are being worked on.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How many keys wait for a later time.
    pub fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// How many keys there are, each counted once.
    pub fn live(&self) -> usize {
        self.table.len()
    }

    /// When the next delayed key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.next_due()
    }

    /// Nothing is accepted any more.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Nothing is ready and nothing is being worked on.
    pub fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty()
    }

    /// The numbers of this instant.
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
        let hash = self.table.hash(&key);
        let (slot, duplicate) = match self.table.find(hash, &key) {
            Some(slot) => (slot, Some(key)),
            None => (self.table.insert(hash, key, now), None),
        };
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

    /// The heart of the matter: makes a live key outstanding, once, however often it is asked for.
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
            // Not ready before this run has ended: a key is never worked on twice at once.
            Phase::Running => {
                entry.phase = Phase::RunningAgain;
                self.again += 1;
            }
        }
        entry.priority = priority;
        entry.since = since;
        self.meter.adds += 1;
    }

    /// Lets a key leave that is neither outstanding nor running nor delayed.
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

/// The instant after `delay`; `None`: at once.
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
    fn the_memory_of_a_burst_is_given_back_and_the_machine_goes_on() {
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
    fn an_old_run_means_nothing_after_the_memory_was_given_back() {
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
