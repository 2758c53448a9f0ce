//! The state shared by all handles of a queue: the state machine and the line of waiters behind one lock, the rate
//! limiter behind another. Reads the clock and wakes waiters. The only user code that runs under the first lock is
//! `Hash`, `Eq` and `Clone` of the key; under the second, the limiter. Keys are dropped and wakers woken outside the
//! locks.

use crate::Key;
use crate::limiter::RateLimiter;
use crate::line::{Line, Offer, Ticket, Wakes};
use crate::lock::Mutex;
use crate::priority::Priority;
use crate::state::{Again, Finished, Gone, QueueMachine, Run, Taken};
use parking_lot::MutexGuard;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) struct QueueCore<T> {
    pub(crate) name: Option<Box<str>>,
    built_at: Instant,
    timings: bool,
    inner: Mutex<Inner<T>>,
    limiter: Mutex<Box<dyn RateLimiter<T>>>,
    /// Notified when waiting drains should check again.
    drained: Notify,
}

struct Inner<T> {
    state: QueueMachine<T>,
    line: Line,
    /// Counts the shutdowns that end all drains, so that each drain knows whether one came after it.
    released: u64,
}

impl<T: Key> Inner<T> {
    /// The waiters affected by the last change.
    fn settle(&mut self) -> Wakes {
        let ready = self.state.ready();
        let ended = ready == 0 && self.state.is_shutting_down();
        self.line.settle(Offer {
            ready,
            next_due: self.state.next_due(),
            ended,
        })
    }
}

impl<T: Key> QueueCore<T> {
    pub(crate) fn new(
        name: Option<Box<str>>,
        limiter: Box<dyn RateLimiter<T>>,
        ageing: u32,
        timings: bool,
    ) -> Self {
        let state = QueueMachine::new(ageing, timings);
        QueueCore {
            name,
            built_at: Instant::now(),
            timings,
            inner: Mutex::new(Inner {
                state,
                line: Line::default(),
                released: 0,
            }),
            limiter: Mutex::new(limiter),
            drained: Notify::new(),
        }
    }

    /// Changes the state, then wakes the waiters concerned.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut QueueMachine<T>, Instant) -> R) -> R {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let result = change(&mut inner.state, now);
        self.unlock(inner);
        result
    }

    /// Adds a key, at once.
    #[inline]
    pub(crate) fn add(&self, key: T, priority: Priority) {
        let (mut inner, now) = self.lock();
        let added = inner.state.add(key, priority, now);
        self.unlock(inner);
        // Duplicates are returned and dropped here, outside the lock.
        drop(added);
    }

    /// Ends a run. If the key stays, `forget` drops the limiter's state about it.
    #[inline]
    pub(crate) fn finish(&self, run: Run, key: &T, forget: bool) {
        let (mut inner, now) = self.lock();
        let finished = inner.state.finish(run, None, now);
        self.unlock(inner);
        self.finished(&finished);
        if forget && matches!(finished, Finished::Live) {
            self.forget(key);
        }
    }

    /// Ends a run and adds the key again.
    pub(crate) fn finish_again(&self, run: Run, again: Again) {
        let finished = self.change(|state, now| state.finish(run, Some(again), now));
        self.finished(&finished);
    }

    /// If the key has left the queue, the limiter forgets it, but only if it was ever called for it. The caller drops
    /// the key where it is, because moving it costs more than that.
    #[inline]
    fn finished(&self, finished: &Finished<T>) {
        if let Finished::Gone(gone) = finished {
            self.forget_gone(gone);
        }
    }

    /// Unlocks after a change, then wakes the waiters concerned.
    #[inline]
    fn unlock(&self, inner: MutexGuard<'_, Inner<T>>) {
        let drained = inner.state.is_shutting_down() && inner.state.is_drained();
        unlock(inner);
        if drained {
            self.drained.notify_waiters();
        }
    }

    /// Locks for a frequent change that starts no delay. The time is only exact if timings are recorded or a key is
    /// delayed; otherwise the clock is not read.
    #[inline]
    fn lock(&self) -> (MutexGuard<'_, Inner<T>>, Instant) {
        // Read before locking, so that the lock is not held while reading the clock.
        let now = self.timings.then(Instant::now);
        let inner = self.inner.lock();
        let now = match now {
            Some(now) => now,
            None if inner.state.delayed() > 0 => Instant::now(),
            None => self.built_at,
        };
        (inner, now)
    }

    /// Reads the state without changing it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&QueueMachine<T>) -> R) -> R {
        read(&self.inner.lock().state)
    }

    /// The number of waiting `get` calls.
    pub(crate) fn waiting(&self) -> usize {
        self.inner.lock().line.len()
    }

    /// The delay that the limiter assigns to this key.
    pub(crate) fn delay(&self, key: &T, now: Instant) -> Duration {
        self.limiter.lock().when(key, now)
    }

    pub(crate) fn forget(&self, key: &T) {
        self.limiter.lock().forget(key);
    }

    pub(crate) fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.lock().num_requeues(key)
    }

    /// Drops the limiter's state about a key that has left the queue.
    #[inline]
    pub(crate) fn forget_gone(&self, gone: &Gone<T>) {
        if gone.limited {
            self.forget(&gone.key);
        }
    }

    /// Takes a key unless all of them belong to waiters.
    pub(crate) fn try_get(&self) -> Option<Taken<T>> {
        let (mut inner, now) = self.lock();
        inner.state.advance(now);
        let spare = inner.state.ready() > inner.line.len();
        let taken = if spare { inner.state.take(now) } else { None };
        unlock(inner);
        taken
    }

    /// One poll of `get`. `place` keeps the caller's place in the line between polls.
    pub(crate) fn poll_get(&self, place: &mut Place<'_, T>, cx: &mut Context<'_>) -> Poll<Option<Taken<T>>> {
        // A worker that always finds work would otherwise never yield.
        let budget = ready!(coop::poll_proceed(cx));
        loop {
            let (mut inner, now) = self.lock();
            inner.state.advance(now);
            if inner.is_served(place.ticket)
                && let Some(taken) = inner.state.take(now)
            {
                inner.leave(&mut place.ticket);
                unlock(inner);
                budget.made_progress();
                return Poll::Ready(Some(taken));
            }
            let step = inner.wait(&mut place.ticket, cx);
            unlock(inner);
            match step {
                Step::End => {
                    budget.made_progress();
                    return Poll::Ready(None);
                }
                Step::Wait { until } => ready!(place.poll_timer(until, cx)),
            }
        }
    }

    /// Stops accepting keys. `release` ends all drains, otherwise one starts; returns its number.
    pub(crate) fn close(&self, release: bool) -> u64 {
        let gone = self.change(|state, _| state.shutdown());
        gone.iter().for_each(|gone| self.forget_gone(gone));
        let released = {
            let mut inner = self.inner.lock();
            inner.released += u64::from(release);
            inner.released
        };
        if release {
            self.drained.notify_waiters();
        }
        released
    }

    /// Waits until no key is ready or in flight, or all drains are ended.
    pub(crate) async fn drained(&self, number: u64) {
        loop {
            let mut notified = std::pin::pin!(self.drained.notified());
            // Registered before checking, so that no notification is missed in between.
            notified.as_mut().enable();
            {
                let inner = self.inner.lock();
                if inner.state.is_drained() || inner.released != number {
                    return;
                }
            }
            notified.await;
        }
    }
}

