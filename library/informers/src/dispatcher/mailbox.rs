//! `Mailbox`: the backlog of one handler, and its phase.
//!
//! Pure data behind the lock of a [`Listener`](super::listener::Listener), without tasks or clocks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::change::Change;
use super::folding::Folding;
use super::share::BatchShare;
use crate::event::Event;
use crate::handler::{Backlog, Delivery, HandlerKind};
use crate::object::Object;
use crate::registration::End;
use crate::store::Snapshot;

pub(super) struct Mailbox<K> {
    queue: MailboxQueue<K>,
    /// Events in the queue.
    queued: usize,
    /// A snapshot or resync is queued or in flight: no resync is queued behind it.
    bulk: bool,
    /// The synced notice has been queued; it is queued once.
    notice_given: bool,
    pub(super) phase: Phase,
    pub(super) consumer: Consumer<K>,
    /// The informer stopped without draining: calls in flight are not awaited.
    pub(super) cancelled: bool,
    on_data: Option<Waker>,
    on_cancel: Option<Waker>,
}

/// Whether events are queued and delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Queued events are delivered, no more are queued.
    Draining,
    /// Nothing more is delivered.
    Leaving(End),
}

/// The consumer of a mailbox.
pub(super) enum Consumer<K> {
    /// None yet: the handler waits for the informer to start. Kept here, so that a removal before the start can drop it.
    Unstarted(HandlerKind<K>),
    /// A worker that was spawned and has not been polled.
    Spawned(HandlerKind<K>),
    /// None any more: the handler was dropped before it was started.
    Gone,
    /// A worker, which reports its end.
    Worker,
    /// A subscription, which reads when it is polled.
    Stream,
}

enum MailboxQueue<K> {
    KeepAll(VecDeque<Item<K>>),
    Coalesce(Folding<K>),
}

/// One item, delivered event by event.
pub(super) enum Item<K> {
    /// Shared by all handlers that keep all events.
    Batch(BatchShare<K>),
    /// For a handler that coalesces.
    Change(Change<K>),
    /// The cached objects when the handler was added.
    Initial(Snapshot<K>),
    /// The objects to deliver again.
    Resync(Snapshot<K>),
    /// All initial events are before this.
    Synced,
}

impl<K> Item<K> {
    pub(super) fn events(&self) -> usize {
        match self {
            Self::Batch(events) => events.len(),
            Self::Change(change) => change.events(),
            Self::Initial(snapshot) | Self::Resync(snapshot) => snapshot.len(),
            Self::Synced => 0,
        }
    }
}

impl<K: Object> MailboxQueue<K> {
    fn push_mark(&mut self, mark: Item<K>) {
        match self {
            Self::KeepAll(items) => items.push_back(mark),
            Self::Coalesce(folding) => folding.push_mark(mark),
        }
    }

    fn peek(&mut self) -> Option<&Item<K>> {
        match self {
            Self::KeepAll(items) => items.front(),
            Self::Coalesce(folding) => folding.peek(),
        }
    }

    fn pop(&mut self) -> Option<Item<K>> {
        match self {
            Self::KeepAll(items) => items.pop_front(),
            Self::Coalesce(folding) => folding.pop(),
        }
    }
}

/// The undelivered backlog of an ended listener, and its handler if it was never started. Dropping a handler runs user
/// code: do not hold a lock.
pub struct Leftovers<K> {
    _undelivered: MailboxQueue<K>,
    _handler: Option<Consumer<K>>,
}

impl<K> fmt::Debug for Leftovers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leftovers").finish_non_exhaustive()
    }
}

/// The wakers to wake after the lock is released.
#[derive(Default)]
#[must_use]
pub(super) struct Wake {
    data: Option<Waker>,
    cancel: Option<Waker>,
}

impl Wake {
    pub(super) fn wake(self) {
        for waker in [self.data, self.cancel].into_iter().flatten() {
            waker.wake();
        }
    }
}

impl<K: Object> Mailbox<K> {
    pub(super) fn new(backlog: Backlog, consumer: Consumer<K>) -> Self {
        Self {
            queue: match backlog {
                Backlog::KeepAll => MailboxQueue::KeepAll(VecDeque::new()),
                Backlog::CoalesceByKey => MailboxQueue::Coalesce(Folding::new()),
            },
            queued: 0,
            bulk: false,
            notice_given: false,
            phase: Phase::Open,
            consumer,
            cancelled: false,
            on_data: None,
            on_cancel: None,
        }
    }

    pub(super) fn push_batch(&mut self, events: &Arc<[Event<K>]>) -> Wake {
        if self.phase != Phase::Open {
            return Wake::default();
        }
        match &mut self.queue {
            MailboxQueue::KeepAll(items) => {
                items.push_back(Item::Batch(BatchShare::new(events)));
                self.queued += events.len();
            }
            MailboxQueue::Coalesce(folding) => {
                let before = folding.changes();
                events.iter().for_each(|event| folding.push(event));
                self.queued = self.queued + folding.changes() - before;
            }
        }
        self.on_data()
    }

    /// Queues the initial snapshot.
    pub(super) fn push_initial(&mut self, snapshot: Snapshot<K>) {
        if snapshot.is_empty() {
            return;
        }
        self.queued += snapshot.len();
        self.bulk = true;
        self.queue.push_mark(Item::Initial(snapshot));
    }

    /// Queues a resync, unless the previous one or the snapshot is not fully delivered.
    pub(super) fn push_resync(&mut self, snapshot: &Snapshot<K>) -> Wake {
        if self.phase != Phase::Open || self.bulk || snapshot.is_empty() {
            return Wake::default();
        }
        self.queued += snapshot.len();
        self.bulk = true;
        self.queue.push_mark(Item::Resync(snapshot.clone()));
        self.on_data()
    }

