//! `Target`: the receiver of a reflector's deltas.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use crate::delta::Delta;

/// Why a target rejected a delta.
pub type TargetError = Box<dyn std::error::Error + Send + Sync>;

/// The receiver of a [`Reflector`](crate::reflector::Reflector)'s deltas: the queue of an informer, or a store of your own.
///
/// Deltas arrive in order, from one task.
#[doc(alias = "ReflectorStore")]
pub trait Target<K>: Send + Sync + 'static {
    /// Receives one delta.
    ///
    /// # Errors
    ///
    /// If a `ReplacedAll` is rejected, the reflector lists again after a delay. If a `SyncAll` is rejected, it ends the
    /// current watch and resumes it. Any other rejected delta is logged and skipped.
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError>;

    /// Receives deltas that arrived together, in order. Returns the errors of those it rejected.
    ///
    /// By default each of them is [accepted](Self::accept). Implement it if one call for many deltas is cheaper, because
    /// of a lock or a wake-up.
    fn accept_all(&self, deltas: &mut dyn Iterator<Item = Delta<K>>) -> Vec<TargetError> {
        deltas.filter_map(|delta| self.accept(delta).err()).collect()
    }

    /// Whether the target has room for more deltas. While it has none, the reflector does not read.
    fn has_room(&self) -> bool {
        true
    }

    /// Waits until [`has_room`](Self::has_room) returns true. Must be cancel-safe.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl<K, T: Target<K> + ?Sized> Target<K> for Arc<T> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        (**self).accept(delta)
    }

    fn accept_all(&self, deltas: &mut dyn Iterator<Item = Delta<K>>) -> Vec<TargetError> {
        (**self).accept_all(deltas)
    }

    fn has_room(&self) -> bool {
        (**self).has_room()
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        (**self).room()
    }
}
