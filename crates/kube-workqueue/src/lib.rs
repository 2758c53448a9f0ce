//! A work queue with client-go's rules: deduplicating, delaying, rate-limited, ordered by priority.
//!
//! It stands between "something changed" and the worker that looks into it. What is queued is a *key*, any type that
//! can be cloned, compared and hashed; what changed is for the worker to find out. The queue knows nothing of
//! Kubernetes.
//!
//! ```
//! use kube_workqueue::{Item, WorkQueue, limiter, workers};
//! # async fn reconcile(_: &str) -> Result<(), std::io::Error> { Ok(()) }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new(limiter::controller_default());
//! let workers = workers(4, &queue, |item: Item<String>| async move {
//!     // Ok: its failures are forgotten. Err: it is retried, later each time.
//!     reconcile(&item).await.inspect_err(|error| eprintln!("{}: {error}", *item))
//! });
//!
//! queue.add("shop/cart".to_owned());
//! queue.add("shop/cart".to_owned()); // still one run
//!
//! queue.shutdown_with_drain().await; // waits for what is queued and what is being worked on
//! workers.join().await;
//! # }
//! ```
//!
//! # The life of a key
//!
//! ```text
//!            add                get                  verdict
//!   ──────────────▶  queued  ────────▶  worked on  ───────────▶  gone
//!      ▲               ▲                    │ │
//!      │ when due      └── added meanwhile ─┘ │ retry, retry_after, panic, cancelled
//!   delayed  ◀────────────────────────────────┘
//!      ▲
//!      └── add_after, add_rate_limited
//! ```
//!
//! A key is queued at most once, however often it is added, and is never in two hands at once; added while it is
//! worked on, it is worked on exactly once more. It may be delayed and queued (or worked on) at the same time.
//! When it is none of the three, it is gone, and with it all that was remembered about it, failure counts included.
//!
//! # No key is lost
//!
//! [`get`](WorkQueue::get) hands out an [`Item`], a guard. Dropping it always ends the run, so no key is ever stuck as
//! client-go's is when somebody forgets `Done`. The question is what a drop *means*. A destructor runs alike at the
//! end of a scope, in a panic, on an early `?`, and when a future is cancelled in the middle of its work, and in all but
//! the first the work was not finished. So there is one rule: **without a verdict the key comes back, rate-limited.**
//! In your own loop, say [`forget`](Item::forget), [`retry`](Item::retry), [`retry_after`](Item::retry_after) or
//! [`done`](Item::done).
//!
//! In [`workers`] and [`WorkQueue::process`] the item may go out of scope as it likes, because there it can be known
//! whether your future completed. If it did, its output is the verdict: `()`, a `Result` or a [`Verdict`]. If it
//! panicked or was cancelled, the key comes back.
//!
//! ```
//! # use kube_workqueue::{Verdict, WorkQueue};
//! # use std::time::Duration;
//! # async fn is_ready(_: &str) -> bool { true }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let queue = WorkQueue::default();
//! # queue.add("shop/cart".to_owned());
//! # queue.shutdown();
//! while queue
//!     .process(async |item| match is_ready(&item).await {
//!         true => Verdict::Forget,
//!         false => Verdict::RetryAfter(Duration::from_secs(5)),
//!     })
//!     .await
//! {}
//! # }
//! ```
//!
//! # Order
//!
//! Keys of one [`Priority`] come in the order they were added, and the higher priority comes first; so that nothing
//! starves, the key that has waited longest goes next after it was [passed over](Builder::ageing) 16 times. Add what a
//! first list or a resync repeats at [`Priority::LOW`], and it will not hold up fresh changes. A queued key that is
//! added again at a higher priority is raised.
//!
//! Workers are served in the order they came, too; one that is cancelled passes its turn on.
//!
//! # Time
//!
//! There is no task, thread or timer behind a queue: of those who wait in `get`, one sleeps until the next delayed key
//! is due. All time is Tokio's, so a test with a paused clock sees every delay exactly and waits for none.
//! The rules are a state machine without a clock: every input carries the time.

mod item;
mod lease;
pub mod limiter;
mod line;
mod parallel;
mod priority;
mod queue;
mod shared;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
#[cfg_attr(
    not(feature = "sim"),
    allow(dead_code, reason = "some inputs are for simulators only")
)]
mod state;
mod stats;
mod task;
mod workers;

pub use item::{Item, Verdict};
pub use limiter::RateLimiter;
pub use parallel::parallelize;
pub use priority::{AddOptions, Priority};
pub use queue::{Builder, Undrained, WorkQueue};
pub use stats::{Histogram, Stats};
pub use workers::{Workers, workers};

use std::hash::Hash;

/// What can be a key: anything that can be cloned, compared, hashed and sent. There is nothing to implement.
///
/// A key is cloned each time it is handed to a worker, so let it be cheap to clone.
pub trait Key: Clone + Eq + Hash + Send + 'static {}

impl<T: Clone + Eq + Hash + Send + 'static> Key for T {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
