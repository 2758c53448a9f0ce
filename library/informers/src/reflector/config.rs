//! The configuration of a reflector. Defaults are client-go's unless the documentation gives a reason.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::BackoffConfig;
use super::load::LoadLimits;
use super::recovery::RecoveryGroup;
use super::report::StreamEnd;

/// A function that is called when a list or watch ends.
pub type StreamEndHook = Arc<dyn Fn(&StreamEnd<'_>) + Send + Sync>;

/// How a reflector lists, watches and waits.
///
/// ```
/// # use std::sync::Arc;
/// # use kube_informers::reflector::{InitialList, ReflectorConfig, StreamEnd};
/// let config = ReflectorConfig {
///     initial_list: InitialList::AnyCached,
///     on_stream_end: Some(Arc::new(|end: &StreamEnd<'_>| eprintln!("{end}"))),
///     ..Default::default()
/// };
/// ```
#[doc(alias = "ReflectorOptions")]
#[derive(Clone)]
pub struct ReflectorConfig {
    /// Whether to fetch the initial list through a watch if the source supports it ("watch-list"). Default: yes.
    #[doc(alias = "WatchListClient")]
    pub watch_list: bool,
    /// The version that the first list requests.
    pub initial_list: InitialList,
    /// The page size of all lists. Default: pages of 500 for consistent reads, no pages otherwise, because those
    /// lists are served from the server's memory.
    #[doc(alias = "WatchListPageSize")]
    pub page_size: Option<u32>,
    /// The minimum timeout of a watch; each watch requests between this and twice this. At least, and by default, five
    /// minutes.
    #[doc(alias = "MinWatchTimeout")]
    pub min_watch_timeout: Duration,
    /// The delays after failures.
    pub backoff: BackoffConfig,
    /// The maximum delay, with jitter, after a failure that cost the API server nothing: a connection that was refused,
    /// reset or not established in time, a name that was not resolved, and 502, 503 or 504 without Retry-After, which a
    /// proxy returns while the server is down. Default: 5 s, so that the cache is current again within seconds after an
    /// outage of any length.
    pub max_unreachable_delay: Duration,
    /// The maximum delay, with jitter, while the resource does not exist (404). Default: 8 s, so that a custom resource
    /// whose definition is created later is picked up soon.
    pub max_not_found_delay: Duration,
    /// The maximum number of pages of one list. A list with more pages is abandoned, reported and counted as
    /// [`endless_lists`](super::ReflectorStats::endless_lists). Default: 10,000, which is five million objects in pages of
    /// the default size.
    pub max_pages: u32,
    /// How long an internal server error inside a watch leads to a new watch instead of a list. Default: zero, because
    /// such an error may hide a lost deletion.
    #[doc(alias = "MaxInternalErrorRetryDuration")]
    pub internal_error_window: Duration,
    /// The deadlines.
    pub deadlines: Deadlines,
    /// The limits of fetching a whole collection.
    pub limits: LoadLimits,
    /// The period of resyncs: the resync period of an informer's handlers that set none; the target of a reflector alone
    /// receives `SyncAll`. Default: never.
    #[doc(alias = "ResyncPeriod")]
    pub resync: Option<Duration>,
    /// The number of objects that the queue of an informer holds before the watch is no longer read. A reflector alone asks
    /// its target. Default: 2000, two of client-go's batches.
    pub queue_capacity: usize,
    /// How an informer verifies its cache. A reflector alone does not.
    pub audit: AuditConfig,
    /// Called when a list or watch ends, normally or not, on the task that reads from the server. Must return quickly.
    #[doc(alias = "SetWatchErrorHandler")]
    #[doc(alias = "SetWatchErrorHandlerWithContext")]
    #[doc(alias = "DefaultWatchErrorHandler")]
    #[doc(alias = "WatchErrorHandler")]
    #[doc(alias = "WatchErrorHandlerWithContext")]
    pub on_stream_end: Option<StreamEndHook>,
    /// The informers with which it recovers from an outage. Default: in a factory, all informers of the factory;
    /// otherwise only the watches of the informer.
    pub recovery: Option<RecoveryGroup>,
    /// The source of randomness.
    pub jitter: Jitter,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            watch_list: true,
            initial_list: InitialList::Consistent,
            page_size: None,
            min_watch_timeout: Self::MIN_WATCH_TIMEOUT,
            backoff: BackoffConfig::default(),
            max_unreachable_delay: Duration::from_secs(5),
            max_not_found_delay: Duration::from_secs(8),
            max_pages: 10_000,
            internal_error_window: Duration::ZERO,
            deadlines: Deadlines::default(),
            limits: LoadLimits::default(),
            resync: None,
            queue_capacity: 2000,
            audit: AuditConfig::default(),
            on_stream_end: None,
            recovery: None,
            jitter: Jitter::Random,
        }
    }
}

/// Without the hook.
impl fmt::Debug for ReflectorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorConfig")
            .field("watch_list", &self.watch_list)
            .field("initial_list", &self.initial_list)
            .field("page_size", &self.page_size)
            .field("min_watch_timeout", &self.min_watch_timeout)
            .field("backoff", &self.backoff)
            .field("max_unreachable_delay", &self.max_unreachable_delay)
            .field("max_not_found_delay", &self.max_not_found_delay)
            .field("max_pages", &self.max_pages)
            .field("internal_error_window", &self.internal_error_window)
            .field("deadlines", &self.deadlines)
            .field("limits", &self.limits)
            .field("resync", &self.resync)
            .field("queue_capacity", &self.queue_capacity)
            .field("audit", &self.audit)
            .field("recovery", &self.recovery)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

