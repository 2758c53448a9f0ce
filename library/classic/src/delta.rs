//! `Delta`: one change of one object, as a `DeltaFifo` returns it.

use std::fmt;
use std::sync::Arc;

use kube_informers::quarantine::BadObject;
use kube_informers::{Object, ObjectKey};

/// One change of one object, or the version that has been reached.
///
/// A reflector delivers a list and a resync as one [delta of the library](kube_informers::delta::Delta). A
/// [`DeltaFifo`](crate::DeltaFifo) splits them into one `Replaced`, `ReplacedUnreadable`, `Vanished` or `Sync` per object,
/// and passes on the others.
#[doc(alias = "Deltas")]
#[doc(alias = "DeltaType")]
#[non_exhaustive]
pub enum Delta<K> {
    /// A watch event: the object is new.
    Added(Arc<K>),
    /// A watch event: the object has changed.
    Updated(Arc<K>),
    /// A watch event: the object was deleted. It carries the version of the deletion.
    Deleted(Arc<K>),
    /// A watch event: an object that could not be decoded was deleted. The key was read from its metadata.
    DeletedUnreadable(BadObject),
    /// A watch event: the object could not be decoded.
    Unreadable(BadObject),
    /// The transform dropped the newest state of an object that still exists. The consumer must not hold it.
    Dropped {
        /// The key of the object.
        key: ObjectKey,
        /// The dropped version.
        resource_version: Option<String>,
    },
    /// One object of a list.
    Replaced(Arc<K>),
    /// One object of a list that could not be decoded. Unlike `Unreadable` it is authoritative even if its version is lower
    /// than the known one, as after a server was restored from a backup.
    ReplacedUnreadable(BadObject),
    /// The object is missing from a list: it was deleted, and the delete was missed.
    Vanished(Tombstone<K>),
    /// One object of a resync.
    Sync(Arc<K>),
    /// All changes up to this version have been popped.
    Bookmark {
        /// The version.
        resource_version: String,
    },
}

/// An object whose deletion was missed.
#[doc(alias = "DeletedFinalStateUnknown")]
pub struct Tombstone<K> {
    /// The key of the object.
    pub key: ObjectKey,
    /// Its last known state, possibly stale; `None` if there is none.
    pub last: Option<Arc<K>>,
}

impl<K> Delta<K> {
    /// The object, if the delta carries one.
    pub fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::Replaced(object)
            | Self::Sync(object) => Some(object),
            Self::Vanished(tombstone) => tombstone.last.as_ref(),
            _ => None,
        }
    }

    /// The object that could not be decoded, if the delta is about one.
    pub(crate) fn unreadable(&self) -> Option<&BadObject> {
        match self {
            Self::DeletedUnreadable(bad) | Self::Unreadable(bad) | Self::ReplacedUnreadable(bad) => Some(bad),
            _ => None,
        }
    }

    /// Whether this removes the object.
    pub fn is_deletion(&self) -> bool {
        matches!(
            self,
            Self::Deleted(_) | Self::DeletedUnreadable(_) | Self::Vanished(_) | Self::Dropped { .. }
        )
    }

    /// The name of the variant, for logs and tests.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Added(_) => "Added",
            Self::Updated(_) => "Updated",
            Self::Deleted(_) => "Deleted",
            Self::DeletedUnreadable(_) => "DeletedUnreadable",
            Self::Unreadable(_) => "Unreadable",
            Self::Dropped { .. } => "Dropped",
            Self::Replaced(_) => "Replaced",
            Self::ReplacedUnreadable(_) => "ReplacedUnreadable",
            Self::Vanished(_) => "Vanished",
            Self::Sync(_) => "Sync",
            Self::Bookmark { .. } => "Bookmark",
        }
    }
}

impl<K: Object> Delta<K> {
    /// The key of the object by namespace and name; `None` for a bookmark and for an object without a readable name.
    #[doc(alias = "KeyOf")]
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Vanished(tombstone) => Some(tombstone.key.clone()),
            Self::Dropped { key, .. } => Some(key.clone()),
            other => match other.unreadable() {
                Some(bad) => bad.key.clone(),
                None => other.object().map(|object| ObjectKey::of(&**object)),
            },
        }
    }
}

impl<K> Clone for Delta<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated(object) => Self::Updated(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::DeletedUnreadable(bad) => Self::DeletedUnreadable(bad.clone()),
            Self::Unreadable(bad) => Self::Unreadable(bad.clone()),
            Self::Dropped {
                key,
                resource_version,
            } => Self::Dropped {
                key: key.clone(),
                resource_version: resource_version.clone(),
            },
            Self::Replaced(object) => Self::Replaced(object.clone()),
            Self::ReplacedUnreadable(bad) => Self::ReplacedUnreadable(bad.clone()),
            Self::Vanished(tombstone) => Self::Vanished(Tombstone {
                key: tombstone.key.clone(),
                last: tombstone.last.clone(),
            }),
            Self::Sync(object) => Self::Sync(object.clone()),
            Self::Bookmark { resource_version } => Self::Bookmark {
                resource_version: resource_version.clone(),
            },
        }
    }
}

/// Keys and versions only: objects may be Secrets.
impl<K: Object> fmt::Debug for Delta<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.key()) {
            (Self::Bookmark { resource_version }, _) => write!(f, "Bookmark({resource_version})"),
            (_, Some(key)) => write!(f, "{}({key})", self.name()),
            (_, None) => f.write_str(self.name()),
        }
    }
}

impl<K> fmt::Debug for Tombstone<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstone")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
