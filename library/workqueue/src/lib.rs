#![doc = include_str!("docs/crate.md")]

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
