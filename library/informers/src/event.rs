//! `Event`: one change that the store has already applied.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;

/// One change of the cache, delivered to handlers after the cache and its indexes hold it.
///
/// Per object, the events of one handler have the form (Added Updated* Deleted)*. The old and the new state of an update
/// have the same UID; an object replaced by another of the same name is a delete and an add.
#[derive(PartialEq, Eq)]
pub enum Event<K> {
    /// An object appeared.
    #[doc(alias = "OnAdd")]
    Added {
        /// The object.
        object: Arc<K>,
        /// Whether it is part of the informer's initial list, or of the snapshot that a late handler receives.
        #[doc(alias = "isInInitialList")]
        initial: bool,
    },
    /// An object changed, or is delivered again by a resync.
    #[doc(alias = "OnUpdate")]
    Updated {
        /// The state that this handler last received.
        old: Arc<K>,
        /// The current state.
        new: Arc<K>,
        /// A resync: nothing changed, and `old` and `new` are the same `Arc`.
        resync: bool,
    },
    /// An object was deleted, or left the scope of this handler.
    #[doc(alias = "OnDelete")]
    Deleted {
        /// Its last state. For [`Cause::Observed`] its resource version is that of the deletion; otherwise it is the
        /// state that the cache held.
        object: Arc<K>,
        /// How the deletion became known.
        cause: Cause,
    },
}

/// How a deletion became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The watch reported it.
    Observed,
    /// A missed delete: it happened while no watch was open, and a later list lacked the object. Its last state may be
    /// stale.
    #[doc(alias = "DeletedObject")]
    #[doc(alias = "DeletedFinalStateUnknown")]
    Missed,
    /// The object still exists, but this handler no longer receives it: it stopped matching a filter, the transform
    /// dropped it, or its namespace or shard was given up.
    LeftScope,
}

impl<K> Event<K> {
    /// The current state of the object, or its last state if it was deleted.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Whether this is part of the initial list or of a late handler's snapshot.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Added { initial: true, .. })
    }

    /// Whether this is a resync.
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { resync: true, .. })
    }
}

impl<K: Object> Event<K> {
    /// The key of the object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(&**self.object())
    }
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added {
                object: object.clone(),
                initial: *initial,
            },
            Self::Updated { old, new, resync } => Self::Updated {
                old: old.clone(),
                new: new.clone(),
                resync: *resync,
            },
            Self::Deleted { object, cause } => Self::Deleted {
                object: object.clone(),
                cause: *cause,
            },
        }
    }
}

/// `added shop/cart (initial)`, `updated shop/cart 7 -> 9`, `deleted shop/cart (missed)`.
impl<K: Object> fmt::Display for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { initial: true, .. } => write!(f, "added {} (initial)", self.key()),
            Self::Added { .. } => write!(f, "added {}", self.key()),
            Self::Updated { resync: true, .. } => write!(f, "updated {} (resync)", self.key()),
            Self::Updated { old, new, .. } => write!(
                f,
                "updated {} {} -> {}",
                self.key(),
                old.object_version().unwrap_or("?"),
                new.object_version().unwrap_or("?")
            ),
            Self::Deleted {
                cause: Cause::Observed,
                ..
            } => write!(f, "deleted {}", self.key()),
            Self::Deleted {
                cause: Cause::Missed, ..
            } => write!(f, "deleted {} (missed)", self.key()),
            Self::Deleted {
                cause: Cause::LeftScope,
                ..
            } => write!(f, "deleted {} (left scope)", self.key()),
        }
    }
}

/// Key and versions only: events may carry Secrets.
impl<K: Object> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({self})")
    }
}
