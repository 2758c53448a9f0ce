//! `Mailbox`: what one handler has not been told yet, and whether it is to be told at all.
//!
//! Pure data behind the lock of a [`Listener`](super::listener::Listener); knows no task and no clock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::change::Change;
use super::folding::Folding;
use crate::event::Event;
use crate::handler::{Backlog, Delivery, HandlerKind};
use crate::object::Object;
use crate::registration::End;
use crate::store::Snapshot;

pub(super) struct Mailbox<K> {
    queue: MailboxQueue<K>,
    /// Events in the queue.
    queued: usize,
    /// A replay or a resync is queued or being told: no resync is queued behind it.
    bulk: bool,
    /// The synced notice has been queued; there is only one.
    notice_given: bool,
    pub(super) phase: Phase,
    pub(super) consumer: Consumer<K>,
    /// The informer stopped without draining: running calls are not waited for either.
    pub(super) cancelled: bool,
    on_data: Option<Waker>,
    on_cancel: Option<Waker>,
}

/// Whether the handler is to be told more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// What is queued is told, nothing more is queued.
    Draining,
    /// Nothing more is told.
    Leaving(End),
}

/// Who takes things out.
pub(super) enum Consumer<K> {
    /// Nobody yet: this handler waits for the informer to start. Kept here, so that a removal before the start
    /// can let go of it.
    Unstarted(HandlerKind<K>),
    /// A worker that was spawned and has not run yet.
    Spawned(HandlerKind<K>),
    /// Nobody any more: the handler was let go of before it was started.
    Gone,
    /// A worker, which will say when it has ended.
    Worker,
    /// A subscription, which takes when it is polled.
    Stream,
}

enum MailboxQueue<K> {
    KeepAll(VecDeque<Item<K>>),
    Coalesce(Folding<K>),
}

/// What is taken out in one go, and told one event at a time.
pub(super) enum Item<K> {
    /// Shared by all handlers that keep everything.
    Batch(Arc<[Event<K>]>),
    /// For a handler that coalesces.
    Change(Change<K>),
    /// What was there when the handler joined.
    Initial(Snapshot<K>),
    /// What is to be told again.
    Resync(Snapshot<K>),
    /// Everything initial stands before this.
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

/// What a listener that leaves had not been told, and the handler if it was never started. Dropping a handler runs
/// code of its owner: do that where no lock is held.
pub struct Leftovers<K> {
    _undelivered: MailboxQueue<K>,
    _handler: Option<Consumer<K>>,
}

impl<K> fmt::Debug for Leftovers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leftovers").finish_non_exhaustive()
    }
}

/// Who is to be woken, after the lock is released.
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
                items.push_back(Item::Batch(events.clone()));
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

    /// Queues what is there when the handler joins.
    pub(super) fn push_initial(&mut self, snapshot: Snapshot<K>) {
        if snapshot.is_empty() {
            return;
        }
        self.queued += snapshot.len();
        self.bulk = true;
        self.queue.push_mark(Item::Initial(snapshot));
    }

    /// Queues everything once more, unless the handler has not heard the last repetition to its end.
    pub(super) fn push_resync(&mut self, snapshot: &Snapshot<K>) -> Wake {
        if self.phase != Phase::Open || self.bulk || snapshot.is_empty() {
            return Wake::default();
        }
        self.queued += snapshot.len();
        self.bulk = true;
        self.queue.push_mark(Item::Resync(snapshot.clone()));
        self.on_data()
    }

    /// Queues the notice that everything initial stands before it. Says whether it took effect at once, because
    /// nothing is queued or being told.
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

    /// Takes the next batch, replay, resync or change. Says whether a synced notice stood before it.
    /// What was taken before has been told.
    pub(super) fn take(&mut self) -> (Option<Item<K>>, bool) {
        let synced = self.pass_notice();
        if matches!(self.phase, Phase::Leaving(_)) {
            return (None, synced);
        }
        let item = self.queue.pop();
        self.queued -= item.as_ref().map_or(0, Item::events);
        (item, synced)
    }

    /// Takes the synced notice out if it comes next, and says so. What was taken before has been told.
    pub(super) fn pass_notice(&mut self) -> bool {
        let notice_next = matches!(self.queue.peek(), Some(Item::Synced));
        if notice_next {
            self.queue.pop();
        }
        notice_next
    }

    /// Notes that a replay or resync has been told to its end.
    pub(super) fn bulk_delivered(&mut self) {
        self.bulk = false;
    }

    /// Whether a change about this object waits that makes telling it again superfluous.
    pub(super) fn has_pending(&self, object: &Arc<K>) -> bool {
        match &self.queue {
            MailboxQueue::KeepAll(_) => false,
            MailboxQueue::Coalesce(folding) => folding.has_pending(object),
        }
    }

    /// What to tell of an initial object now.
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

    /// Whether there is something to take; `Err` when there never will be. Else `cx` is woken when that changes.
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

    /// Ready when running calls are not to be waited for. Else `cx` is woken when that changes.
    pub(super) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.cancelled {
            return Poll::Ready(());
        }
        remember(&mut self.on_cancel, cx);
        Poll::Pending
    }

    /// Ends it. The first reason stands. Says whether nobody is left who would report the end.
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

    /// A worker will come. `false` if there is nothing to do for one.
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

    /// A worker begins: it gets the handler, unless that was removed before.
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

    /// Wakes whoever waits for something to take.
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
