//! [`WorkQueue`]: what users hold. Everything it does it does in the call that asked for it; there is no task
//! behind it.

use crate::Key;
use crate::item::{Item, Verdict};
use crate::lease;
use crate::limiter::{self, RateLimiter};
use crate::priority::{AddOptions, Priority, When};
use crate::shared::{Place, QueueCore};
use crate::state::{Added, Again, QueueMachine};
use crate::stats::Stats;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How often the longest waiting key may be passed over: fresh changes lose at most one pick in 17 to old work.
const DEFAULT_AGEING: u32 = 16;

/// A queue of keys to be worked on: deduplicating, delaying, rate-limited, ordered by priority.
///
/// A clone is another handle to the same queue.
///
/// * A key is queued at most once, however often it is added, and never given to two workers at once.
/// * A key added while it is being worked on is worked on exactly once more afterwards.
/// * Keys of one priority come in the order they were added. The higher priority comes first, but every so often
///   the key that has waited longest goes next, so nothing starves ([`Builder::ageing`]).
/// * Workers are served in the order they came. A [`get`](Self::get) that is cancelled loses nothing.
/// * What is remembered about a key goes when the key goes: it leaves when it is neither queued nor delayed nor
///   being worked on.
///
/// The queue is passive: no task, no thread. Delayed keys are minded by the workers that wait in `get`; they need
/// a Tokio runtime with time enabled, as soon as something is delayed. All else works anywhere.
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "TypedDelayingInterface")]
#[doc(alias = "TypedInterface")]
pub struct WorkQueue<T: Key> {
    pub(crate) shared: Arc<QueueCore<T>>,
}

impl<T: Key> WorkQueue<T> {
    /// A queue with this rate limiter; [`limiter::controller_default`] is the usual one.
    #[doc(alias = "NewTypedRateLimitingQueue")]
    pub fn new(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self::builder().limiter(limiter).build()
    }

    /// A queue with more to choose.
    #[doc(alias = "NewTypedRateLimitingQueueWithConfig")]
    pub fn builder() -> Builder<T> {
        Builder {
            name: None,
            limiter: None,
            ageing: DEFAULT_AGEING,
            timings: true,
        }
    }

    /// The name given when it was built, for logs and metrics.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Adds a key, at normal priority.
    ///
    /// If it is queued already nothing happens, except that its priority is raised to normal if it was lower.
    /// If it is being worked on it is queued again once that ends. After a shutdown it is ignored and counted in
    /// [`Stats::discarded`].
    #[doc(alias = "Add")]
    pub fn add(&self, key: T) {
        self.add_now(key, Priority::NORMAL);
    }

    /// Adds a key with a priority, a delay, or both.
    #[doc(alias = "AddWithOpts")]
    pub fn add_with(&self, key: T, options: impl Into<AddOptions>) {
        let AddOptions { priority, when } = options.into();
        match when {
            When::Now => self.add_now(key, priority),
            When::After(delay) => self.add_later(
                key,
                Again {
                    delay,
                    priority,
                    limited: false,
                },
            ),
            When::RateLimited => {
                let delay = self.shared.delay(&key, Instant::now());
                self.add_later(
                    key,
                    Again {
                        delay,
                        priority,
                        limited: true,
                    },
                );
            }
        }
    }

    /// Adds a key when `delay` has passed: not before, and at once if it is zero.
    ///
    /// A key that is delayed already keeps the earlier time. That a key is delayed has no bearing on adds without
    /// delay: it may run now, and again when its time has come.
    #[doc(alias = "AddAfter")]
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Counts a failure of the key and adds it after the delay that the rate limiter asks for.
    ///
    /// Workers rather say [`Item::retry`].
    #[doc(alias = "AddRateLimited")]
    pub fn add_rate_limited(&self, key: T) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Lets a delayed key wait no longer; false if it was not delayed.
    ///
    /// If it is queued or being worked on besides, that goes on. Otherwise it leaves the queue.
    pub fn cancel_delayed(&self, key: &T) -> bool {
        let cancelled = self.shared.change(|state, _| state.cancel(key));
        let found = cancelled.is_some();
        self.shared.release(cancelled.flatten());
        found
    }

