//! The status of a running reflector: state, version and counters. Written by the driver, read through
//! `ReflectorHandle`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::durations::ListDurations;
use super::errors::SyncError;
use super::oversight::{Doubt, Oversight};
use super::report::{ReflectorState, RelistReason, Resume};
use crate::errors::StoppedError;
use crate::wire::SourceError;

/// The counters of a reflector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorStats {
    /// Collections fetched completely, by list or watch-list.
    pub lists: u64,
    /// Collections fetched by watch-list.
    pub watch_lists: u64,
    /// Pages fetched.
    pub list_pages: u64,
    /// Pages that were delayed because the pages before them made no progress, or because lists kept failing.
    pub paced_pages: u64,
    /// Lists that were abandoned because they did not end: they returned a continue token twice, or exceeded
    /// [`max_pages`](super::ReflectorConfig::max_pages).
    pub endless_lists: u64,
    /// Objects received by lists and watch-lists.
    pub list_items: u64,
    /// Total duration of the completed lists, from the request to the last object, without failed attempts and pauses.
    pub list_duration: Duration,
    /// Duration of the last completed list, measured in the same way.
    pub last_list_duration: Duration,
    /// The durations of the completed lists as a histogram, measured in the same way.
    pub list_durations: ListDurations,
    /// Watches opened.
    pub watches: u64,
    /// Total duration of the ended watches.
    pub watch_duration: Duration,
    /// Events received by watches, without bookmarks.
    pub events: u64,
    /// Bookmarks received.
    pub bookmarks: u64,
    /// Bookmarks that went back or had no version, and were ignored.
    pub ignored_bookmarks: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Objects reused from the cache without decoding.
    pub reused: u64,
    /// Objects that could not be decoded or transformed.
    pub unreadable: u64,
    /// Items of lists and watch-lists that repeated an object received before.
    pub repeated: u64,
    /// Objects of another namespace than the requested one, which were ignored.
    pub foreign: u64,
    /// Objects the transform dropped.
    pub dropped: u64,
    /// Received objects outside the shard.
    pub outside: u64,
    /// Whether the server honours the shard selector.
    pub shard_support: ShardSupport,
    /// Repeated fetches of the collection, by reason.
    pub relists: BTreeMap<&'static str, u64>,
    /// Errors by class: an HTTP code, `transport`, `malformed`, `request`, `deadline`, `limit`.
    pub errors: BTreeMap<String, u64>,
    /// Deltas the target rejected.
    pub target_errors: u64,
    /// The number of times the server's history was replaced.
    pub rewinds: u64,
}

/// Whether a server honours the shard selector.
///
/// The result is the same either way, because objects outside the shard are filtered out on receipt. Only the traffic
/// differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardSupport {
    /// Unknown: no shard was requested, or the response does not show it. Lists of metadata do not report the selector.
    #[default]
    Unknown,
    /// The server sends only the objects of the shard.
    Honoured,
    /// The server sends all objects: it does not support shards, or rejects the selector.
    Ignored,
}

/// A view of a running reflector.
#[derive(Clone)]
pub struct ReflectorHandle {
    status: Arc<ReflectorStatus>,
}

