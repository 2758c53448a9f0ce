//! The line of those who wait for work: who is next, who must be woken, who minds the clock. Holds wakers but
//! never wakes under the lock it lives in; knows neither keys nor tasks.
//!
//! Each ready key belongs to one place in the line: the first ready key to the first waiter, and so on. A waiter
//! takes a key only if there is one for its place, so nobody overtakes, and a waiter that leaves passes what was
//! meant for it on, because all behind it move up. The first waiter without a key minds the clock: it alone sleeps
//! until the next delayed key is due.

use std::collections::VecDeque;
use std::task::Waker;
use tokio::time::Instant;

/// Names one waiter. Numbers grow, so the line is sorted by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

struct Waiter {
    ticket: Ticket,
    /// Gone once woken, until it is polled again.
    waker: Option<Waker>,
}

/// What the queue has to offer; the line acts on it in [`Line::settle`].
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    /// Keys that could be taken now.
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
    /// So many waiters at the front have been woken to take a key, and have not been polled since.
    called: usize,
    /// Who minds the clock, and until when it sleeps at most.
    clock: Option<(Ticket, Instant)>,
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The place of a waiter; for one without a ticket, the place it would get.
    pub(crate) fn place(&self, ticket: Option<Ticket>) -> usize {
        match ticket {
            Some(ticket) => self.waiters.partition_point(|waiter| waiter.ticket < ticket),
            None => self.waiters.len(),
        }
    }

    /// Waits at `place`, which is what [`place`](Self::place) told for this ticket. `due` is set for the one who
    /// minds the clock: it will sleep no longer than that.
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
        // It was polled and found nothing for its place, so neither it nor anyone behind it counts as called.
        self.called = self.called.min(place);
        match (due, self.clock) {
            (Some(due), _) => self.clock = Some((ticket, due)),
            // It has put its timer away.
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

    /// Finds out who must be woken now that the queue offers this. Call it after every change of either.
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
                // Woken only to set its timer; from here on it is its duty, so it need not be woken twice.
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
