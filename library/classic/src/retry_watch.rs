//! `RetryWatch`: a watch that resumes, without a cache.
//!
//! A reflector does the work. Its source answers each list itself, with no objects and the last version, so that the
//! collection is never listed and each watch starts where the previous one ended.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use kube_informers::Object;
use kube_informers::delta::Delta;
use kube_informers::reflector::{Reflector, ReflectorConfig};
use kube_informers::shard::Shard;
use kube_informers::source::{
    Known, ListItem, ListMeta, ListRequest, ListStream, ListerWatcher, ResourceType, SourceError, WatchItem,
    WatchListSupport, WatchRequest, WatchStream,
};
use kube_informers::target::{Target, TargetError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The number of changes that are read ahead of the reader.
const CAPACITY: usize = 100;

/// The version cannot be the start of a watch that misses nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a watch cannot be resumed from version {0:?}: list the collection first and use the version of the list"
)]
pub struct StartVersionError(String);

/// Follows a collection from a known version, as a stream of changes, without listing it and without a cache.
///
/// For programs that wait for something to happen to one object, or copy changes elsewhere. It reconnects at the last
/// received version, with the delays and deadlines of a reflector and its limit of requests per minute, so every change
/// after the start version is delivered once, in order. Bookmarks move the version and are not delivered.
///
/// The stream yields [`Delta::Added`], [`Updated`](Delta::Updated) and [`Deleted`](Delta::Deleted), and
/// [`Unreadable`](Delta::Unreadable) or [`DeletedUnreadable`](Delta::DeletedUnreadable) for objects that could not be decoded.
/// It ends after an error that no retry can repair: the version has expired (list again and start over), the request is
/// rejected (400, 401, 403, 404, 422), or an object has no version. All other failures are retried forever. Dropping the
/// stream closes the watch.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::reflector::Pager;
/// use kube_informers::{ListWatch, Scope};
/// use kube_informers_classic::RetryWatch;
/// use kube_testserver::{TestServer, builders::pod};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let server = TestServer::new();
/// let source = ListWatch::<Pod>::new(server.client(), Scope::all());
/// let list = Pager::new(source.clone()).list().await?;
///
/// let mut changes = RetryWatch::new(source, list.resource_version.as_deref().unwrap_or_default())?;
/// server.create(pod("shop", "cart"));
/// assert_eq!(changes.next().await.unwrap()?.name(), "Added");
/// server.break_watches();
/// server.delete::<Pod>("shop", "cart");
/// assert_eq!(changes.next().await.unwrap()?.name(), "Deleted");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Differs from client-go: an expired version ends the watch even if the server reports it when the watch is opened;
/// client-go then retries forever.
#[doc(alias = "ErrWatchClosed")]
#[doc(alias = "RetryWatcher")]
#[doc(alias = "NewRetryWatcher")]
#[doc(alias = "NewRetryWatcherWithContext")]
#[must_use = "a stream does nothing until it is polled"]
pub struct RetryWatch<K> {
    /// The reflector; `None` after the end.
    running: Option<BoxFuture<'static, ()>>,
    received: Arc<Received<K>>,
    version: String,
}

impl<K: Object> RetryWatch<K> {
    /// Watches a collection from a version, usually that of a list.
    ///
    /// # Errors
    ///
    /// The version is empty or `"0"`, which mean "any version".
    pub fn new(source: impl ListerWatcher<K>, resource_version: &str) -> Result<Self, StartVersionError> {
        Self::with_config(source, resource_version, ReflectorConfig::default())
    }

    /// The same with other delays and deadlines.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_config(
        source: impl ListerWatcher<K>,
        resource_version: &str,
        config: ReflectorConfig,
    ) -> Result<Self, StartVersionError> {
        if matches!(resource_version, "" | "0") {
            return Err(StartVersionError(resource_version.to_owned()));
        }
        let version = resource_version.to_owned();
        let received = Arc::new(Received {
            inner: Mutex::new(Inner {
                changes: VecDeque::new(),
                version: version.clone(),
                error: None,
            }),
            taken: Notify::new(),
        });
        let source = WatchOnly {
            source,
            received: received.clone(),
        };
        let reflector = Reflector::new(source, received.clone()).config(ReflectorConfig {
            // Without a cache there is nothing to deliver again.
            resync: None,
            ..config
        });
        Ok(Self {
            running: Some(reflector.run(CancellationToken::new()).boxed()),
            received,
            version,
        })
    }

    /// The version from which the watch would resume: everything up to it has been delivered.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn resource_version(&self) -> &str {
        &self.version
    }

    /// The next change; `None` after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Delta<K>, SourceError>> {
        StreamExt::next(self).await
    }

    /// What was received and not delivered yet. Skips bookmarks.
    fn deliver(&mut self) -> Option<Result<Delta<K>, SourceError>> {
        let mut inner = self.received.inner.lock();
        while let Some(change) = inner.changes.pop_front() {
            self.received.taken.notify_waiters();
            if let Some(version) = version_of(&change) {
                version.clone_into(&mut self.version);
            }
            if !matches!(change, Delta::Bookmark { .. }) {
                return Some(Ok(change));
            }
        }
        inner.error.take().map(Err)
    }
}