impl fmt::Debug for ReflectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorHandle")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl ReflectorHandle {
    pub(super) fn new(status: Arc<ReflectorStatus>) -> Self {
        Self { status }
    }

    /// The current state.
    pub fn state(&self) -> ReflectorState {
        let inner = self.status.inner.lock();
        match (&inner.state, inner.listing) {
            (ReflectorState::Listing { since, .. }, Some((items, remaining))) => ReflectorState::Listing {
                since: *since,
                items,
                remaining,
            },
            (state, _) => state.clone(),
        }
    }

    /// The version up to which the target has received everything; `None` before the first list.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        let inner = self.status.inner.lock();
        inner.has_version.then(|| inner.last_version.clone())
    }

    /// Whether the target has received the first list.
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.status.inner.lock().synced
    }

    /// Waits until the target has received the first list, through all errors. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reflector stopped before, or was dropped.
    #[doc(alias = "HasSynced")]
    pub async fn synced(&self) -> Result<(), StoppedError> {
        loop {
            // Created before the check, so that no change in between is missed.
            let changed = self.status.changed.notified();
            {
                let inner = self.status.inner.lock();
                if inner.synced {
                    return Ok(());
                }
                if matches!(inner.state, ReflectorState::Stopped) {
                    return Err(StoppedError::reflector(&self.status.resource));
                }
            }
            changed.await;
        }
    }

    /// Waits until the target has received the first list, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// It has not, or the reflector stopped. The error has the state, the last failure and a hint.
    pub async fn synced_within(&self, timeout: Duration) -> Result<(), SyncError> {
        let start = Instant::now();
        if let Ok(Ok(())) = tokio::time::timeout(timeout, self.synced()).await {
            return Ok(());
        }
        let resource = &self.status.resource;
        let failed = self.last_error();
        Err(SyncError::list(
            "reflector",
            resource,
            start.elapsed(),
            self.state(),
            failed,
        ))
    }

    /// Ends the current pause: the next attempt follows at once, or as soon as the limit of requests per minute allows.
    /// Has no effect unless the reflector is waiting after a failure.
    pub fn retry_now(&self) {
        self.status.retry.notify_waiters();
    }

    /// The counters.
    pub fn stats(&self) -> ReflectorStats {
        self.status.inner.lock().stats.clone()
    }

    /// The time of the last proof that the target is current: a complete list, or an event or bookmark that is not older
    /// than the target. `None` before the first list.
    pub fn last_proof(&self) -> Option<Instant> {
        self.status.inner.lock().proof
    }

    /// Waits for a doubt about the cache. Cancel-safe. There is one waiter.
    pub(crate) async fn doubted(&self) -> Doubt {
        self.status.oversight.doubted().await
    }

    /// Has the collection fetched again as soon as the watch is open. The error is reported as the end of the watch.
    pub(crate) fn request_relist(&self, reason: RelistReason, error: SourceError) {
        self.status.oversight.request_relist(reason, error);
    }

    /// The last error and the number of failures since the last progress.
    pub fn last_error(&self) -> Option<(Arc<SourceError>, u32)> {
        let inner = self.status.inner.lock();
        inner.last_error.clone().map(|error| (error, inner.attempts))
    }
}

/// The status as the reflector itself holds it. Dropping it reports that the reflector has stopped.
pub(super) struct StatusOwner(Arc<ReflectorStatus>);

impl StatusOwner {
    pub(super) fn new(resource: String) -> Self {
        Self(ReflectorStatus::new(resource))
    }

    pub(super) fn shared(&self) -> Arc<ReflectorStatus> {
        self.0.clone()
    }
}

impl Drop for StatusOwner {
    fn drop(&mut self) {
        self.0.stopped();
    }
}

pub(super) struct ReflectorStatus {
    /// A description of the objects.
    resource: String,
    /// Notified when the first list was received, and when the reflector stopped.
    changed: Notify,
    inner: Mutex<StatusInner>,
    pub(super) oversight: Oversight,
    /// The user requests an attempt now.
    retry: Notify,
}

struct StatusInner {
    state: ReflectorState,
    /// The target has received the first list.
    synced: bool,
    /// The objects received and still to come, while listing.
    listing: Option<(u64, Option<u64>)>,
    last_version: String,
    has_version: bool,
    stats: ReflectorStats,
    last_error: Option<Arc<SourceError>>,
    failing_since: Option<Instant>,
    attempts: u32,
    opened: Option<Instant>,
    /// The time of the last proof that the target is current.
    proof: Option<Instant>,
}

impl ReflectorStatus {
    fn new(resource: String) -> Arc<Self> {
        Arc::new(Self {
            resource,
            changed: Notify::new(),
            inner: Mutex::new(StatusInner {
                state: ReflectorState::Idle,
                synced: false,
                listing: None,
                last_version: String::new(),
                has_version: false,
                stats: ReflectorStats::default(),
                last_error: None,
                failing_since: None,
                attempts: 0,
                opened: None,
                proof: None,
            }),
            oversight: Oversight::default(),
            retry: Notify::new(),
        })
    }

    /// Waits until the user requests an attempt. Cancel-safe.
    pub(super) async fn retry_requested(&self) {
        self.retry.notified().await;
    }

    /// Changes the counters.
    pub(super) fn count(&self, count: impl FnOnce(&mut ReflectorStats)) {
        count(&mut self.inner.lock().stats);
    }

