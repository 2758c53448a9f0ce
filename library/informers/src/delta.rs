//! `Delta`: one change, as emitted by a reflector. The input of queues and store.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::shard::Shard;

/// One change on its way from the reflector to the store.
///
/// The reflector emits it, the queue passes it on unchanged, and the store turns it into events.
#[doc(alias = "Deltas")]
#[doc(alias = "ReplacedAllInfo")]
#[doc(alias = "SyncAllInfo")]
#[doc(alias = "BookmarkInfo")]
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
    /// The transform dropped the newest state of an object that still exists. The cache must not hold it.
    Dropped {
        /// The key of the object.
        key: ObjectKey,
        /// The dropped version.
        resource_version: Option<String>,
    },
    /// A whole list.
    ReplacedAll(Replacement<K>),
    /// A resync: every object is delivered again, unchanged.
    SyncAll,
    /// All changes up to this version have been received.
    Bookmark {
        /// The version.
        resource_version: String,
    },
}

/// The collection at one resource version.
pub struct Replacement<K> {
    /// The objects, in the order of the list.
    pub objects: Vec<Arc<K>>,
    /// The objects of the list that could not be decoded. They exist, so their last good versions are kept.
    pub unreadable: Vec<BadObject>,
    /// The version of the list; `None` if the source has no versions.
    pub resource_version: Option<String>,
    /// The shard of the list; `None` for the whole collection.
    pub shard: Option<Shard>,
}

impl<K> Delta<K> {
    /// The object, if the delta carries one.
    pub fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) => Some(object),
            _ => None,
        }
    }

    /// Whether this removes one object.
    pub fn is_deletion(&self) -> bool {
        matches!(
            self,
            Self::Deleted(_) | Self::DeletedUnreadable(_) | Self::Dropped { .. }
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
            Self::ReplacedAll(_) => "ReplacedAll",
            Self::SyncAll => "SyncAll",
            Self::Bookmark { .. } => "Bookmark",
        }
    }
}

impl<K: Object> Delta<K> {
    /// The key of the object; `None` for deltas that concern the whole collection.
    #[doc(alias = "KeyOf")]
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
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
