//! `Listener`: the dispatcher's side of one handler or subscription: its mailbox and its progress.
//!
//! The dispatcher queues events, a worker or a subscription consumes them, a registration observes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio::time::Instant;

use super::delivery_cursor::DeliveryCursor;
use super::mailbox::{Consumer, Leftovers, Mailbox, Phase};
use crate::event::Event;
use crate::handler::{Backlog, Delivery, HandlerKind, HandlerOptions, OnPanic};
use crate::lock::Mutex;
use crate::log_limit::LogLimit;
use crate::object::Object;
use crate::registration::{Control, End, HandlerId, Progress};
use crate::store::Snapshot;

tokio::task_local! {
    /// The address of the listener whose handler runs here: detects a handler that waits for its own removal.
    pub(super) static CALLING: usize;
}

/// The dispatcher's end of one handler or subscription.
pub struct Listener<K> {
    id: HandlerId,
    name: Arc<str>,
    coalesces: bool,
    on_panic: OnPanic,
    mailbox: Mutex<Mailbox<K>>,
    /// A copy of the mailbox's phase, checked between two events: nothing more is delivered.
    leaving: AtomicBool,
    /// Events removed from the mailbox and not yet delivered. Written only by the consumer.
    in_flight: AtomicUsize,
    delivered: AtomicU64,
    panics: AtomicU64,
    ended: AtomicBool,
    /// Its calls are made on a thread, whose end the worker supervises.
    on_thread: AtomicBool,
    /// The thread runs a call that did not return in time.
    abandoned: AtomicBool,
    panic_log: Mutex<LogLimit>,
    progress: watch::Sender<Progress>,
    /// Kept alive while events may still be delivered.
    keeps: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl<K: Object> Listener<K> {
    pub(super) fn new(
        id: HandlerId,
        name: Arc<str>,
        options: &HandlerOptions,
        consumer: Consumer<K>,
    ) -> Self {
        Self {
            id,
            name,
            coalesces: options.backlog == Backlog::CoalesceByKey,
            on_panic: options.on_panic,
            mailbox: Mutex::new(Mailbox::new(options.backlog, consumer)),
            leaving: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            on_thread: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            panic_log: Mutex::new(LogLimit::default()),
            progress: watch::Sender::new(Progress::default()),
            keeps: Mutex::new(None),
        }
    }

    // Called by the dispatcher.

    pub(super) fn push_batch(&self, events: &Arc<[Event<K>]>) {
        let wake = self.mailbox.lock().push_batch(events);
        wake.wake();
    }

    pub(super) fn push_initial(&self, snapshot: Snapshot<K>) {
        self.mailbox.lock().push_initial(snapshot);
    }

    pub(super) fn push_resync(&self, snapshot: &Snapshot<K>) {
        let wake = self.mailbox.lock().push_resync(snapshot);
        wake.wake();
    }

    pub(super) fn push_synced(&self) {
        let (synced, wake) = {
            let mut mailbox = self.mailbox.lock();
            // Acquire: with nothing in flight, all earlier calls have returned and their effects are visible.
            mailbox.push_synced(self.in_flight.load(Ordering::Acquire))
        };
        wake.wake();
        self.note_synced(synced);
    }

    /// The informer stops. May be called again with `drain: false` to abort a drain.
    pub(super) fn close(&self, drain: bool) -> Option<Leftovers<K>> {
        if !drain {
            let wake = self.mailbox.lock().cancel();
            let leftovers = self.leave(End::Stopped);
            wake.wake();
            return Some(leftovers);
        }
        let (over, wake) = {
            let mut mailbox = self.mailbox.lock();
            if mailbox.phase == Phase::Open {
                mailbox.phase = Phase::Draining;
            }
            let over = match mailbox.consumer {
                Consumer::Unstarted(_) | Consumer::Gone => true,
                Consumer::Stream => mailbox.is_empty() && self.in_flight.load(Ordering::Acquire) == 0,
                Consumer::Spawned(_) | Consumer::Worker => false,
            };
            (over, mailbox.on_data())
        };
        wake.wake();
        over.then(|| self.leave(End::Stopped))
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Whether its consumer has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether it is to end, and a call of the handler has not returned.
    pub(super) fn is_left_behind(&self) -> bool {
        let is_calling = !self.has_ended() && self.is_leaving() && self.in_flight.load(Ordering::Acquire) > 0;
        is_calling || self.abandoned.load(Ordering::Acquire)
    }

    /// Whether its worker cannot end before a call returns. A worker that supervises a thread can.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_left_behind() && !self.on_thread.load(Ordering::Acquire)
    }

    // Called by the consumer.

    /// The handler has a thread.
    pub(super) fn runs_on_thread(&self) {
        self.on_thread.store(true, Ordering::Release);
    }

    /// The thread of the handler is no longer waited for.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Whether a panic of the handler may be logged; if so, the number of panics since the last message.
    pub(super) fn admit_panic_log(&self) -> Option<u64> {
        self.panic_log.lock().admit(Instant::now())
    }

    /// A worker is about to be spawned. `false` if none is needed: a stream, or a removed handler.
    pub(super) fn mark_spawned(&self) -> bool {
        self.mailbox.lock().mark_spawned()
    }

    /// Called by the worker when it starts. Returns the handler, unless it was removed.
    pub(super) fn take_handler(&self) -> Option<HandlerKind<K>> {
        self.mailbox.lock().take_handler()
    }

    /// Ready when there is something to deliver; an error when there never will be.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let ready = self.mailbox.lock().poll_ready(cx);
        if let Poll::Ready(Err(end)) = ready {
            // The end of a drain is noticed here first.
            drop(self.leave(end));
        }
        ready
    }

