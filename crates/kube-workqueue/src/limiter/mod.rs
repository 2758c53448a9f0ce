//! How long a key has to wait before it is tried again. Limiters are plain state: they get the time, they never
//! read it, and each has exactly one caller, so they need no lock.

mod bucket;
mod combine;
mod per_item;

pub use bucket::Bucket;
pub use combine::{MaxOf, MaxWait};
pub use per_item::{ExponentialBackoff, FastSlow};

use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// Decides how long a key waits before its next try, and remembers how often it failed.
///
/// The queue calls [`forget`](Self::forget) when a worker says so and when a key leaves the queue altogether.
/// So what a limiter remembers is bounded by the keys that are queued, delayed or being worked on; it needs no
/// clean-up of its own. A limiter that is used without a queue has to be told by its user.
///
/// The queue asks it one question at a time and waits for the answer, so let it be quick, and do not let it call back
/// into its queue.
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<T>: Send {
    /// Counts one more failure of `item` and tells how long it should wait from `now`.
    #[doc(alias = "When")]
    fn when(&mut self, item: &T, now: Instant) -> Duration;

    /// Starts afresh with `item`: it succeeded, or nobody wants it any more.
    #[doc(alias = "Forget")]
    fn forget(&mut self, item: &T);

    /// How often `item` failed since it was last forgotten.
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

/// What controllers use if nothing speaks against it: per key 5 ms, doubling up to 1000 s, and over all keys not
/// more than 10 retries a second after a burst of 100. The numbers are client-go's.
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
