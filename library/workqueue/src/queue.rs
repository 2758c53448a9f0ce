//! [`WorkQueue`], the public handle. All work is done in the caller's tasks; there is no background task.

use crate::Key;
use crate::held::Verdict;
use crate::item::Item;
use crate::limiter::{self, RateLimiter};
use crate::priority::{AddOptions, Priority, When};
use crate::runner;
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

/// A queue of keys to process: deduplicating, delaying, rate-limited, ordered by priority.
///
/// Clones are handles of the same queue.
///
/// * A key is queued at most once, however often it is added, and never processed by two workers at once.
/// * A key added while in flight is processed exactly once more.
/// * Higher priorities come first, and keys of one priority are FIFO. To avoid starvation, the key that has waited
///   longest periodically goes next ([`Builder::ageing`]).
/// * Workers are served in the order of their calls. A cancelled [`get`](Self::get) loses nothing.
/// * State about a key is dropped when the key leaves the queue: when it is neither queued nor delayed nor in flight.
///
/// The queue is passive: no task, no thread. The timer of delayed keys runs in the workers that wait in `get`; they
/// need a Tokio runtime with time enabled if a key is delayed. Everything else works anywhere.
#[doc(alias = "workqueue.Interface")]
#[doc(alias = "DelayingInterface")]
#[doc(alias = "RateLimitingInterface")]
#[doc(alias = "workqueue.Type")]
#[doc(alias = "workqueue.Typed")]
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "TypedDelayingInterface")]
#[doc(alias = "TypedInterface")]
pub struct WorkQueue<T: Key> {
    pub(crate) shared: Arc<QueueCore<T>>,
}

impl<T: Key> WorkQueue<T> {
    /// A queue with this rate limiter; [`limiter::controller_default`] is the usual one.
    #[doc(alias = "workqueue.New")]
    #[doc(alias = "NewTyped")]
    #[doc(alias = "NewNamed")]
    #[doc(alias = "NewDelayingQueue")]
    #[doc(alias = "NewNamedDelayingQueue")]
    #[doc(alias = "NewTypedDelayingQueue")]
    #[doc(alias = "TypedNewDelayingQueue")]
    #[doc(alias = "NewRateLimitingQueue")]
    #[doc(alias = "NewRateLimitingQueueWithDelayingInterface")]
    #[doc(alias = "NewNamedRateLimitingQueue")]
    #[doc(alias = "NewDelayingQueueWithCustomQueue")]
    #[doc(alias = "NewTypedRateLimitingQueue")]
    pub fn new(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self::builder().limiter(limiter).build()
    }

    /// A builder with further options.
    #[doc(alias = "NewTypedWithConfig")]
    #[doc(alias = "NewWithConfig")]
    #[doc(alias = "NewDelayingQueueWithConfig")]
    #[doc(alias = "NewTypedDelayingQueueWithConfig")]
    #[doc(alias = "NewRateLimitingQueueWithConfig")]
    #[doc(alias = "NewTypedRateLimitingQueueWithConfig")]
    pub fn builder() -> Builder<T> {
        Builder {
            name: None,
            limiter: None,
            ageing: DEFAULT_AGEING,
            timings: true,
        }
    }

    /// The name set by the builder, for logs and metrics.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Adds a key, at normal priority.
    ///
    /// If the key is already queued, only its priority is raised to normal if it was lower. If it is in flight, it is
    /// queued again once that run ends. After a shutdown it is ignored and counted in [`Stats::discarded`].
    #[doc(alias = "Add")]
    pub fn add(&self, key: T) {
        self.shared.add(key, Priority::NORMAL);
    }

    /// Adds a key with a priority, a delay, or both.
    #[doc(alias = "AddWithOpts")]
    pub fn add_with(&self, key: T, options: impl Into<AddOptions>) {
        let AddOptions { priority, when } = options.into();
        match when {
            When::Now => self.shared.add(key, priority),
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

    /// Adds a key after `delay`: never earlier, and at once if it is zero.
    ///
    /// A key that is already delayed keeps the earlier time. A delay does not affect adds without delay: the key may
    /// run now, and again when the delay has passed.
    #[doc(alias = "AddAfter")]
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Counts a failure of the key and adds it after the delay of the rate limiter.
    ///
    /// Workers should use [`Item::retry`].
    #[doc(alias = "AddRateLimited")]
    pub fn add_rate_limited(&self, key: T) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Cancels the delay of a key; false if it was not delayed.
    ///
    /// If the key is also queued or in flight, that continues. Otherwise it leaves the queue.
    pub fn cancel_delayed(&self, key: &T) -> bool {
        let cancelled = self.shared.change(|state, _| state.cancel(key));
        let found = cancelled.is_some();
        if let Some(gone) = cancelled.flatten() {
            self.shared.forget_gone(&gone);
        }
        found
    }

    /// Forgets the failures of a key. Workers should use [`Item::forget`]. A delayed key stays delayed; see
    /// [`cancel_delayed`](Self::cancel_delayed).
    #[doc(alias = "Forget")]
    pub fn forget(&self, key: &T) {
        self.shared.forget(key);
    }

    /// The number of failures of a key since it was last forgotten. The count is dropped when the key leaves the queue.
    #[doc(alias = "NumRequeues")]
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.shared.num_requeues(key)
    }

    /// Waits for a key. `None`: the queue is shut down and empty, so the worker may end.
    ///
    /// Callers are served in order. Cancel-safe: a key is taken only by the poll that returns it, and a cancelled call
    /// passes its turn on. A future that is neither polled nor dropped keeps its turn, so do not keep one around.
    #[doc(alias = "Get")]
    pub async fn get(&self) -> Option<Item<T>> {
        let mut place = Place::new(&self.shared);
        let taken = poll_fn(|cx| self.shared.poll_get(&mut place, cx)).await;
        taken.map(|taken| Item::new(&self.shared, taken))
    }

    /// Takes a key if there is one that does not belong to a caller waiting in [`get`](Self::get).
    pub fn try_get(&self) -> Option<Item<T>> {
        let taken = self.shared.try_get();
        taken.map(|taken| Item::new(&self.shared, taken))
    }

    /// Waits for a key and processes it. False: the queue is shut down and empty.
    ///
    /// The future's output is the [`Verdict`] unless the item was finished before. If the future does not complete,
    /// because it panics (the panic propagates) or because this call is cancelled, the key is retried, rate-limited. An
    /// item that the future passes on stays with its new holder.
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
        runner::run(item, work).await;
        true
    }

