//! Sources of objects: the `ListerWatcher` trait, its requests, and the source that reads from an API server.
//!
//! A source lists one page or opens one watch per call. It makes no decisions: the reflector decides when to list,
//! from which version, and how to react to a failure.

mod functions;
mod get;
mod gzip;
mod identity;
pub(crate) mod listwatch;
mod options;
mod reading;
mod request;
mod resource;
mod response;
#[cfg(any(test, feature = "test-util"))]
mod script;
mod shard_support;

use std::any::Any;
use std::time::Duration;

use futures_core::stream::BoxStream;

use crate::key::ObjectKey;
use crate::shard::Shard;

pub(crate) use crate::codec::EncodingError;
pub use crate::codec::encoding::Encoding;
pub use crate::codec::from_wire::FromWire;
pub use crate::wire::{
    ApiError, Fetched, Identity, Known, KnownObjects, LimitExceeded, ListItem, ListMeta, SourceError,
    StatusCause, WatchItem,
};
pub use functions::FnSource;
pub(crate) use get::get;
pub use identity::ObjectIdentity;
pub(crate) use listwatch::ListWatch;
pub use options::{RequestHook, SourceOptions};
pub use request::Query;
pub use resource::{KnownResource, ResourceType};
#[cfg(any(test, feature = "test-util"))]
pub use script::{Answer, ListAnswer, Script, Seen, WatchAnswer};

/// The response to a list request: the items as they arrive, then [`ListItem::End`].
pub type ListStream<K> = BoxStream<'static, Result<ListItem<K>, SourceError>>;

/// The response to a watch request: the events as they arrive.
pub type WatchStream<K> = BoxStream<'static, Result<WatchItem<K>, SourceError>>;

/// A source of objects that can be listed and watched.
///
/// [`ListWatch`] reads from an API server. Implement the trait for any other source. Both calls return immediately:
/// sending the request is part of the stream, and its failure is the first item. Dropping the stream cancels the
/// request.
#[doc(alias = "ListerWatcherWithContext")]
#[doc(alias = "ListerWithContext")]
#[doc(alias = "Watcher")]
#[doc(alias = "WatcherWithContext")]
#[doc(alias = "ListWithContextFunc")]
#[doc(alias = "WatchFuncWithContext")]
pub trait ListerWatcher<K>: Any + Send + Sync {
    /// Requests one page of the collection.
    ///
    /// The stream yields [`ListItem::Progress`] when the response starts, and again whenever data arrives, then the
    /// objects, then exactly one [`ListItem::End`]. After an error, or an end without `End`, the page is discarded.
    fn list(&self, request: ListRequest, known: Known<K>) -> ListStream<K>;

    /// Opens a watch.
    ///
    /// The stream yields [`WatchItem::Progress`] when the response starts, then the events. The end of the stream is
    /// the regular end of the watch. An error is a lost connection, or a rejected request if it is the first item.
    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K>;

    /// Whether a watch can deliver the initial list ("watch-list"). By default it is tried and the outcome is
    /// remembered.
    #[doc(alias = "IsWatchListSemanticsUnSupported")]
    fn watch_list(&self) -> WatchListSupport {
        WatchListSupport::Probe
    }

    /// Requests one page of the collection without the bodies of the objects, of all objects or of `only` one.
    ///
    /// An informer compares it with its cache, to detect a server whose history was replaced and events that were lost.
    /// `None`, the default, if the source does not support it: the cache is then not verified.
    fn identities(
        &self,
        request: ListRequest,
        only: Option<&ObjectKey>,
    ) -> Option<ListStream<ObjectIdentity>> {
        let _ = (request, only);
        None
    }

    /// A description of the objects for logs and errors: `pods in shop`.
    fn describe(&self) -> String {
        "objects".to_owned()
    }

    /// The API resource of the objects, if any. Errors about single objects name it.
    fn resource(&self) -> Option<ResourceType> {
        None
    }

    /// The only namespace it delivers; `None` if its objects may be in several, or if that is unknown. Objects of other
    /// namespaces are ignored and counted, and callers that wait for an object wait only for the watch of its namespace.
    fn namespace(&self) -> Option<String> {
        None
    }

    /// The shard it delivers if a request names none; `None` for the whole collection.
    fn shard(&self) -> Option<Shard> {
        None
    }
}

/// Whether a source can deliver the initial list through a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchListSupport {
    /// Try it. Fall back to a list if it fails, and remember the failure.
    #[default]
    Probe,
    /// Never try.
    Unsupported,
}

/// One list request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ListOptions")]
pub struct ListRequest {
    /// The maximum number of items; `None` for all of them.
    pub limit: Option<u32>,
    /// The token of the previous page.
    pub continue_token: Option<String>,
    /// The requested version of the collection: `None` for the newest, `"0"` for any.
    pub resource_version: Option<String>,
    /// How `resource_version` is interpreted.
    pub version_match: Option<VersionMatch>,
    /// The requested shard. A source may return more objects: those outside the shard are filtered out later.
    #[doc(alias = "shardSelector")]
    pub shard: Option<Shard>,
}

/// How the resource version of a list request is interpreted.
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
    /// The version after which events are sent. `None` together with `initial_events`, and for a source whose lists carry no
    /// version.
    pub resource_version: Option<String>,
    /// Whether the watch starts with all objects and a bookmark that marks their end.
    #[doc(alias = "sendInitialEvents")]
    pub initial_events: bool,
    /// Whether the server sends bookmarks periodically.
    #[doc(alias = "allowWatchBookmarks")]
    pub bookmarks: bool,
    /// The time after which the server ends the watch.
    pub timeout: Duration,
    /// The requested shard, as for a list.
    #[doc(alias = "shardSelector")]
    pub shard: Option<Shard>,
}