impl<K: Object> Stream for RetryWatch<K> {
    type Item = Result<Delta<K>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut change = self.deliver();
        if change.is_none() {
            let Some(running) = &mut self.running else {
                return Poll::Ready(None);
            };
            // It never ends by itself.
            let _ = running.poll_unpin(cx);
            change = self.deliver();
        }
        match change {
            Some(Err(error)) => {
                self.running = None;
                Poll::Ready(Some(Err(error)))
            }
            Some(change) => Poll::Ready(Some(change)),
            None => Poll::Pending,
        }
    }
}

impl<K> fmt::Debug for RetryWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatch")
            .field("resource_version", &self.version)
            .finish_non_exhaustive()
    }
}

/// What the reflector has received and the reader has not.
struct Received<K> {
    inner: Mutex<Inner<K>>,
    /// The reader has taken a change.
    taken: Notify,
}

struct Inner<K> {
    changes: VecDeque<Delta<K>>,
    /// The version of the last change or bookmark.
    version: String,
    /// The error that ends the watch.
    error: Option<SourceError>,
}

impl<K: Object> Target<K> for Received<K> {
    fn accept(&self, delta: Delta<K>) -> Result<(), TargetError> {
        let mut inner = self.inner.lock();
        match delta {
            // Without objects: the answer of `WatchOnly`.
            Delta::ReplacedAll(_) => {}
            delta => {
                if let Some(version) = version_of(&delta) {
                    version.clone_into(&mut inner.version);
                }
                inner.changes.push_back(delta);
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.inner.lock().changes.len() < CAPACITY
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                // Created before the check, so that no change in between is missed.
                let taken = self.taken.notified();
                if self.has_room() {
                    return;
                }
                taken.await;
            }
        })
    }
}

/// The version of a change or bookmark, if it has one.
fn version_of<K: Object>(delta: &Delta<K>) -> Option<&str> {
    let version = match delta {
        Delta::Bookmark { resource_version } => Some(resource_version.as_str()),
        Delta::Unreadable(bad) | Delta::DeletedUnreadable(bad) => bad.resource_version.as_deref(),
        other => other.object().and_then(|object| object.object_version()),
    };
    version.filter(|version| !version.is_empty())
}

/// A source whose lists are empty, and whose watches stay silent after an error that no retry can repair.
struct WatchOnly<S, K> {
    source: S,
    received: Arc<Received<K>>,
}

impl<K: Object, S: ListerWatcher<K>> ListerWatcher<K> for WatchOnly<S, K> {
    fn list(&self, _: ListRequest, _: Known<K>) -> ListStream<K> {
        let end = ListItem::End(ListMeta {
            resource_version: Some(self.received.inner.lock().version.clone()),
            ..ListMeta::default()
        });
        stream::iter([Ok(end)]).boxed()
    }

    fn watch(&self, request: WatchRequest, known: Known<K>) -> WatchStream<K> {
        let (received, resource) = (self.received.clone(), self.source.describe());
        let items = self.source.watch(request, known);
        let checked = items.scan((), move |(), item| {
            let checked = check(item, &resource).map_err(|error| received.inner.lock().error = Some(error));
            async {
                match checked {
                    Ok(item) => Some(item),
                    Err(()) => std::future::pending().await,
                }
            }
        });
        checked.boxed()
    }

    fn watch_list(&self) -> WatchListSupport {
        WatchListSupport::Unsupported
    }

    fn describe(&self) -> String {
        self.source.describe()
    }

    fn resource(&self) -> Option<ResourceType> {
        self.source.resource()
    }

    fn namespace(&self) -> Option<String> {
        self.source.namespace()
    }

    fn shard(&self) -> Option<Shard> {
        self.source.shard()
    }
}

/// An item to pass on, or the error that ends the watch.
fn check<K: Object>(
    item: Result<WatchItem<K>, SourceError>,
    resource: &str,
) -> Result<Result<WatchItem<K>, SourceError>, SourceError> {
    match item {
        Err(error) if is_final(&error) => Err(error),
        Ok(WatchItem::Error(error)) => {
            let error = SourceError::from(error);
            match (is_final(&error), error) {
                (false, SourceError::Api(error)) => Ok(Ok(WatchItem::Error(error))),
                (_, error) => Err(error),
            }
        }
        Ok(WatchItem::Added(object) | WatchItem::Modified(object) | WatchItem::Deleted(object))
            if object.object().object_version().unwrap_or_default().is_empty() =>
        {
            Err(SourceError::Request(format!(
                "an object of {resource} has no resource version, so its watch cannot be resumed"
            )))
        }
        item => Ok(item),
    }
}

fn is_final(error: &SourceError) -> bool {
    match error {
        SourceError::Api(error) => {
            error.is_expired()
                || error.is_invalid()
                || error.is_unauthorized()
                || error.is_forbidden()
                || error.is_not_found()
        }
        SourceError::Request(_) => true,
        _ => false,
    }
}