    /// The number of queued keys, without those in flight or delayed.
    #[doc(alias = "Len")]
    pub fn len(&self) -> usize {
        self.shared.change(|state, now| {
            state.advance(now);
            state.ready()
        })
    }

    /// Whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether keys are no longer accepted.
    #[doc(alias = "ShuttingDown")]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.read(QueueMachine::is_shutting_down)
    }

    /// Statistics at this instant.
    #[doc(alias = "workqueue.MetricsProvider")]
    #[doc(alias = "workqueue.SetProvider")]
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

    /// Stops accepting keys; workers process what is queued, then [`get`](Self::get) returns `None`.
    ///
    /// Delayed keys are dropped, and so are retries of keys in flight; [`Stats::discarded`] counts them. Ends every
    /// waiting [`drain`](Self::drain).
    #[doc(alias = "ShutDown")]
    pub fn shutdown(&self) {
        self.shared.close(true);
    }

    /// [Shuts down](Self::shutdown) and waits until all queued keys and keys in flight are done.
    ///
    /// Differs from client-go, which waits only for keys in flight, because the caller of a drain expects all work to
    /// be done. This waits forever without workers, and in a worker that holds an item, which would wait for itself. A
    /// later `shutdown` ends the wait, and [`drain_within`](Self::drain_within) limits it. If cancelled, the
    /// queue stays shut down.
    #[doc(alias = "ShutDownWithDrain")]
    pub async fn drain(&self) {
        let number = self.shared.close(false);
        self.shared.drained(number).await;
    }

    /// [Drains](Self::drain) for at most `limit`, then drops the keys still queued, so that workers end
    /// after the key in flight.
    ///
    /// # Errors
    ///
    /// [`Undrained`] reports what was not done when the limit passed, or when a `shutdown` ended the wait.
    pub async fn drain_within(&self, limit: Duration) -> Result<(), Undrained> {
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
        gone.iter().for_each(|gone| self.shared.forget_gone(gone));
        match undrained {
            Undrained {
                queued: 0,
                running: 0,
            } => Ok(()),
            undrained => Err(undrained),
        }
    }

    fn add_later(&self, key: T, again: Again) {
        match self.shared.change(|state, now| state.add_after(key, again, now)) {
            // The limiter has counted a failure for a key that will never return to be forgotten.
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

/// Keys are not printed: they may be numerous, and they belong to the user.
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

/// The keys left when a limited drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undrained {
    /// Keys that were still queued, or added again while in flight. They have been dropped.
    pub queued: usize,
    /// Keys that were still in flight.
    pub running: usize,
}

impl fmt::Display for Undrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undrained { queued, running } = self;
        write!(
            f,
            "work queue not drained: {queued} keys queued, {running} in flight"
        )
    }
}

impl std::error::Error for Undrained {}

/// Builds a [`WorkQueue`].
#[doc(alias = "QueueConfig")]
#[doc(alias = "TypedQueueConfig")]
#[doc(alias = "DelayingQueueConfig")]
#[doc(alias = "TypedDelayingQueueConfig")]
#[doc(alias = "RateLimitingQueueConfig")]
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

    /// The number of times that the longest waiting key is passed over before it goes next, regardless of its priority.
    /// 16 by default; 0 disables ageing, and then low priorities can starve.
    ///
    /// Under a flood of more urgent keys, old work still gets one pick in `picks + 1`, and no more. Picks are counted
    /// instead of seconds, because after a number of seconds *all* keys of a long initial list would precede every
    /// fresh change.
    pub fn ageing(mut self, picks: u32) -> Self {
        self.ageing = picks;
        self
    }

    /// Whether the queue measures how long keys wait and are processed. Enabled by default; it reads the clock three
    /// times per key. Without it, [`Stats`] has counts but no times.
    pub fn timings(mut self, timings: bool) -> Self {
        self.timings = timings;
        self
    }

    /// Builds the queue.
    pub fn build(self) -> WorkQueue<T> {
        let limiter = self
            .limiter
            .unwrap_or_else(|| Box::new(limiter::controller_default()));
        WorkQueue {
            shared: Arc::new(QueueCore::new(self.name, limiter, self.ageing, self.timings)),
        }
    }
}
