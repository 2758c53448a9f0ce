//! Rate limiters: the delay before a key is retried. Limiters are plain state: they receive the time and never read it,
//! and each has exactly one caller, so they need no lock.

mod bucket;
mod combine;
mod per_item;

pub use bucket::Bucket;
pub use combine::{MaxOf, MaxWait};
pub use per_item::{ExponentialBackoff, FastSlow};

use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// Decides how long a key waits before its next attempt, and counts its failures.
///
/// The queue calls [`forget`](Self::forget) when a worker reports success and when a key leaves the queue. So the state
/// of a limiter is bounded by the keys that are queued, delayed or in flight, and needs no clean-up. If you use a
/// limiter without a queue, call `forget` yourself.
///
/// The queue calls it synchronously under a lock, so it should be fast, and must not call back into its queue.
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<T>: Send {
    /// Counts one more failure of `item` and returns how long it should wait from `now`.
    #[doc(alias = "When")]
    fn when(&mut self, item: &T, now: Instant) -> Duration;

    /// Resets `item`: it succeeded, or is no longer queued.
    #[doc(alias = "Forget")]
    fn forget(&mut self, item: &T);

    /// The number of failures of `item` since it was last forgotten.
    #[doc(alias = "NumRequeues")]
    fn num_requeues(&self, item: &T) -> u32;
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Box<L> {
    fn when(&mut self, item: &T, now: Instant) -> Duration {
        (**self).when(item, now)
    }

    fn forget(&mut self, item: &T) {
        (**self).forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        (**self).num_requeues(item)
    }
}

/// The default for controllers: per key 5 ms, doubling up to 1000 s, and over all keys at most 10 retries per second
/// after a burst of 100. The numbers are client-go's.
#[doc(alias = "DefaultControllerRateLimiter")]
#[doc(alias = "DefaultTypedControllerRateLimiter")]
pub fn controller_default<T: Clone + Eq + Hash + Send + 'static>() -> MaxOf<T> {
    MaxOf::new()
        .and(ExponentialBackoff::new(
            Duration::from_millis(5),
            Duration::from_secs(1000),
        ))
        .and(Bucket::new(10.0, 100))
}

/// Per key 1 ms, doubling up to 1000 s, and no limit over all keys. The numbers are client-go's.
#[doc(alias = "DefaultItemBasedRateLimiter")]
#[doc(alias = "DefaultTypedItemBasedRateLimiter")]
pub fn item_default<T>() -> ExponentialBackoff<T> {
    ExponentialBackoff::new(Duration::from_millis(1), Duration::from_secs(1000))
}
