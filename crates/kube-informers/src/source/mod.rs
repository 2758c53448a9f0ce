//! Where objects come from: the `ListerWatcher` trait, what it is asked and what it answers.
//!
//! A source lists one page or opens one watch when told to. It decides nothing: when to list, from which
//! version and what to do about a failure is the reflector's business.

mod error;
mod listwatch;
mod request;
mod resource;
mod response;
mod script;
mod shard_support;
mod status;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;

use crate::quarantine::BadObject;
use crate::shard::Shard;

pub use error::{ApiError, SourceError, StatusCause};
pub use listwatch::ListWatch;
pub use request::Query;
pub use resource::ResourceType;
pub use script::{ListAnswer, Script, Seen, WatchAnswer};

/// A stream of boxed items, as sources return it.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send + 'static>>;

/// The answer to a list request: items as they arrive, then [`ListItem::End`].
pub type ListStream<K> = BoxStream<Result<ListItem<K>, SourceError>>;

/// The answer to a watch request: what happens, until the stream ends.
pub type WatchStream<K> = BoxStream<Result<WatchItem<K>, SourceError>>;

/// A place objects come from: can list one page of them and can watch them.
///
/// [`ListWatch`] asks an API server; [`Script`] plays what a test wrote down; write your own for anything
/// else. Both calls return at once: establishing the request is part of
/// the stream, and a failure to establish it is the stream's first item. Dropping the stream cancels the
/// request.
pub trait ListerWatcher<K>: Send + Sync + 'static {
    /// Asks for one page of the collection.
    ///
    /// The stream yields [`ListItem::Progress`] as soon as the answer begins (and may do so again to show
    /// that it is alive), then the objects, then exactly one [`ListItem::End`]. An error, or an end without
    /// `End`, makes the page worthless.
    fn list(&self, request: ListRequest, known: Known<K>) -> ListStream<K>;

    /// Opens a watch.
    ///
    /// The stream yields [`WatchItem::Progress`] as soon as the answer begins and then what the server says.
    /// Its end is the clean end of the watch; an error is a broken connection, or the refusal of the request
    /// when nothing came before it.
    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K>;

    /// Whether a watch can deliver the initial list ("watch-list"). Unless told otherwise it is tried and
    /// the outcome is remembered.
    #[doc(alias = "IsWatchListSemanticsUnSupported")]
    fn watch_list(&self) -> WatchListSupport {
        WatchListSupport::Probe
    }

    /// What this source delivers, for logs and errors: `pods in shop`.
    fn describe(&self) -> String {
        "objects".to_owned()
    }

    /// The resource of the API it delivers, where there is one: errors about single objects name it.
    fn resource(&self) -> Option<ResourceType> {
        None
    }

    /// The part of the collection it delivers where a request does not name another; `None` for all of it.
    fn shard(&self) -> Option<Shard> {
        None
    }
}

/// Whether a source can deliver the initial list through a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchListSupport {
    /// Try, fall back to a list when it does not work, and remember that.
    #[default]
    Probe,
    /// Never try.
    Unsupported,
}

/// One list request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ListOptions")]
pub struct ListRequest {
    /// At most so many items; `None` for all of them.
    pub limit: Option<u32>,
    /// Where the previous page ended.
    pub continue_token: Option<String>,
    /// Which version of the collection is wanted: `None` for the newest, `"0"` for any.
    pub resource_version: Option<String>,
    /// How `resource_version` is meant.
    pub version_match: Option<VersionMatch>,
    /// Only objects of this shard. A source that cannot ask for it, or is not understood, may give more: what is
    /// outside is left out later.
    #[doc(alias = "shardSelector")]
    pub shard: Option<Shard>,
}

/// How the resource version of a list request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "ResourceVersionMatch")]
pub enum VersionMatch {
    /// Exactly this version.
    Exact,
    /// This version or a newer one.
    NotOlderThan,
}

/// One watch request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ListOptions")]
pub struct WatchRequest {
    /// Events after this version; `None` only together with `initial_events`.
    pub resource_version: Option<String>,
    /// Send every object first, then a bookmark that marks the end of them.
    #[doc(alias = "sendInitialEvents")]
    pub initial_events: bool,
    /// Send bookmarks from time to time.
    #[doc(alias = "allowWatchBookmarks")]
    pub bookmarks: bool,
    /// After this time the server ends the watch.
    pub timeout: Duration,
    /// As for a list.
    #[doc(alias = "shardSelector")]
    pub shard: Option<Shard>,
}

/// One piece of the answer to a list request.
pub enum ListItem<K> {
    /// The answer has begun, or more bytes of it have arrived.
    Progress {
        /// How many bytes arrived since the last item of this sort.
        bytes: usize,
    },
    /// One object.
    Object(Fetched<K>),
    /// One object that could not be read.
    Unreadable(BadObject),
    /// One object outside the shard that was asked for. It was not decoded.
    Outside,
    /// The page is complete.
    End(ListMeta),
}

/// What a list page says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the collection.
    pub resource_version: Option<String>,
    /// Where the next page begins; `None` when this was the last one (an empty token means the same).
    pub continue_token: Option<String>,
    /// How many objects are left, where the server says so.
    pub remaining: Option<u64>,
    /// The shard the server says it has narrowed the list to.
    #[doc(alias = "shardInfo")]
    pub shard_selector: Option<String>,
}

/// One piece of the answer to a watch request.
pub enum WatchItem<K> {
    /// The answer has begun, or more bytes of it have arrived.
    Progress {
        /// How many bytes arrived since the last item of this sort.
        bytes: usize,
    },
    /// An object is new to the collection.
    Added(Fetched<K>),
    /// An object changed.
    Modified(Fetched<K>),
    /// An object left the collection; it carries the version at which it is gone.
    Deleted(Fetched<K>),
    /// Something happened to an object that could not be read.
    Unreadable {
        /// Whether the object was deleted.
        deleted: bool,
        /// What is known of it.
        object: BadObject,
    },
    /// Something happened to an object outside the shard that was asked for. It was not decoded.
    Outside {
        /// The version of that object.
        resource_version: Option<String>,
        /// Whether the object is new, which is how a watch-list tells what was there before.
        added: bool,
    },
    /// Everything up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: Option<String>,
        /// Whether this ends the initial events.
        initial_events_end: bool,
    },
    /// The server reports a failure inside the stream; it closes the stream afterwards.
    Error(ApiError),
}

/// An object out of a list or watch.
pub enum Fetched<K> {
    /// Decoded just now.
    New(K),
    /// The cache has this version of this very object already: nothing was decoded.
    Unchanged(Arc<K>),
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
        Self::New(object)
    }
}

/// What the cache holds already, so that a source need not decode it again.
///
/// A look-up must answer only with the very version asked for: equal UID and equal resource version, so that
/// using it is a matter of cost and never of meaning.
pub type Known<K> = Option<Arc<dyn KnownObjects<K>>>;

/// See [`Known`].
pub trait KnownObjects<K>: Send + Sync + 'static {
    /// The cached object, if it is of exactly this UID and version.
    fn unchanged(&self, identity: &Identity<'_>) -> Option<Arc<K>>;
}

/// What an object says about itself before it is decoded.
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
