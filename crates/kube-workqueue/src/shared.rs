//! What all handles of one queue share: the state machine and the line behind one lock, the rate limiter behind
//! another. Reads the clock and wakes who must be woken. Of user code, only `Hash`, `Eq` and `Clone` of the key run
//! under the first lock, and only the limiter under the second; keys are dropped and wakers woken outside.

use crate::Key;
use crate::item::Held;
use crate::limiter::RateLimiter;
use crate::line::{Line, Offer, Ticket, Wakes};
use crate::state::{Gone, QueueMachine};
use parking_lot::{Mutex, MutexGuard};
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
    /// Told when those who wait for the queue to drain should look again.
    drained: Notify,
}

struct Inner<T> {
    state: QueueMachine<T>,
    line: Line,
    /// Counts the calls that end all draining, so that each drain can tell whether one came after it.
    released: u64,
}

impl<T: Key> Inner<T> {
    /// Whom the last change concerns.
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

    /// Like [`change`](Self::change), but the time is right only if it is noted or something waits for one. For
    /// changes that happen once per key or more, and start no delay.
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

    /// Locks, and tells the time: if it is noted, or if something waits for one.
    #[inline]
    fn lock(&self) -> (MutexGuard<'_, Inner<T>>, Instant) {
        // Read before the lock is taken: those who wait for it should not wait for the clock too.
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

    /// How many calls of `get` wait.
    pub(crate) fn waiting(&self) -> usize {
        self.inner.lock().line.len()
    }

    /// How long the limiter wants this key to wait.
    pub(crate) fn delay(&self, key: &T, now: Instant) -> Duration {
        self.limiter.lock().when(key, now)
    }

    pub(crate) fn forget(&self, key: &T) {
        self.limiter.lock().forget(key);
    }

    pub(crate) fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.lock().num_requeues(key)
    }

    /// Lets go of keys that have left the state: what the limiter knows of them goes too.
    #[inline]
    pub(crate) fn release(&self, gone: impl IntoIterator<Item = Gone<T>>) {
        for gone in gone {
            if gone.limited {
                self.forget(&gone.key);
            }
        }
    }

    /// Takes a key unless those who wait have a claim on all of them.
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

    /// One poll of `get`. `place` remembers the caller's place in the line from poll to poll.
    pub(crate) fn poll_get(
        self: &Arc<Self>,
        place: &mut Place<'_, T>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Held<T>>> {
        // A worker that always finds work would otherwise never let another task run.
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

    /// Accepts nothing any more. `release` ends all draining, otherwise one begins; returns its number.
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

    /// Waits until nothing is ready or running, or all drains are ended.
    pub(crate) async fn drained(&self, number: u64) {
        loop {
            let mut notified = std::pin::pin!(self.drained.notified());
            // Registered before looking: what happens between the look and the wait is not missed.
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

/// A place in the line; given up, and what was meant for it passed on, when dropped.
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

    /// Ready when the time has come; never, without a time.
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
