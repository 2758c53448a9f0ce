//! `Target`: where a reflector puts what it learns.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::delta::Delta;

/// A boxed future, as the object-safe traits of this crate return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a target did not take a delta.
pub type TargetError = Box<dyn std::error::Error + Send + Sync>;

/// What a [`Reflector`](crate::reflector::Reflector) feeds: a queue of an informer, or a store of your own.
///
/// Deltas come in the order in which the reflector learnt of them, from one task, one at a time.
#[doc(alias = "ReflectorStore")]
pub trait Target<K>: Send + Sync + 'static {
    /// Takes one delta.
    ///
    /// # Errors
    ///
    /// A refused `ReplacedAll` makes the reflector list again after a pause; a refused `SyncAll` ends the
    /// current watch and resumes it; any other refusal is reported and the reflector goes on.
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError>;

    /// Whether more may be put in now. While it says no, the reflector stops reading.
    fn has_room(&self) -> bool {
        true
    }

    /// Waits until [`has_room`](Self::has_room) says yes. Must be cancel-safe.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl<K, T: Target<K> + ?Sized> Target<K> for Arc<T> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        (**self).accept(delta)
    }

    fn has_room(&self) -> bool {
        (**self).has_room()
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        (**self).room()
    }
}
