//! `RetryWatch`: a watch that resumes, without a cache.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, warn};

use super::backoff::{Delays, Failure, Pace};
use super::config::{JitterRng, ReflectorConfig};
use super::transform::{Transformed, transformed};
use crate::delta::Delta;
use crate::object::Object;
use crate::source::{ListerWatcher, WatchRequest, WatchStream};
use crate::time::after;
use crate::wire::{Fetched, SourceError, WatchItem};

/// A watch that was open for this long, or delivered something, is opened again at once when it ends.
const PRODUCTIVE: Duration = Duration::from_secs(30);
/// The allowance for a server that closes a watch after its timeout.
const GRACE: Duration = Duration::from_secs(5);

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
/// use kube_informers::reflector::{Pager, RetryWatch};
/// use kube_informers::{ListWatch, Scope};
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
    changes: BoxStream<'static, Result<Delta<K>, SourceError>>,
    version: Arc<Mutex<String>>,
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
        let version = Arc::new(Mutex::new(resource_version.to_owned()));
        let resuming = Resuming {
            resource: source.describe(),
            namespace: source.namespace(),
            source: Box::new(source),
            version: version.clone(),
            delays: Delays::new(&config),
            pace: Pace::new(),
            jitter: JitterRng::new(config.jitter),
            config,
            open: None,
            pause: Duration::ZERO,
            failures: 0,
            ended: false,
        };
        let changes = stream::unfold(resuming, |mut resuming| async move {
            let change = resuming.next().await?;
            Some((change, resuming))
        });
        Ok(Self {
            changes: changes.boxed(),
            version,
        })
    }

    /// The version from which the watch would resume: everything up to it has been delivered.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn resource_version(&self) -> String {
        self.version.lock().clone()
    }

    /// The next change; `None` after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Delta<K>, SourceError>> {
        self.changes.next().await
    }
}

impl<K> Stream for RetryWatch<K> {
    type Item = Result<Delta<K>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.changes.poll_next_unpin(cx)
    }
}

impl<K> fmt::Debug for RetryWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatch")
            .field("resource_version", &*self.version.lock())
            .finish_non_exhaustive()
    }
}

/// The state behind the stream.
struct Resuming<K> {
    source: Box<dyn ListerWatcher<K>>,
    resource: String,
    namespace: Option<String>,
    version: Arc<Mutex<String>>,
    config: ReflectorConfig,
    delays: Delays,
    pace: Pace,
    jitter: JitterRng,
    open: Option<OpenWatch<K>>,
    /// The delay before the next watch.
    pause: Duration,
    /// The number of failures since the last progress.
    failures: u32,
    ended: bool,
}

struct OpenWatch<K> {
    stream: WatchStream<K>,
    opened: Instant,
    /// The time of the last sign of life.
    heard: Instant,
    ends_by: Instant,
    /// An event or a bookmark was received.
    progressed: bool,
}

impl<K: Object> Resuming<K> {
    async fn next(&mut self) -> Option<Result<Delta<K>, SourceError>> {
        loop {
            if self.ended {
                return None;
            }
            let idle = self.config.deadlines.watch_idle;
            let Some(open) = &mut self.open else {
                self.open().await;
                continue;
            };
            let deadline = open.ends_by.min(after(open.heard, idle));
            let Ok(item) = timeout_at(deadline, open.stream.next()).await else {
                // Silence is not an error: the server may have nothing to send, and no bookmarks.
                self.close(None);
                continue;
            };
            open.heard = Instant::now();
            match item {
                None => self.close(None),
                Some(Err(error)) => {
                    if let Some(error) = self.failed(error) {
                        return Some(Err(error));
                    }
                }
                Some(Ok(item)) => match self.received(item) {
                    Ok(None) => {}
                    Ok(Some(delta)) => return Some(Ok(delta)),
                    Err(error) => {
                        if let Some(error) = self.failed(error) {
                            return Some(Err(error));
                        }
                    }
                },
            }
        }
    }