    pub(super) async fn ready(&self) -> Result<(), End> {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await
    }

    pub(super) fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.mailbox.lock().poll_cancelled(cx)
    }

    pub(super) async fn cancelled(&self) {
        std::future::poll_fn(|cx| self.poll_cancelled(cx)).await;
    }

    /// Removes the next item, with the number of events queued behind it. The previous item has been delivered.
    pub(crate) fn take(&self) -> Option<(DeliveryCursor<K>, usize)> {
        let (item, queued, synced) = {
            let mut mailbox = self.mailbox.lock();
            let (item, synced) = mailbox.take();
            // Under the lock, so that `pending` counts each event once.
            self.in_flight
                .store(item.as_ref().map_or(0, |item| item.events()), Ordering::Release);
            (item, mailbox.queued(), synced)
        };
        self.note_synced(synced);
        Some((DeliveryCursor::new(item?, self.coalesces), queued))
    }

    /// One event has been delivered: the handler returned or panicked, or the stream yielded it.
    pub(crate) fn mark_delivered(&self, in_flight: usize) {
        // One writer, so no read-modify-write is needed.
        let delivered = self.delivered.load(Ordering::Relaxed);
        self.delivered.store(delivered + 1, Ordering::Relaxed);
        self.in_flight.store(in_flight, Ordering::Release);
    }

    /// The handler panicked, which may end it.
    pub(super) fn panicked(&self) {
        let panics = self.panics.load(Ordering::Relaxed);
        self.panics.store(panics + 1, Ordering::Relaxed);
        if self.on_panic == OnPanic::End {
            drop(self.leave(End::Panicked));
        }
    }

    /// The current item has been delivered.
    pub(crate) fn finish_item(&self, cursor: &DeliveryCursor<K>) {
        if cursor.is_bulk() {
            self.mailbox.lock().bulk_delivered();
        }
        // Objects of a snapshot or resync that were skipped are still counted.
        self.in_flight.store(0, Ordering::Release);
    }

    /// Consumes a synced notice if it comes next. Nothing is in flight.
    pub(crate) fn observe_synced(&self) {
        let synced = self.mailbox.lock().pass_notice();
        self.note_synced(synced);
    }

    pub(super) fn has_pending(&self, object: &Arc<K>) -> bool {
        self.mailbox.lock().has_pending(object)
    }

    pub(super) fn fold_initial(&self, object: &Arc<K>) -> Option<Delivery<K>> {
        self.mailbox.lock().fold_initial(object)
    }

    /// Ends delivery. The first reason is kept.
    pub(crate) fn leave(&self, end: End) -> Leftovers<K> {
        let (leftovers, no_worker, wake) = {
            let mut mailbox = self.mailbox.lock();
            let left = mailbox.leave(end);
            self.leaving.store(true, Ordering::Release);
            left
        };
        // A running worker reports its own end.
        if no_worker {
            self.finish();
        }
        wake.wake();
        self.release();
        leftovers
    }

    fn release(&self) {
        let kept = self.keeps.lock().take();
        drop(kept);
    }

    /// The last call has returned.
    pub(super) fn finish(&self) {
        let end = match self.mailbox.lock().phase {
            Phase::Leaving(end) => end,
            Phase::Open | Phase::Draining => End::Stopped,
        };
        self.ended.store(true, Ordering::Release);
        self.progress.send_if_modified(|now| {
            let first = now.ended.is_none();
            now.ended.get_or_insert(end);
            first
        });
    }

    fn note_synced(&self, synced: bool) {
        if synced {
            self.progress
                .send_if_modified(|now| !std::mem::replace(&mut now.synced, true));
        }
    }

    /// Identifies the listener while it is in use.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.mailbox.lock().slots()
    }
}

impl<K> fmt::Debug for Listener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: Object> Control for Listener<K> {
    fn id(&self) -> HandlerId {
        self.id
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn pending(&self) -> usize {
        if self.has_ended() {
            return 0;
        }
        let mailbox = self.mailbox.lock();
        let in_flight = self.in_flight.load(Ordering::Acquire);
        match mailbox.phase {
            Phase::Open | Phase::Draining => mailbox.queued() + in_flight,
            // Only the call in flight; no other begins.
            Phase::Leaving(_) => in_flight.min(1),
        }
    }

    fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn remove(&self) {
        drop(self.leave(End::Removed));
    }

    fn is_removed(&self) -> bool {
        self.mailbox.lock().phase == Phase::Leaving(End::Removed)
    }

    fn keep(&self, guard: Arc<dyn Any + Send + Sync>) {
        *self.keeps.lock() = Some(guard);
        // If it ended before, nothing has been released yet.
        if self.is_leaving() {
            self.release();
        }
    }

    fn is_calling(&self) -> bool {
        CALLING
            .try_with(|calling| *calling == self.address())
            .unwrap_or(false)
    }
}
