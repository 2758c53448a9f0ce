//! The types between bytes and deltas: the items of a list, the events of a watch, and the errors of both.
//!
//! A codec produces them, a source passes them on, a reflector consumes them. They carry no trace of the
//! encoding they were decoded from.

mod cause;
mod error;
mod limit;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::quarantine::BadObject;

pub(crate) use error::retry_after;
pub use error::{ApiError, SourceError, StatusCause};
pub use limit::LimitExceeded;

/// One item of the response to a list request.
#[derive(Debug)]
pub enum ListItem<K> {
    /// The response has started, or more bytes of it have arrived.
    Progress {
        /// The number of bytes received since the previous `Progress`.
        bytes: usize,
    },
    /// One object.
    Object(Fetched<K>),
    /// One object that could not be decoded.
    Unreadable(BadObject),
    /// One object outside the requested shard. It was not decoded.
    Outside,
    /// The page is complete.
    End(ListMeta),
}

/// The metadata of a list page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the collection.
    pub resource_version: Option<String>,
    /// The token of the next page. `None` on the last page; an empty token means the same.
    pub continue_token: Option<String>,
    /// The number of objects on later pages, if the server reports it.
    pub remaining: Option<u64>,
    /// The shard selector the server reports to have applied.
    #[doc(alias = "shardInfo")]
    pub shard_selector: Option<String>,
}

/// One item of the response to a watch request.
#[derive(Debug)]
pub enum WatchItem<K> {
    /// The response has started, or more bytes of it have arrived.
    Progress {
        /// The number of bytes received since the previous `Progress`.
        bytes: usize,
    },
    /// An object was added to the collection.
    Added(Fetched<K>),
    /// An object changed.
    Modified(Fetched<K>),
    /// An object left the collection. It carries the version of the deletion.
    Deleted(Fetched<K>),
    /// An event about an object that could not be decoded.
    Unreadable {
        /// Whether the object was deleted.
        deleted: bool,
        /// The identity of the object, as far as it could be read.
        object: BadObject,
    },
    /// An event about an object outside the requested shard. It was not decoded.
    Outside {
        /// The version of that object.
        resource_version: Option<String>,
        /// Whether the event was `ADDED`. The initial events of a watch-list are.
        added: bool,
    },
    /// All events up to this version have been sent.
    Bookmark {
        /// The version.
        resource_version: Option<String>,
        /// Whether this bookmark ends the initial events.
        initial_events_end: bool,
    },
    /// The server reports a failure inside the stream and closes the stream afterwards.
    Error(ApiError),
}

/// An object of a list or watch.
pub enum Fetched<K> {
    /// A newly decoded object. Boxed, because it is passed on several times and a pod is 2.4 kB.
    New(Box<K>),
    /// The cache already holds this version of the object, so it was not decoded.
    Unchanged(Arc<K>),
}

/// Without the object, which may be a Secret.
impl<K> fmt::Debug for Fetched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New(_) => "New",
            Self::Unchanged(_) => "Unchanged",
        })
    }
}

impl<K> Fetched<K> {
    /// The object.
    pub fn object(&self) -> &K {
        match self {
            Self::New(object) => object,
            Self::Unchanged(object) => object,
        }
    }
}

impl<K> From<K> for Fetched<K> {
    fn from(object: K) -> Self {
        Self::New(Box::new(object))
    }
}

/// The objects the cache already holds, which a source need not decode again.
///
/// A lookup returns only an object of exactly the requested UID and resource version. Using it therefore changes
/// the cost of a list, never its result.
pub type Known<K> = Option<Arc<dyn KnownObjects<K>>>;

/// See [`Known`].
pub trait KnownObjects<K>: Send + Sync + 'static {
    /// Returns the cached object, if it has exactly this UID and version.
    fn unchanged(&self, identity: &Identity<'_>) -> Option<Arc<K>>;
}

/// The identity of an object, read before the object is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The namespace, if any.
    pub namespace: Option<Cow<'a, str>>,
    /// The name.
    pub name: Cow<'a, str>,
    /// The UID, if any.
    pub uid: Option<Cow<'a, str>>,
    /// The resource version, if any.
    pub resource_version: Option<Cow<'a, str>>,
}
