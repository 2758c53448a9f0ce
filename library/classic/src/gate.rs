//! `Gate`: the lock and the waiting around the plain contents of a queue.
//!
//! It provides waiting pops, waiting for room and for sync, closing, and statistics. One pop is in flight at a time.

use std::time::Duration;

use kube_informers::queue::Closed;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The number of queued deltas, or values of a [`Fifo`](crate::Fifo).
    #[doc(alias = "queued_items")]
    pub len: usize,
    /// Whether a pop is in flight: it was taken from the queue, and its processing has not ended.
    pub in_flight: bool,
    /// The number of processed pops.
    pub pops: u64,
    /// The processing time of the last pop.
    #[doc(alias = "processing_latency_seconds")]
    pub last_pop: Option<Duration>,
}

impl QueueStats {
    /// Whether everything that was queued has been processed.
    pub fn is_idle(&self) -> bool {
        self.len == 0 && !self.in_flight
    }
}

/// What the gate requires of the contents.
pub(crate) trait Contents {
    /// The number of queued items.
    fn len(&self) -> usize;
    /// Whether the initial population has been processed.
    fn has_synced(&self) -> bool;
}

pub(crate) struct Gate<S> {
    inner: Mutex<GateInner<S>>,
    /// For pops: something was queued, the previous pop has finished, or the queue was closed.
    ready: Notify,
    /// For waiters for room or sync: something was popped or processed, or the queue was closed.
    progress: Notify,
}

struct GateInner<S> {
    contents: S,
    closed: bool,
    /// The start of the processing of the pop in flight.
    busy: Option<Instant>,
    pops: u64,
    last_pop: Option<Duration>,
}

impl<S: Contents> Gate<S> {
    pub(crate) fn new(contents: S) -> Self {
        Self {
            inner: Mutex::new(GateInner {
                contents,
                closed: false,
                busy: None,
                pops: 0,
                last_pop: None,
            }),
            ready: Notify::new(),
            progress: Notify::new(),
        }
    }

    /// Reads the contents.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&S) -> T) -> T {
        read(&self.inner.lock().contents)
    }

    /// Changes the contents and wakes waiting tasks. Must not be called inside `change`.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let result = change(&mut self.inner.lock().contents);
        self.wake();
        result
    }

    /// Waits until no pop is in flight and `take` returns something; `None` when closed and drained.
    ///
    /// The caller must call [`finish`](Self::finish) afterwards, or all later pops wait forever. Cancel-safe: the poll
    /// that takes something returns it.
    pub(crate) async fn take<T>(&self, mut take: impl FnMut(&mut S) -> Option<T>) -> Option<T> {
        wait_for(&self.ready, || self.try_take(&mut take)).await
    }

    /// `None`: not yet. `Some(None)`: closed and drained.
    fn try_take<T>(&self, take: &mut impl FnMut(&mut S) -> Option<T>) -> Option<Option<T>> {
        let mut inner = self.inner.lock();
        if inner.busy.is_some() {
            // Even if closed: the deltas in flight may be requeued.
            return None;
        }
        match take(&mut inner.contents) {
            Some(taken) => {
                inner.busy = Some(Instant::now());
                drop(inner);
                self.progress.notify_waiters();
                Some(Some(taken))
            }
            None if inner.closed => Some(None),
            None => None,
        }
    }

    /// Ends the processing of what [`take`](Self::take) returned, and admits the next pop.
    pub(crate) fn finish(&self, finish: impl FnOnce(&mut S)) {
        let (elapsed, depth) = {
            let mut inner = self.inner.lock();
            finish(&mut inner.contents);
            let elapsed = inner.busy.take().map(|since| since.elapsed());
            inner.pops += 1;
            inner.last_pop = elapsed.or(inner.last_pop);
            (elapsed.unwrap_or_default(), inner.contents.len())
        };
        self.wake();

        // As in client-go: a pop of over 100 ms while more than ten entries are queued.
        if depth > 10 && elapsed > Duration::from_millis(100) {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(elapsed_ms, depth, "slow processing delays the queue");
        }
    }

    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    /// Whether `room` returns true, or the queue is closed: a closed queue may never be drained.
    pub(crate) fn has_room(&self, room: impl FnOnce(&S) -> bool) -> bool {
        let inner = self.inner.lock();
        inner.closed || room(&inner.contents)
    }

    /// Waits until [`has_room`](Self::has_room). Cancel-safe: it takes nothing.
    pub(crate) async fn room(&self, room: impl Fn(&S) -> bool) {
        wait_for(&self.progress, || self.has_room(&room).then_some(())).await;
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.read(S::has_synced)
    }

    /// Waits until the initial population has been processed. Cancel-safe: it takes nothing.
    pub(crate) async fn synced(&self) -> Result<(), Closed> {
        wait_for(&self.progress, || {
            let inner = self.inner.lock();
            let ended = inner.closed && inner.busy.is_none() && inner.contents.len() == 0;
            if inner.contents.has_synced() {
                Some(Ok(()))
            } else {
                ended.then_some(Err(Closed))
            }
        })
        .await
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let inner = self.inner.lock();
        QueueStats {
            len: inner.contents.len(),
            in_flight: inner.busy.is_some(),
            pops: inner.pops,
            last_pop: inner.last_pop,
        }
    }

    fn wake(&self) {
        // Wakes all waiters: a single wake-up could go to a pop that is then cancelled.
        self.ready.notify_waiters();
        self.progress.notify_waiters();
    }
}

/// Evaluates a condition, and again after each `notify_waiters`, until it returns a value.
async fn wait_for<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        // Created before the check, so that it receives every `notify_waiters` from here on. Otherwise a change
        // between the check and the wait would be missed.
        let change = changed.notified();
        if let Some(value) = check() {
            return value;
        }
        change.await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_between_the_check_and_the_wait_is_not_missed() {
        let changed = Notify::new();
        let mut checks = 0;

        let value = wait_for(&changed, || {
            checks += 1;
            // As if another thread changed the contents between the check and the wait.
            changed.notify_waiters();
            (checks == 3).then_some("seen")
        });

        assert_eq!(value.now_or_never(), Some("seen"));
    }
}