    /// Forgets the failures of a key. Workers rather say [`Item::forget`]. A delayed key stays delayed; see
    /// [`cancel_delayed`](Self::cancel_delayed).
    #[doc(alias = "Forget")]
    pub fn forget(&self, key: &T) {
        self.shared.forget(key);
    }

    /// How often a key failed since it was last forgotten. The count goes when the key leaves the queue.
    #[doc(alias = "NumRequeues")]
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.shared.num_requeues(key)
    }

    /// Waits for a key to work on. `None`: the queue is shut down and empty, so the worker may end.
    ///
    /// Those who wait are served in the order they came. May be cancelled at any time: a key is taken only by the
    /// poll that returns it, and a waiter that goes away passes its turn on. Like all futures it holds its turn
    /// while it is neither polled nor dropped, so do not put one aside.
    #[doc(alias = "Get")]
    pub async fn get(&self) -> Option<Item<T>> {
        let mut place = Place::new(&self.shared);
        poll_fn(|cx| self.shared.poll_get(&mut place, cx))
            .await
            .map(Item::new)
    }

    /// Takes a key if there is one that nobody waiting in [`get`](Self::get) has a claim on.
    pub fn try_get(&self) -> Option<Item<T>> {
        self.shared.try_get().map(Item::new)
    }

    /// Waits for a key and works on it. False: the queue is shut down and empty.
    ///
    /// The future's output is the [`Verdict`] unless the item was given one before; if the future does not
    /// complete, because it panics (which goes on to the caller) or because this call is cancelled, the key comes
    /// back rate-limited. An item that the future hands on to somebody else stays with its new holder.
    ///
    /// ```
    /// # use kube_workqueue::WorkQueue;
    /// # async fn reconcile(_: &str) -> Result<(), ()> { Ok(()) }
    /// async fn worker(queue: WorkQueue<String>) {
    ///     while queue.process(async |item| reconcile(&item).await).await {}
    /// }
    /// ```
    pub async fn process<F, R>(&self, work: F) -> bool
    where
        F: FnOnce(Item<T>) -> R,
        R: Future<Output: Into<Verdict>>,
    {
        let Some(item) = self.get().await else {
            return false;
        };
        lease::run(item, work).await;
        true
    }

    /// How many keys are queued: not those being worked on, nor those whose time has not come.
    #[doc(alias = "Len")]
    pub fn len(&self) -> usize {
        self.shared.change(|state, now| {
            state.advance(now);
            state.ready()
        })
    }

    /// Nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queue accepts nothing any more.
    #[doc(alias = "ShuttingDown")]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.read(QueueMachine::is_shutting_down)
    }

    /// The queue's numbers at this instant.
    pub fn stats(&self) -> Stats {
        let waiting_workers = self.shared.waiting();
        let stats = self.shared.change(|state, now| {
            state.advance(now);
            state.stats(now)
        });
        Stats {
            waiting_workers,
            ..stats
        }
    }

    /// Accepts nothing any more; workers work off what is queued, then [`get`](Self::get) gives them `None`.
    ///
    /// Delayed keys are dropped, and so are retries of what is still being worked on; [`Stats::discarded`] counts
    /// them. Ends every [`shutdown_with_drain`](Self::shutdown_with_drain) that is waiting.
    #[doc(alias = "ShutDown")]
    pub fn shutdown(&self) {
        self.shared.close(true);
    }

    /// [Shuts down](Self::shutdown) and waits until all that was queued or being worked on is done.
    ///
    /// Differs from client-go, which does not wait for what is queued and not begun. If nobody takes what is
    /// queued this waits for ever, and so it does in a worker that holds an item: it would wait for itself. A later
    /// `shutdown` ends the wait, and [`shutdown_within`](Self::shutdown_within) sets it a limit. When cancelled,
    /// the queue stays shut down.
    #[doc(alias = "ShutDownWithDrain")]
    pub async fn shutdown_with_drain(&self) {
        let number = self.shared.close(false);
        self.shared.drained(number).await;
    }

    /// [Drains](Self::shutdown_with_drain) for at most `limit`, then drops what is still queued, so that workers
    /// end after the key in flight.
    ///
    /// # Errors
    ///
    /// [`Undrained`] tells what was not done: when the limit passed, or a `shutdown` ended the wait before.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), Undrained> {
        let number = self.shared.close(false);
        let in_time = timeout(limit, self.shared.drained(number)).await.is_ok();
        let (undrained, gone) = self.shared.change(|state, now| {
            let stats = state.stats(now);
            let gone = if in_time { Vec::new() } else { state.discard() };
            (
                Undrained {
                    queued: stats.depth,
                    running: stats.running,
                },
                gone,
            )
        });
        self.shared.release(gone);
        match undrained {
            Undrained {
                queued: 0,
                running: 0,
            } => Ok(()),
            undrained => Err(undrained),
        }
    }

    fn add_now(&self, key: T, priority: Priority) {
        // A key that was not needed comes back and is dropped here, outside the lock.
        drop(
            self.shared
                .change_often(|state, now| state.add(key, priority, now)),
        );
    }

    fn add_later(&self, key: T, again: Again) {
        match self.shared.change(|state, now| state.add_after(key, again, now)) {
            // The limiter has counted a failure for a key that will never come back to be forgotten.
            Added::Refused(key) if again.limited => self.shared.forget(&key),
            Added::New | Added::Merged(_) | Added::Refused(_) => {}
        }
    }
}