    /// Queues the synced notice behind the initial events. Returns whether it took effect at once because nothing is queued
    /// or in flight.
    pub(super) fn push_synced(&mut self, in_flight: usize) -> (bool, Wake) {
        if self.phase != Phase::Open || self.notice_given {
            return (false, Wake::default());
        }
        self.notice_given = true;
        if self.is_empty() && in_flight == 0 {
            return (true, Wake::default());
        }
        self.queue.push_mark(Item::Synced);
        (false, self.on_data())
    }

    /// Removes the next item, and returns whether a synced notice preceded it. The previous item has been delivered.
    pub(super) fn take(&mut self) -> (Option<Item<K>>, bool) {
        let synced = self.pass_notice();
        if matches!(self.phase, Phase::Leaving(_)) {
            return (None, synced);
        }
        let item = self.queue.pop();
        self.queued -= item.as_ref().map_or(0, Item::events);
        (item, synced)
    }

    /// Removes the synced notice if it comes next, and returns whether it did. The previous item has been delivered.
    pub(super) fn pass_notice(&mut self) -> bool {
        let notice_next = matches!(self.queue.peek(), Some(Item::Synced));
        if notice_next {
            self.queue.pop();
        }
        notice_next
    }

    /// A snapshot or resync has been fully delivered.
    pub(super) fn bulk_delivered(&mut self) {
        self.bulk = false;
    }

    /// Whether a queued change of this object makes a resync of it redundant.
    pub(super) fn has_pending(&self, object: &Arc<K>) -> bool {
        match &self.queue {
            MailboxQueue::KeepAll(_) => false,
            MailboxQueue::Coalesce(folding) => folding.has_pending(object),
        }
    }

    /// How to deliver an initial object now.
    pub(super) fn fold_initial(&mut self, object: &Arc<K>) -> Option<Delivery<K>> {
        match &mut self.queue {
            MailboxQueue::KeepAll(_) => Some(Delivery::from(Event::Added {
                object: object.clone(),
                initial: true,
            })),
            MailboxQueue::Coalesce(folding) => {
                let before = folding.changes();
                let change = folding.fold_initial(object);
                self.queued = self.queued + folding.changes() - before;
                change.map(|change| change.into_deliveries().0)
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.queue {
            MailboxQueue::KeepAll(items) => items.is_empty(),
            MailboxQueue::Coalesce(folding) => folding.is_empty(),
        }
    }

    /// Events in the queue.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Ready when there is something to deliver; `Err` when there never will be.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        match self.phase {
            Phase::Leaving(end) => Poll::Ready(Err(end)),
            _ if !self.is_empty() => Poll::Ready(Ok(())),
            Phase::Draining => {
                self.phase = Phase::Leaving(End::Stopped);
                Poll::Ready(Err(End::Stopped))
            }
            Phase::Open => {
                remember(&mut self.on_data, cx);
                Poll::Pending
            }
        }
    }

    /// Ready when calls in flight are to be cancelled.
    pub(super) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.cancelled {
            return Poll::Ready(());
        }
        remember(&mut self.on_cancel, cx);
        Poll::Pending
    }

    /// Ends delivery. The first reason is kept. The flag says that no worker is left to report the end.
    pub(super) fn leave(&mut self, end: End) -> (Leftovers<K>, bool, Wake) {
        if !matches!(self.phase, Phase::Leaving(_)) {
            self.phase = Phase::Leaving(end);
        }
        self.queued = 0;
        let undelivered = match &mut self.queue {
            MailboxQueue::KeepAll(items) => MailboxQueue::KeepAll(std::mem::take(items)),
            MailboxQueue::Coalesce(folding) => {
                MailboxQueue::Coalesce(std::mem::replace(folding, Folding::new()))
            }
        };
        let handler = match &self.consumer {
            Consumer::Unstarted(_) | Consumer::Spawned(_) => {
                Some(std::mem::replace(&mut self.consumer, Consumer::Gone))
            }
            _ => None,
        };
        let leftovers = Leftovers {
            _undelivered: undelivered,
            _handler: handler,
        };
        let no_worker = !matches!(self.consumer, Consumer::Worker);
        (leftovers, no_worker, self.on_data())
    }

    /// A worker is about to be spawned. `false` if none is needed.
    pub(super) fn mark_spawned(&mut self) -> bool {
        match std::mem::replace(&mut self.consumer, Consumer::Gone) {
            Consumer::Unstarted(runner) => {
                self.consumer = Consumer::Spawned(runner);
                true
            }
            other => {
                self.consumer = other;
                false
            }
        }
    }

    /// Returns the handler to its worker, unless it was removed.
    pub(super) fn take_handler(&mut self) -> Option<HandlerKind<K>> {
        match std::mem::replace(&mut self.consumer, Consumer::Worker) {
            Consumer::Spawned(runner) => Some(runner),
            other => {
                self.consumer = other;
                None
            }
        }
    }

    pub(super) fn cancel(&mut self) -> Wake {
        self.cancelled = true;
        Wake {
            data: None,
            cancel: self.on_cancel.take(),
        }
    }

    /// Wakes the consumer.
    pub(super) fn on_data(&mut self) -> Wake {
        Wake {
            data: self.on_data.take(),
            cancel: None,
        }
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        match &self.queue {
            MailboxQueue::KeepAll(items) => items.len(),
            MailboxQueue::Coalesce(folding) => folding.slots(),
        }
    }
}

fn remember(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}
