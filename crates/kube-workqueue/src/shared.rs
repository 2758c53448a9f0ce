//! The state shared by all handles of a queue: the state machine and the line of waiters behind one lock, the rate
//! limiter behind another. Reads the clock and wakes waiters. The only user code that runs under the first lock is
//! `Hash`, `Eq` and `Clone` of the key; under the second, the limiter. Keys are dropped and wakers woken outside the
//! locks.

use crate::Key;
use crate::item::Held;
use crate::limiter::RateLimiter;
use crate::line::{Line, Offer, Ticket, Wakes};
use crate::lock::Mutex;
use crate::state::{Gone, QueueMachine};
use parking_lot::MutexGuard;
use std::pin::Pin;
use std::sync::Arc;
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
    #[inline]
    fn settle(&mut self) -> Option<Wakes> {
        if self.line.is_empty() {
            return None;
        }
        let ready = self.state.ready();
        let ended = ready == 0 && self.state.is_shutting_down();
        Some(self.line.settle(Offer {
            ready,
            next_due: self.state.next_due(),
            ended,
        }))
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
        self.apply(self.inner.lock(), |state| change(state, now))
    }

    /// Like [`change`](Self::change), but the time is only exact if timings are recorded or a key is delayed. For
    /// frequent changes that start no delay.
    #[inline]
    pub(crate) fn change_often<R>(&self, change: impl FnOnce(&mut QueueMachine<T>, Instant) -> R) -> R {
        let (inner, now) = self.lock();
        self.apply(inner, |state| change(state, now))
    }

    #[inline]
    fn apply<R>(
        &self,
        mut inner: MutexGuard<'_, Inner<T>>,
        change: impl FnOnce(&mut QueueMachine<T>) -> R,
    ) -> R {
        let result = change(&mut inner.state);
        let drained = inner.state.is_shutting_down() && inner.state.is_drained();
        let wakes = inner.settle();
        drop(inner);
        if let Some(wakes) = wakes {
            wakes.wake();
        }
        if drained {
            self.drained.notify_waiters();
        }
        result
    }

    /// Locks, and reads the clock if timings are recorded or a key is delayed.
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

    /// Drops keys that have left the queue, and the limiter's state about them.
    #[inline]
    pub(crate) fn release(&self, gone: impl IntoIterator<Item = Gone<T>>) {
        for gone in gone {
            if gone.limited {
                self.forget(&gone.key);
            }
        }
    }

    /// Takes a key unless all of them belong to waiters.
    pub(crate) fn try_get(self: &Arc<Self>) -> Option<Held<T>> {
        let (taken, wakes) = {
            let (mut inner, now) = self.lock();
            inner.state.advance(now);
            let spare = inner.state.ready() > inner.line.len();
            let taken = if spare { inner.state.take(now) } else { None };
            (taken, inner.settle())
        };
        if let Some(wakes) = wakes {
            wakes.wake();
        }
        taken.map(|taken| Held::new(self, taken))
    }

    /// One poll of `get`. `place` keeps the caller's place in the line between polls.
    pub(crate) fn poll_get(
        self: &Arc<Self>,
        place: &mut Place<'_, T>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Held<T>>> {
        // A worker that always finds work would otherwise never yield.
        let budget = ready!(coop::poll_proceed(cx));
        loop {
            let (step, wakes) = {
                let (mut inner, now) = self.lock();
                let step = inner.step(&mut place.ticket, now, cx);
                (step, inner.settle())
            };
            if let Some(wakes) = wakes {
                wakes.wake();
            }
            match step {
                Step::Take(taken) => {
                    budget.made_progress();
                    return Poll::Ready(Some(Held::new(self, taken)));
                }
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
        self.release(gone);
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

enum Step<T> {
    Take(crate::state::Taken<T>),
    End,
    Wait { until: Option<Instant> },
}

impl<T: Key> Inner<T> {
    #[inline]
    fn step(&mut self, ticket: &mut Option<Ticket>, now: Instant, cx: &Context<'_>) -> Step<T> {
        self.state.advance(now);
        let place = self.line.place(*ticket);
        let ready = self.state.ready();
        let step = if place < ready {
            self.state.take(now).map(Step::Take)
        } else if ready == 0 && self.state.is_shutting_down() {
            Some(Step::End)
        } else {
            None
        };
        if let Some(step) = step {
            if let Some(ticket) = ticket.take() {
                self.line.leave(ticket);
            }
            return step;
        }
        let until = if place == ready {
            self.state.next_due()
        } else {
            None
        };
        self.line.wait(ticket, place, cx.waker(), until);
        Step::Wait { until }
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
        let Some(ticket) = self.ticket.take() else { return };
        let wakes = {
            let mut inner = self.shared.inner.lock();
            inner.line.leave(ticket);
            inner.settle()
        };
        if let Some(wakes) = wakes {
            wakes.wake();
        }
    }
}