    /// Counts an object of a list or watch-list.
    pub(super) fn item(&self, reused: bool) {
        let mut inner = self.inner.lock();
        inner.stats.list_items += 1;
        inner.stats.reused += u64::from(reused);
        if let Some((items, remaining)) = &mut inner.listing {
            *items += 1;
            *remaining = remaining.map(|remaining| remaining.saturating_sub(1));
        }
    }

    /// Counts an event of a watch. `proof` is its time, unless it is older than the target.
    pub(super) fn event(&self, version: Option<&str>, proof: Option<Instant>) {
        let mut inner = self.inner.lock();
        inner.stats.events += 1;
        inner.proof = proof.or(inner.proof);
        inner.note_version(version);
    }

    /// The target has everything up to this version. `proof` is the time at which that was received, if it proves that the
    /// target is current.
    pub(super) fn version(&self, version: Option<&str>, proof: Option<Instant>) {
        let mut inner = self.inner.lock();
        inner.proof = proof.or(inner.proof);
        inner.note_version(version);
    }

    /// Counts a complete page, with the number of remaining objects.
    pub(super) fn page(&self, remaining: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.stats.list_pages += 1;
        if let Some((_, left)) = &mut inner.listing {
            *left = remaining;
        }
    }

    /// A list or watch-list starts, unless this is the next page or attempt of one.
    pub(super) fn listing(&self, now: Instant) {
        let mut inner = self.inner.lock();
        if !matches!(inner.state, ReflectorState::Listing { .. }) {
            inner.state = ReflectorState::Listing {
                since: now,
                items: 0,
                remaining: None,
            };
            inner.listing = Some((0, None));
        }
    }

    /// The shard is empty.
    pub(super) fn resting(&self) {
        let mut inner = self.inner.lock();
        inner.state = ReflectorState::Resting;
        inner.listing = None;
    }

    /// The gathered objects were discarded.
    pub(super) fn discarded(&self) {
        let mut inner = self.inner.lock();
        if inner.listing.is_some() {
            inner.listing = Some((0, None));
        }
    }

    pub(super) fn watch_opened(&self, now: Instant) {
        let mut inner = self.inner.lock();
        inner.opened = Some(now);
        inner.stats.watches += 1;
    }

    /// The collection is complete, or a watch was requested.
    pub(super) fn watching(&self, now: Instant) {
        let mut inner = self.inner.lock();
        inner.state = ReflectorState::Watching { since: now };
        inner.listing = None;
    }

    /// There was progress after a failure.
    pub(super) fn recovered(&self) {
        let mut inner = self.inner.lock();
        inner.failing_since = None;
        inner.attempts = 0;
    }

    /// A list or watch ended.
    pub(super) fn ended(
        &self,
        now: Instant,
        resume: Resume,
        attempts: u32,
        error: Option<&Arc<SourceError>>,
    ) {
        let mut inner = self.inner.lock();
        if let Some(opened) = inner.opened.take() {
            inner.stats.watch_duration += now.saturating_duration_since(opened);
        }
        if let Resume::Relist(reason) = resume {
            *inner
                .stats
                .relists
                .entry(RelistReason::as_str(reason))
                .or_default() += 1;
        }
        if let Some(error) = error {
            *inner.stats.errors.entry(error.class()).or_default() += 1;
            inner.last_error = Some(error.clone());
            inner.attempts = attempts;
            inner.failing_since.get_or_insert(now);
        }
    }

    pub(super) fn backing_off(&self, now: Instant, until: Instant) {
        let mut inner = self.inner.lock();
        if let Some(error) = inner.last_error.clone().filter(|_| inner.attempts > 0) {
            inner.state = ReflectorState::BackingOff {
                error,
                since: inner.failing_since.unwrap_or(now),
                attempts: inner.attempts,
                until,
            };
        }
    }

    /// The target has received a list.
    pub(super) fn synced(&self) {
        let was_synced = std::mem::replace(&mut self.inner.lock().synced, true);
        if !was_synced {
            self.changed.notify_waiters();
        }
    }

    fn stopped(&self) {
        self.inner.lock().state = ReflectorState::Stopped;
        self.changed.notify_waiters();
    }
}

impl StatusInner {
    fn note_version(&mut self, version: Option<&str>) {
        // The buffer is reused: this runs once per event.
        self.last_version.clear();
        self.last_version.push_str(version.unwrap_or_default());
        self.has_version = version.is_some();
    }
}