enum Step {
    End,
    Wait { until: Option<Instant> },
}

/// Unlocks after a change that ends no run, then wakes the waiters concerned.
#[inline]
fn unlock<T: Key>(inner: MutexGuard<'_, Inner<T>>) {
    if !inner.line.is_empty() {
        unlock_and_wake(inner);
    }
}

/// Not part of [`unlock`], which is short enough to be inlined without it.
#[inline(never)]
fn unlock_and_wake<T: Key>(mut inner: MutexGuard<'_, Inner<T>>) {
    let wakes = inner.settle();
    drop(inner);
    wakes.wake();
}

impl<T: Key> Inner<T> {
    /// Whether there is a key for this place in the line.
    #[inline]
    fn is_served(&self, ticket: Option<Ticket>) -> bool {
        self.line.place(ticket) < self.state.ready()
    }

    /// Waits in the line, unless there will be no key.
    fn wait(&mut self, ticket: &mut Option<Ticket>, cx: &Context<'_>) -> Step {
        let place = self.line.place(*ticket);
        let ready = self.state.ready();
        if ready == 0 && self.state.is_shutting_down() {
            self.leave(ticket);
            return Step::End;
        }
        let until = if place == ready {
            self.state.next_due()
        } else {
            None
        };
        self.line.wait(ticket, place, cx.waker(), until);
        Step::Wait { until }
    }

    #[inline]
    fn leave(&mut self, ticket: &mut Option<Ticket>) {
        if let Some(ticket) = ticket.take() {
            self.line.leave(ticket);
        }
    }
}

/// A place in the line; dropping it passes its key on.
pub(crate) struct Place<'a, T: Key> {
    shared: &'a QueueCore<T>,
    ticket: Option<Ticket>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, T: Key> Place<'a, T> {
    pub(crate) fn new(shared: &'a QueueCore<T>) -> Self {
        Place {
            shared,
            ticket: None,
            timer: None,
        }
    }

    /// Ready at the given time; never without one.
    fn poll_timer(&mut self, until: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = until else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

impl<T: Key> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            let mut inner = self.shared.inner.lock();
            inner.leave(&mut self.ticket);
            unlock(inner);
        }
    }
}