impl<T: Key> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        WorkQueue {
            shared: self.shared.clone(),
        }
    }
}

/// With [`limiter::controller_default`].
impl<T: Key> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::builder().build()
    }
}

/// Keys stay out of the output: they may be numerous, and they are the user's.
impl<T: Key> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ready, running, delayed, shutting_down) = self.shared.read(|state| {
            (
                state.ready(),
                state.running(),
                state.delayed(),
                state.is_shutting_down(),
            )
        });
        f.debug_struct("WorkQueue")
            .field("name", &self.name())
            .field("ready", &ready)
            .field("running", &running)
            .field("delayed", &delayed)
            .field("shutting_down", &shutting_down)
            .finish_non_exhaustive()
    }
}

/// What was not done when a limited drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undrained {
    /// Keys that were still queued, or asked for again while being worked on. They have been dropped.
    pub queued: usize,
    /// Keys that were still being worked on.
    pub running: usize,
}

impl fmt::Display for Undrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undrained { queued, running } = self;
        write!(
            f,
            "work queue not drained: {queued} keys queued, {running} being worked on"
        )
    }
}

impl std::error::Error for Undrained {}

/// Builds a [`WorkQueue`].
#[doc(alias = "TypedRateLimitingQueueConfig")]
#[must_use]
pub struct Builder<T> {
    name: Option<Box<str>>,
    limiter: Option<Box<dyn RateLimiter<T>>>,
    ageing: u32,
    timings: bool,
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("ageing", &self.ageing)
            .field("timings", &self.timings)
            .finish_non_exhaustive()
    }
}

impl<T: Key> Builder<T> {
    /// A name for logs and metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// The rate limiter; [`limiter::controller_default`] if none is given.
    pub fn limiter(mut self, limiter: impl RateLimiter<T> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// After the key that has waited longest was passed over so many times it goes next, whatever its priority.
    /// 16 unless set; 0 switches it off, and then low priorities can starve.
    ///
    /// So under a flood of more urgent keys old work still gets one pick in `picks + 1`, and costs them no more.
    /// Picks are counted rather than seconds, because after a number of seconds *all* of a long first list would
    /// stand before every fresh change.
    pub fn ageing(mut self, picks: u32) -> Self {
        self.ageing = picks;
        self
    }

    /// Whether the queue measures how long keys wait and are processed. Enabled by default; it costs
    /// three looks at the clock per key. Without, [`Stats`] counts but has no times.
    pub fn timings(mut self, timings: bool) -> Self {
        self.timings = timings;
        self
    }

    /// The queue.
    pub fn build(self) -> WorkQueue<T> {
        let limiter = self
            .limiter
            .unwrap_or_else(|| Box::new(limiter::controller_default()));
        WorkQueue {
            shared: Arc::new(QueueCore::new(self.name, limiter, self.ageing, self.timings)),
        }
    }
}
