//! A work queue with client-go's rules: deduplicating, delaying, rate-limited, ordered by priority.
//!
//! It decouples change events from the workers that process them. The queue holds *keys*, of any type that can be
//! cloned, compared and hashed; the worker looks up the current state of the key. The queue has no dependency on
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
//!     // Ok: the key's failures are forgotten. Err: the key is retried with increasing delays.
//!     reconcile(&item).await.inspect_err(|error| eprintln!("{}: {error}", *item))
//! });
//!
//! queue.add("shop/cart".to_owned());
//! queue.add("shop/cart".to_owned()); // still one run
//!
//! queue.drain().await; // waits for queued keys and keys in flight
//! workers.join().await;
//! # }
//! ```
//!
//! # The life cycle of a key
//!
//! ```text
//!            add                get                  verdict
//!   ──────────────▶  queued  ────────▶  in flight  ───────────▶  gone
//!      ▲               ▲                    │ │
//!      │ when due      └── added meanwhile ─┘ │ retry, retry_after, panic, cancelled
//!   delayed  ◀────────────────────────────────┘
//!      ▲
//!      └── add_after, add_rate_limited
//! ```
//!
//! A key is queued at most once, however often it is added, and never processed by two workers at once. A key added
//! while in flight is processed exactly once more. It may be delayed and queued (or in flight) at the same time. When
//! it is none of the three, it has left the queue, and all state about it is dropped, including its failure count.
//!
//! # No key is lost
//!
//! [`get`](WorkQueue::get) returns an [`Item`], a guard. Dropping it always ends the run, so no key is ever stuck, as
//! it is in client-go without a call to `Done`. A destructor runs at the end of a scope, in a panic, on an early return
//! by `?`, and when a future is cancelled; only in the first case is the work finished. So there is one rule: **without
//! a verdict the key is retried, rate-limited.** In your own loop, call [`forget`](Item::forget),
//! [`retry`](Item::retry), [`retry_after`](Item::retry_after) or [`done`](Item::done).
//!
//! In [`workers`] and [`WorkQueue::process`] the item may go out of scope, because there the queue knows whether your
//! future completed. If it did, its output is the verdict: `()`, a `Result` or a [`Verdict`]. If it panicked or was
//! cancelled, the key is retried.
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
//! Higher priorities come first; keys of one [`Priority`] are in the order they were added. To avoid starvation, the
//! key that has waited longest goes next after it has been [passed over](Builder::ageing) 16 times. Add the keys of an
//! initial list or a resync at [`Priority::LOW`], so that they do not delay fresh changes. A queued key that is added
//! again at a higher priority is raised.
//!
//! Workers are served in the order of their `get` calls; a cancelled `get` passes its turn on.
//!
//! # Time
//!
//! A queue has no task, thread or timer: one of the workers waiting in `get` sleeps until the next delayed key is due.
//! All time is Tokio's, so a test with a paused clock sees exact delays without waiting. The rules are a state machine
//! without a clock: every input carries the time.

mod held;
mod item;
mod lease;
pub mod limiter;
mod line;
mod lock;
mod parallel;
mod priority;
mod queue;
mod runner;
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

pub use held::Verdict;
pub use item::Item;
pub use limiter::RateLimiter;
pub use parallel::parallelize;
pub use priority::{AddOptions, Priority};
pub use queue::{Builder, Undrained, WorkQueue};
pub use stats::{Histogram, Stats};
pub use workers::{Workers, workers};

use std::hash::Hash;

/// A key: any type that can be cloned, compared, hashed and sent. Implemented automatically.
///
/// A key is cloned each time a worker receives it, so it should be cheap to clone.
pub trait Key: Clone + Eq + Hash + Send + 'static {}

impl<T: Clone + Eq + Hash + Send + 'static> Key for T {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
