//! `Delta`: one thing the reflector learnt, in the order it learnt it. The input of queues and store.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::shard::Shard;

/// One change on its way to the store.
///
/// The reflector emits `Added`, `Updated`, `Deleted`, `DeletedUnreadable`, `Unreadable`, `Dropped`,
/// `ReplacedAll`, `SyncAll` and `Bookmark`. [`InOrderQueue`](crate::queue::InOrderQueue) passes them on as they are;
/// [`DeltaFifo`](crate::queue::DeltaFifo) takes `ReplacedAll` and `SyncAll` apart into `Replaced`, `Vanished`
/// and `Sync`, one per object.
#[doc(alias = "DeltaType")]
#[non_exhaustive]
pub enum Delta<K> {
    /// The watch announced a new object.
    Added(Arc<K>),
    /// The watch announced a changed object.
    Updated(Arc<K>),
    /// The watch announced a deletion; the object carries the version at which it is gone.
    Deleted(Arc<K>),
    /// The watch announced a deletion whose body could not be read; the key was skimmed from its metadata.
    DeletedUnreadable(BadObject),
    /// The watch announced an object that could not be read.
    Unreadable(BadObject),
    /// The object lives on, but its newest state was dropped by the transform: the cache no longer holds it.
    Dropped {
        /// Which object.
        key: ObjectKey,
        /// The version that was dropped.
        resource_version: Option<String>,
    },
    /// One object of a list.
    Replaced(Arc<K>),
    /// A list lacked this object: it was deleted while nobody watched.
    Vanished(Tombstone<K>),
    /// One object is to be told again although nothing changed.
    Sync(Arc<K>),
    /// A whole list.
    ReplacedAll(Replacement<K>),
    /// Every object is to be told again although nothing changed.
    SyncAll,
    /// Everything up to this version has been seen.
    Bookmark {
        /// The version.
        resource_version: String,
    },
}

/// The collection at one resource version.
pub struct Replacement<K> {
    /// The objects, in the order of the list.
    pub objects: Vec<Arc<K>>,
    /// Objects of the list that could not be read; they exist, so their last good versions stay.
    pub unreadable: Vec<BadObject>,
    /// The version of the list; `None` when the source has no versions.
    pub resource_version: Option<String>,
    /// The shard the collection was narrowed to; `None` when it was not.
    pub shard: Option<Shard>,
}

/// What is left of an object whose deletion was missed.
#[doc(alias = "DeletedFinalStateUnknown")]
pub struct Tombstone<K> {
    /// Which object.
    pub key: ObjectKey,
    /// Its last known state, possibly stale; `None` if it was never seen.
    pub last: Option<Arc<K>>,
}

impl<K> Delta<K> {
    /// The object, where the delta is about one and it is known.
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

    /// Whether this says that one object is gone.
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
            Self::Vanished(_) => "Vanished",
            Self::Sync(_) => "Sync",
            Self::ReplacedAll(_) => "ReplacedAll",
            Self::SyncAll => "SyncAll",
            Self::Bookmark { .. } => "Bookmark",
        }
    }
}

impl<K: Object> Delta<K> {
    /// The key of the object this is about; `None` for deltas about the whole collection.
    #[doc(alias = "KeyOf")]
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Vanished(tombstone) => Some(tombstone.key.clone()),
            Self::Dropped { key, .. } => Some(key.clone()),
            Self::DeletedUnreadable(bad) | Self::Unreadable(bad) => bad.key.clone(),
            other => other.object().map(|object| ObjectKey::of(&**object)),
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
            Self::Vanished(tombstone) => Self::Vanished(tombstone.clone()),
            Self::Sync(object) => Self::Sync(object.clone()),
            Self::ReplacedAll(replacement) => Self::ReplacedAll(replacement.clone()),
            Self::SyncAll => Self::SyncAll,
            Self::Bookmark { resource_version } => Self::Bookmark {
                resource_version: resource_version.clone(),
            },
        }
    }
}

impl<K> Clone for Replacement<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            unreadable: self.unreadable.clone(),
            resource_version: self.resource_version.clone(),
            shard: self.shard.clone(),
        }
    }
}

impl<K> Clone for Tombstone<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            last: self.last.clone(),
        }
    }
}

/// Keys and versions only: objects may be Secrets.
impl<K: Object> fmt::Debug for Delta<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |object: &Arc<K>| ObjectKey::of(&**object).to_string();
        match self {
            Self::Added(object) => write!(f, "Added({})", key(object)),
            Self::Updated(object) => write!(f, "Updated({})", key(object)),
            Self::Deleted(object) => write!(f, "Deleted({})", key(object)),
            Self::DeletedUnreadable(bad) => write!(f, "DeletedUnreadable({bad:?})"),
            Self::Unreadable(bad) => write!(f, "Unreadable({bad:?})"),
            Self::Dropped { key, .. } => write!(f, "Dropped({key})"),
            Self::Replaced(object) => write!(f, "Replaced({})", key(object)),
            Self::Vanished(tombstone) => write!(f, "Vanished({})", tombstone.key),
            Self::Sync(object) => write!(f, "Sync({})", key(object)),
            Self::ReplacedAll(list) => write!(f, "ReplacedAll({list:?})"),
            Self::SyncAll => f.write_str("SyncAll"),
            Self::Bookmark { resource_version } => write!(f, "Bookmark({resource_version})"),
        }
    }
}

impl<K> fmt::Debug for Replacement<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement")
            .field("objects", &self.objects.len())
            .field("unreadable", &self.unreadable)
            .field("resource_version", &self.resource_version)
            .field("shard", &self.shard)
            .finish()
    }
}

impl<K> fmt::Debug for Tombstone<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstone")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