    async fn open(&mut self) {
        sleep_until(after(Instant::now(), self.pause)).await;
        sleep_until(self.pace.take(Instant::now())).await;
        let minimum = self
            .config
            .min_watch_timeout
            .max(ReflectorConfig::MIN_WATCH_TIMEOUT);
        let timeout = minimum.mul_f64(1.0 + self.jitter.next());
        let request = WatchRequest {
            resource_version: Some(self.version.lock().clone()),
            bookmarks: true,
            timeout,
            shard: self.source.shard(),
            ..WatchRequest::default()
        };
        debug!(resource = %self.resource, ?request, "watching");
        let now = Instant::now();
        self.open = Some(OpenWatch {
            stream: self.source.watch(request, None),
            opened: now,
            heard: now,
            ends_by: after(now, timeout.saturating_add(GRACE)),
            progressed: false,
        });
    }

    /// The delta of an item, if it is one for the reader.
    fn received(&mut self, item: WatchItem<K>) -> Result<Option<Delta<K>>, SourceError> {
        if matches!(item, WatchItem::Progress { .. }) {
            return Ok(None);
        }
        if let WatchItem::Error(error) = item {
            return Err(error.into());
        }
        if let Some(open) = &mut self.open {
            open.progressed = true;
        }
        self.failures = 0;
        self.delays.reset();
        Ok(match item {
            WatchItem::Added(object) => self.object(object, Delta::Added)?,
            WatchItem::Modified(object) => self.object(object, Delta::Updated)?,
            WatchItem::Deleted(object) => self.object(object, Delta::Deleted)?,
            WatchItem::Unreadable { deleted, object } => {
                self.reached(object.resource_version.as_deref());
                Some(match deleted {
                    true => Delta::DeletedUnreadable(object),
                    false => Delta::Unreadable(object),
                })
            }
            WatchItem::Outside { resource_version, .. } | WatchItem::Bookmark { resource_version, .. } => {
                self.reached(resource_version.as_deref());
                None
            }
            WatchItem::Progress { .. } | WatchItem::Error(_) => None,
        })
    }

    fn object(
        &self,
        object: Fetched<K>,
        delta: fn(Arc<K>) -> Delta<K>,
    ) -> Result<Option<Delta<K>>, SourceError> {
        let version = object.object().object_version().unwrap_or_default();
        if version.is_empty() {
            return Err(SourceError::Request(format!(
                "an object of {} has no resource version, so its watch cannot be resumed",
                self.resource
            )));
        }
        self.reached(Some(version));
        let namespace = object.object().object_namespace();
        if self.namespace.is_some() && self.namespace.as_deref() != namespace {
            return Ok(None);
        }
        Ok(match transformed(None, object) {
            Transformed::Object(object) => Some(delta(object)),
            Transformed::Bad(bad) => Some(Delta::Unreadable(bad)),
            Transformed::Dropped { .. } => None,
        })
    }

    fn reached(&self, version: Option<&str>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            let mut reached = self.version.lock();
            reached.clear();
            reached.push_str(version);
        }
    }

    /// Returns the error if no retry can repair it.
    fn failed(&mut self, error: SourceError) -> Option<SourceError> {
        if is_final(&error) {
            self.ended = true;
            self.open = None;
            return Some(error);
        }
        self.close(Some(&error));
        None
    }

    /// The watch has ended, and is opened again after a pause.
    fn close(&mut self, error: Option<&SourceError>) {
        let Some(open) = self.open.take() else { return };
        let now = Instant::now();
        let spent = now.saturating_duration_since(open.opened);
        let requests_delay = error
            .and_then(SourceError::api)
            .is_some_and(|api| api.retry_after.is_some());
        if (open.progressed || spent >= PRODUCTIVE) && !requests_delay {
            self.pause = Duration::ZERO;
            self.delays.reset();
        } else {
            let failure = error.map_or(Failure::SERVED, Failure::of).after(spent);
            self.pause = self.delays.next(failure, self.jitter.next());
        }
        let Some(error) = error else { return };
        self.failures = self.failures.saturating_add(1);
        let pause = self.pause.as_secs_f64();
        // Logged at powers of two: a server that is down must not fill the log.
        if self.failures.is_power_of_two() {
            warn!(resource = %self.resource, attempts = self.failures, %error, "the watch ended; resuming in {pause:.1} s");
        }
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
