//! `Gate`: the thin asynchronous shell around a queue's plain state.
//!
//! Takes a state and the functions that change it; gives waiting pops, waiting for room and for sync, closing,
//! and the numbers. It lets one popper through at a time and does not know what is in the state.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::QueueStats;

/// What the gate must know of a state.
pub(super) trait Contents {
    /// How many things are queued.
    fn len(&self) -> usize;
    /// Whether the initial population has been processed.
    fn has_synced(&self) -> bool;
}

/// The queue was closed, so that what was waited for will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
pub struct Closed;

pub(super) struct Gate<S> {
    inner: Mutex<Inner<S>>,
    /// For poppers: something was queued, the one before has finished, or the queue was closed.
    ready: Notify,
    /// For those who wait for room or sync: something was popped or processed, or the queue was closed.
    progress: Notify,
}

struct Inner<S> {
    state: S,
    closed: bool,
    /// Since when a popped thing is being processed; `None` while nobody is at it.
    busy: Option<Instant>,
    pops: u64,
    last_pop: Option<Duration>,
}

impl<S: Contents> Gate<S> {
    pub(super) fn new(state: S) -> Self {
        Self {
            inner: Mutex::new(Inner {
                state,
                closed: false,
                busy: None,
                pops: 0,
                last_pop: None,
            }),
            ready: Notify::new(),
            progress: Notify::new(),
        }
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, read: impl FnOnce(&S) -> T) -> T {
        read(&self.inner.lock().state)
    }

    /// Changes the state and wakes who may be interested. Never call it from inside `change`.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let result = change(&mut self.inner.lock().state);
        self.wake();
        result
    }

    /// Waits until nobody else is processing and `take` finds something; `None` when closed and drained.
    ///
    /// Whoever gets something must call [`finish`](Self::finish), or nobody will get anything again.
    /// Cancel-safe: what is taken is returned in the very poll that takes it.
    pub(super) async fn take<T>(&self, mut take: impl FnMut(&mut S) -> Option<T>) -> Option<T> {
        wait_for(&self.ready, || self.try_take(&mut take)).await
    }

    /// `None`: not now. `Some(None)`: never again.
    fn try_take<T>(&self, take: &mut impl FnMut(&mut S) -> Option<T>) -> Option<Option<T>> {
        let mut inner = self.inner.lock();
        if inner.busy.is_some() {
            // Even when closed: what is being processed may yet be put back.
            return None;
        }
        match take(&mut inner.state) {
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

    /// Ends the processing of what [`take`](Self::take) gave, and lets the next popper through.
    pub(super) fn finish(&self, finish: impl FnOnce(&mut S)) {
        let (elapsed, depth) = {
            let mut inner = self.inner.lock();
            finish(&mut inner.state);
            let elapsed = inner.busy.take().map(|since| since.elapsed());
            inner.pops += 1;
            inner.last_pop = elapsed.or(inner.last_pop);
            (elapsed.unwrap_or_default(), inner.state.len())
        };
        self.wake();

        // client-go traces a pop of over 100 ms while more than ten are waiting.
        if depth > 10 && elapsed > Duration::from_millis(100) {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(elapsed_ms, depth, "slow processing holds up the queue");
        }
    }

    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    /// Whether `room` says yes, or the queue is closed: nobody should wait for a queue nobody drains.
    pub(super) fn has_room(&self, room: impl FnOnce(&S) -> bool) -> bool {
        let inner = self.inner.lock();
        inner.closed || room(&inner.state)
    }

    /// Waits until [`has_room`](Self::has_room). Cancel-safe: it takes nothing.
    pub(super) async fn room(&self, room: impl Fn(&S) -> bool) {
        wait_for(&self.progress, || self.has_room(&room).then_some(())).await;
    }

    pub(super) fn has_synced(&self) -> bool {
        self.read(S::has_synced)
    }

    /// Waits until the initial population has been processed. Cancel-safe: it takes nothing.
    pub(super) async fn synced(&self) -> Result<(), Closed> {
        wait_for(&self.progress, || {
            let inner = self.inner.lock();
            let ended = inner.closed && inner.busy.is_none() && inner.state.len() == 0;
            if inner.state.has_synced() {
                Some(Ok(()))
            } else {
                ended.then_some(Err(Closed))
            }
        })
        .await
    }

    pub(super) fn stats(&self) -> QueueStats {
        let inner = self.inner.lock();
        QueueStats {
            len: inner.state.len(),
            pops: inner.pops,
            last_pop: inner.last_pop,
        }
    }

    fn wake(&self) {
        // All of them, as each decides for itself: a single wake-up could go to a popper that is then cancelled.
        self.ready.notify_waiters();
        self.progress.notify_waiters();
    }
}

/// Looks, and looks again after each `notify_waiters`, until there is an answer.
async fn wait_for<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // Made before looking: from here on it hears of every `notify_waiters`. The other way round, a change
        // between the look and the wait would wake nobody.
        let change = changed.notified();
        if let Some(answer) = look() {
            return answer;
        }
        change.await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_right_after_the_look_is_not_missed() {
        let changed = Notify::new();
        let mut looks = 0;

        let answer = wait_for(&changed, || {
            looks += 1;
            // As if somebody on another thread came between the look and the wait.
            changed.notify_waiters();
            (looks == 3).then_some("seen")
        });

        assert_eq!(answer.now_or_never(), Some("seen"));
    }
}
