//! The waiters of a queue, in order: which one is next, which must be woken, which one keeps the timer. Stores wakers
//! but never wakes under the lock of the queue. Independent of keys and tasks.
//!
//! Each ready key belongs to one place in the line: the first ready key to the first waiter, and so on. A waiter takes
//! a key only if there is one for its place, so no waiter overtakes another. If a waiter leaves, all behind it move up,
//! so its key passes on to the next. The first waiter without a key keeps the timer: it alone sleeps until the next
//! delayed key is due.

use std::collections::VecDeque;
use std::task::Waker;
use tokio::time::Instant;

/// Identifies a waiter. Numbers increase, so the line is sorted by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

struct Waiter {
    ticket: Ticket,
    /// `None` once woken, until it is polled again.
    waker: Option<Waker>,
}

/// The keys available to waiters; input of [`Line::settle`].
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    /// The number of keys that can be taken now.
    pub(crate) ready: usize,
    /// When the next delayed key is due.
    pub(crate) next_due: Option<Instant>,
    /// There is no key and never will be.
    pub(crate) ended: bool,
}

/// The waiters, first come first served.
#[derive(Default)]
pub(crate) struct Line {
    waiters: VecDeque<Waiter>,
    next_ticket: u64,
    /// The number of waiters at the front that were woken to take a key and have not been polled since.
    called: usize,
    /// The waiter that keeps the timer, and the time until which it sleeps at most.
    clock: Option<(Ticket, Instant)>,
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The place of a waiter; for one without a ticket, its future place.
    pub(crate) fn place(&self, ticket: Option<Ticket>) -> usize {
        match ticket {
            Some(ticket) => self.waiters.partition_point(|waiter| waiter.ticket < ticket),
            None => self.waiters.len(),
        }
    }

    /// Waits at `place`, the result of [`place`](Self::place) for this ticket. `due` is set for the waiter that keeps
    /// the timer: it will sleep no longer than that.
    pub(crate) fn wait(
        &mut self,
        ticket: &mut Option<Ticket>,
        place: usize,
        waker: &Waker,
        due: Option<Instant>,
    ) {
        let ticket = *ticket.get_or_insert_with(|| {
            let ticket = Ticket(self.next_ticket);
            self.next_ticket += 1;
            self.waiters.push_back(Waiter { ticket, waker: None });
            ticket
        });
        if let Some(waiter) = self.waiters.get_mut(place) {
            match &mut waiter.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
        // It was polled and found no key for its place, so neither it nor any waiter behind it counts as called.
        self.called = self.called.min(place);
        match (due, self.clock) {
            (Some(due), _) => self.clock = Some((ticket, due)),
            // It has dropped its timer.
            (None, Some((minding, _))) if minding == ticket => self.clock = None,
            _ => {}
        }
    }

    /// Leaves the line, with or without a key. Call [`settle`](Self::settle) afterwards.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        let place = self.place(Some(ticket));
        if self
            .waiters
            .get(place)
            .is_some_and(|waiter| waiter.ticket == ticket)
        {
            self.waiters.remove(place);
            if place < self.called {
                self.called -= 1;
            }
        }
    }

    /// Determines which waiters to wake for this offer. Call it after every change of the line or the offer.
    pub(crate) fn settle(&mut self, offer: Offer) -> Wakes {
        let mut wakes = Wakes::default();
        let served = if offer.ended {
            self.waiters.len()
        } else {
            offer.ready.min(self.waiters.len())
        };
        while self.called < served {
            wakes.push(self.waiters[self.called].waker.take());
            self.called += 1;
        }
        if let (Some(due), Some(waiter)) = (offer.next_due, self.waiters.get_mut(served)) {
            let minded = self
                .clock
                .is_some_and(|(ticket, until)| ticket == waiter.ticket && until <= due);
            if !minded {
                // Woken only to set its timer; from here on it keeps the timer, so it need not be woken twice.
                wakes.push(waiter.waker.take());
                self.clock = Some((waiter.ticket, due));
            }
        }
        wakes
    }
}

/// Wakers to be woken once the lock is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Wakes {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakes {
    fn push(&mut self, waker: Option<Waker>) {
        match (waker, &self.first) {
            (None, _) => {}
            (waker, None) => self.first = waker,
            (Some(waker), Some(_)) => self.more.push(waker),
        }
    }

    pub(crate) fn wake(self) {
        for waker in self.first.into_iter().chain(self.more) {
            waker.wake();
        }
    }
}
