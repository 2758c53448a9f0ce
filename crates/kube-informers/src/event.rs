//! `Event`: something that has already happened to the store.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;

/// One change of the cache, told to handlers after the cache and its indexes hold it.
///
/// Per object the events of one handler have the form (Added Updated* Deleted)*. An update never joins two
/// objects of different UIDs: that is a delete and an add.
#[derive(PartialEq, Eq)]
pub enum Event<K> {
    /// An object appeared.
    #[doc(alias = "OnAdd")]
    Added {
        /// The object.
        object: Arc<K>,
        /// Whether it is part of what was there when the handler joined, or of the informer's first list.
        #[doc(alias = "isInInitialList")]
        initial: bool,
    },
    /// An object changed, or is told again.
    #[doc(alias = "OnUpdate")]
    Updated {
        /// The state this handler was last told.
        old: Arc<K>,
        /// The state now.
        new: Arc<K>,
        /// Nothing changed: the handler asked to be told again from time to time. `old` and `new` are the same.
        resync: bool,
    },
    /// An object is gone.
    #[doc(alias = "OnDelete")]
    Deleted {
        /// Its last state. For [`Cause::Observed`] it carries the version at which it is gone; for the others
        /// it is what the cache held.
        object: Arc<K>,
        /// How we know.
        cause: Cause,
    },
}

/// How a deletion came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The watch said so.
    Observed,
    /// The deletion happened while nobody watched and a later list lacked the object; its last state may be stale.
    #[doc(alias = "DeletedFinalStateUnknown")]
    Missed,
    /// The object lives on, but this handler no longer looks at it: it left a filter, the transform dropped it, or its
    /// namespace or shard was given up.
    LeftScope,
}

impl<K> Event<K> {
    /// The object as it is now, or as it last was.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// Whether this is part of the initial list or snapshot.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Added { initial: true, .. })
    }

    /// Whether nothing changed and the object is merely told again.
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

/// Identity only: events may carry Secrets.
impl<K: Object> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({self})")
    }
}