impl ReflectorConfig {
    /// Shorter watches would cost the server more than they save.
    pub(crate) const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

    /// Sets the group, unless the configuration names one.
    #[must_use]
    pub(crate) fn recovery_or(mut self, group: impl FnOnce() -> RecoveryGroup) -> Self {
        self.recovery.get_or_insert_with(group);
        self
    }
}

/// The version that the first list requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialList {
    /// The newest version at the time of the request. Nothing older is ever cached.
    #[default]
    Consistent,
    /// Any version the server has in memory ("0"), like older versions of client-go. Cheap for the server, but after a
    /// restart the cache may hold an older state than before.
    AnyCached,
}

/// The deadlines of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For the response to a list to start. Default: 60 s.
    pub list_headers: Duration,
    /// Between two chunks of a list. Default: 30 s.
    pub list_idle: Duration,
    /// The minimum throughput of a list and of the initial events of a watch-list, in bytes per second: a response that
    /// delivers less on average over a minute is ended. 0 disables it. Default: 64.
    pub min_throughput: u32,
    /// For fetching a whole collection, all pages of a list included. Default: 2 h. A list of 200,000 pods of 20 kB over
    /// 10 Mbit/s takes 53 minutes.
    pub list_total: Duration,
    /// The maximum silence of a watch. Once bookmarks arrive, the deadline is 2.5 times their interval, but at most this.
    /// Default: 150 s. A watch also ends 5 s after the timeout it requested, whatever it sends.
    pub watch_idle: Duration,
    /// The maximum silence of a watch while no bookmark has ever been received; at most `watch_idle`. Default: 90 s. The
    /// watch then reconnects. On a server without bookmarks this is not an error.
    pub first_bookmark: Duration,
    /// For a watch-list to complete its initial events. Default: 20 s.
    pub end_marker: Duration,
    /// For a watch-list to send the next initial event. The later of the two deadlines applies. Default: 5 s.
    pub end_marker_quiet: Duration,
    /// How long watch-lists are not used after a failed one. Default: 10 min.
    pub watch_list_refused: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            list_headers: Duration::from_secs(60),
            list_idle: Duration::from_secs(30),
            min_throughput: 64,
            list_total: Duration::from_secs(2 * 60 * 60),
            watch_idle: Duration::from_secs(150),
            first_bookmark: Duration::from_secs(90),
            end_marker: Duration::from_secs(20),
            end_marker_quiet: Duration::from_secs(5),
            watch_list_refused: Duration::from_secs(600),
        }
    }
}

/// How an informer verifies that its cache equals the collection on the server. If it does not, the collection is listed
/// again, and the differences are delivered as events, logged and counted.
///
/// Only metadata is requested. A source that cannot deliver it alone is not verified, see
/// [`ListerWatcher::identities`](crate::source::ListerWatcher::identities).
#[doc(alias = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// Whether to compare a sample after each interruption of the watch, and after events that are older than the cache:
    /// the server's history may have been replaced. At most three requests, within a minute. Default: yes.
    pub probe: bool,
    /// How often the whole collection is compared, which detects lost events; `None` for never. Default: every 24 h,
    /// for the first time after 1 h to 12 h.
    pub period: Option<Duration>,
    /// The number of objects that one request compares. Default: 500.
    pub page_size: u32,
    /// The time between two requests. Default: one minute.
    pub page_interval: Duration,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            probe: true,
            period: Some(Duration::from_secs(24 * 60 * 60)),
            page_size: 500,
            page_interval: Duration::from_secs(60),
        }
    }
}

/// The source of jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// A randomly seeded generator.
    #[default]
    Random,
    /// A generator with this seed, for reproducible runs.
    Seeded(u64),
    /// No jitter: delays are not extended, watches have their minimum timeout.
    None,
}

/// The generator behind [`Jitter`].
#[derive(Debug)]
pub(crate) struct JitterRng(Option<fastrand::Rng>);

impl JitterRng {
    pub(crate) fn new(jitter: Jitter) -> Self {
        Self(match jitter {
            Jitter::None => None,
            Jitter::Seeded(seed) => Some(fastrand::Rng::with_seed(seed)),
            Jitter::Random => Some(fastrand::Rng::new()),
        })
    }

    /// Returns a number that is uniform in [0, 1).
    pub(crate) fn next(&mut self) -> f64 {
        self.0.as_mut().map_or(0.0, fastrand::Rng::f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_jitter_is_reproducible_and_random_jitter_is_not() {
        let sequence = |jitter| {
            let mut rng = JitterRng::new(jitter);
            (0..1000).map(|_| rng.next()).collect::<Vec<_>>()
        };

        let seeded = sequence(Jitter::Seeded(7));
        assert_eq!(seeded, sequence(Jitter::Seeded(7)));
        assert!(seeded.iter().all(|jitter| (0.0..1.0).contains(jitter)));
        assert!(sequence(Jitter::None).iter().all(|jitter| *jitter == 0.0));
        assert_ne!(sequence(Jitter::Random), sequence(Jitter::Random));
    }
}
