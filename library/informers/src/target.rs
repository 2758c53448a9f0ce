//! `Target`: the receiver of a reflector's deltas, and `ReflectorStore`: a store as a target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_core::future::BoxFuture;

use crate::delta::{Delta, Replacement};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;

/// Why a target rejected a delta.
pub type TargetError = Box<dyn std::error::Error + Send + Sync>;

/// The receiver of a [`Reflector`](crate::reflector::Reflector)'s deltas: a queue, or a store.
///
/// [`StoreWriter`](crate::store::StoreWriter) is a target. For your own store, implement [`ReflectorStore`], which needs
/// three methods, and wrap it in [`StoreTarget`].
///
/// Deltas arrive in order, from one task.
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

/// A store that a [`Reflector`](crate::reflector::Reflector) fills, in the terms of a store: put, delete, replace.
///
/// Wrap it in [`StoreTarget`]. Share it with readers through an `Arc`.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::delta::Replacement;
/// use kube_informers::reflector::Reflector;
/// use kube_informers::target::{ReflectorStore, StoreTarget, TargetError};
/// use kube_informers::{ListWatch, ObjectKey, Scope};
///
/// /// The phase of every pod, and nothing else.
/// #[derive(Default)]
/// struct Phases(Mutex<BTreeMap<ObjectKey, String>>);
///
/// fn phase(pod: &Pod) -> String {
///     pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
/// }
///
/// impl ReflectorStore<Pod> for Phases {
///     fn put(&self, pod: Arc<Pod>) -> Result<(), TargetError> {
///         self.0.lock().unwrap().insert(ObjectKey::of(&*pod), phase(&pod));
///         Ok(())
///     }
///
///     fn delete(&self, key: &ObjectKey, _last: Option<&Arc<Pod>>) -> Result<(), TargetError> {
///         self.0.lock().unwrap().remove(key);
///         Ok(())
///     }
///
///     fn replace_all(&self, list: Replacement<Pod>) -> Result<(), TargetError> {
///         let pods = list.objects.iter().map(|pod| (ObjectKey::of(&**pod), phase(pod)));
///         *self.0.lock().unwrap() = pods.collect();
///         Ok(())
///     }
/// }
///
/// # fn example(client: kube::Client) {
/// let phases = Arc::new(Phases::default());
/// let reflector = Reflector::new(ListWatch::<Pod>::new(client, Scope::all()), StoreTarget(phases.clone()));
/// # }
/// ```
#[doc(alias = "ReflectorBookmarkStore")]
#[doc(alias = "ResourceVersionUpdater")]
pub trait ReflectorStore<K>: Send + Sync + 'static {
    /// An object is new or has changed.
    ///
    /// # Errors
    ///
    /// The object is not stored. The error is logged and counted, and the next change follows.
    #[doc(alias = "Add")]
    #[doc(alias = "Update")]
    fn put(&self, object: Arc<K>) -> Result<(), TargetError>;

    /// An object was deleted, or dropped by the transform. `last` is its last state, if that could be read.
    ///
    /// # Errors
    ///
    /// As for [`put`](Self::put).
    #[doc(alias = "Delete")]
    fn delete(&self, key: &ObjectKey, last: Option<&Arc<K>>) -> Result<(), TargetError>;

    /// The whole collection. Objects that are not in it are gone, except those in [`Replacement::unreadable`]: they exist,
    /// but their newest state could not be read.
    ///
    /// # Errors
    ///
    /// The list is requested again after a delay.
    #[doc(alias = "Replace")]
    fn replace_all(&self, list: Replacement<K>) -> Result<(), TargetError>;

    /// The newest state of an object could not be read. By default its last state stays.
    ///
    /// # Errors
    ///
    /// As for [`put`](Self::put).
    fn unreadable(&self, object: BadObject) -> Result<(), TargetError> {
        let _ = object;
        Ok(())
    }

    /// Called once per resync period, if [one is set](crate::reflector::ReflectorConfig::resync). Does nothing by default.
    ///
    /// # Errors
    ///
    /// The current watch is ended and resumed.
    #[doc(alias = "Resync")]
    fn resync(&self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Everything up to this version has been received. Called for bookmarks only; objects carry their version.
    #[doc(alias = "UpdateResourceVersion")]
    fn bookmark(&self, resource_version: &str) {
        let _ = resource_version;
    }
}

impl<K, S: ReflectorStore<K> + ?Sized> ReflectorStore<K> for Arc<S> {
    fn put(&self, object: Arc<K>) -> Result<(), TargetError> {
        (**self).put(object)
    }

    fn delete(&self, key: &ObjectKey, last: Option<&Arc<K>>) -> Result<(), TargetError> {
        (**self).delete(key, last)
    }

    fn replace_all(&self, list: Replacement<K>) -> Result<(), TargetError> {
        (**self).replace_all(list)
    }

    fn unreadable(&self, object: BadObject) -> Result<(), TargetError> {
        (**self).unreadable(object)
    }

    fn resync(&self) -> Result<(), TargetError> {
        (**self).resync()
    }

    fn bookmark(&self, resource_version: &str) {
        (**self).bookmark(resource_version);
    }
}

/// Makes a [`ReflectorStore`] the target of a reflector.
///
/// A panic of the store counts as an error of that call: a panic in `put` costs one object, and the reflector
/// continues.
#[derive(Clone, Copy, Debug)]
pub struct StoreTarget<S>(
    /// The store.
    pub S,
);

impl<K: Object, S: ReflectorStore<K>> Target<K> for StoreTarget<S> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        store_delta(&self.0, delta)
    }
}

/// Calls the method of a store that corresponds to a delta.
pub(crate) fn store_delta<K: Object>(
    store: &impl ReflectorStore<K>,
    delta: Delta<K>,
) -> Result<(), TargetError> {
    let key = delta.key();
    let name = delta.name();
    let stored = catch_unwind(AssertUnwindSafe(|| match delta {
        Delta::Added(object) | Delta::Updated(object) => store.put(object),
        Delta::ReplacedAll(list) => store.replace_all(list),
        Delta::SyncAll => store.resync(),
        Delta::Bookmark { resource_version } => {
            store.bookmark(&resource_version);
            Ok(())
        }
        Delta::Unreadable(object) => store.unreadable(object),
        Delta::Deleted(_) | Delta::DeletedUnreadable(_) | Delta::Dropped { .. } => match &key {
            Some(key) => store.delete(key, delta.object()),
            None => Err("the deleted object has no readable name".into()),
        },
    }));
    stored.unwrap_or_else(|_| match &key {
        Some(key) => Err(format!("the store panicked on {name} of {key}").into()),
        None => Err(format!("the store panicked on {name}").into()),
    })
}
