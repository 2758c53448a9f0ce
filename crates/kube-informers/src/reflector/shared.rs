//! What a running reflector shows: its state, its position and plain counters. Written by the driver, read by
//! anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::report::{ReflectorState, RelistReason, Resume};
use crate::source::SourceError;

/// What a reflector has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorStats {
    /// Collections fetched completely, by list or watch-list.
    pub lists: u64,
    /// How many of them came through a watch.
    pub watch_lists: u64,
    /// Pages fetched.
    pub list_pages: u64,
    /// Objects received by lists and watch-lists.
    pub list_items: u64,
    /// Time spent on completed lists.
    pub list_duration: Duration,
    /// Time the last completed list took.
    pub last_list_duration: Duration,
    /// Watches opened.
    pub watches: u64,
    /// Time spent in watches that have ended.
    pub watch_duration: Duration,
    /// Events received by watches, bookmarks not counted.
    pub events: u64,
    /// Bookmarks received.
    pub bookmarks: u64,
    /// Bookmarks that went back or said nothing, and were ignored.
    pub ignored_bookmarks: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Objects that were in the cache already, so that nothing was decoded.
    pub reused: u64,
    /// Objects that could not be read or transformed.
    pub unreadable: u64,
    /// Objects the transform dropped.
    pub dropped: u64,
    /// Objects outside the shard which the server sent all the same.
    pub outside: u64,
    /// What the server makes of the shard it is asked for.
    pub shard_support: ShardSupport,
    /// How often the collection had to be fetched again, by reason.
    pub relists: BTreeMap<&'static str, u64>,
    /// Errors by class: an HTTP code, `transport`, `malformed`, `request`, `deadline`.
    pub errors: BTreeMap<String, u64>,
    /// Deltas the target refused.
    pub target_errors: u64,
    /// How often the server's history was found replaced.
    pub rewinds: u64,
    /// Consistency checks that found a difference.
    pub inconsistencies: u64,
}

/// What a server makes of a shard.
///
/// The result is the same either way, since objects outside the shard are left out on our side; the traffic is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardSupport {
    /// Nothing is known: no shard was asked for, or the answer does not show it. Lists of metadata do not say whether
    /// they were narrowed.
    #[default]
    Unknown,
    /// It sends no more than what was asked for.
    Honoured,
    /// It sends everything: it does not know shards, or does not take the selector.
    Ignored,
}

/// A view of a running reflector.
#[derive(Clone)]
pub struct ReflectorHandle {
    shared: Arc<Shared>,
}

impl ReflectorHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What it is doing.
    pub fn state(&self) -> ReflectorState {
        let inner = self.shared.inner.lock();
        match (&inner.state, inner.listing) {
            (ReflectorState::Listing { since, .. }, Some((items, remaining))) => ReflectorState::Listing {
                since: *since,
                items,
                remaining,
            },
            (state, _) => state.clone(),
        }
    }

    /// The version up to which everything has been handed over; `None` before the first list.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        let inner = self.shared.inner.lock();
        inner.has_version.then(|| inner.last_version.clone())
    }

    /// The counters.
    pub fn stats(&self) -> ReflectorStats {
        self.shared.inner.lock().stats.clone()
    }

    /// The last error and how many failures there have been since the last progress.
    pub fn last_error(&self) -> Option<(Arc<SourceError>, u32)> {
        let inner = self.shared.inner.lock();
        inner.last_error.clone().map(|error| (error, inner.attempts))
    }
}

pub(super) struct Shared {
    inner: Mutex<Inner>,
}

struct Inner {
    state: ReflectorState,
    /// Objects so far and still to come, while listing.
    listing: Option<(u64, Option<u64>)>,
    last_version: String,
    has_version: bool,
    stats: ReflectorStats,
    last_error: Option<Arc<SourceError>>,
    failing_since: Option<Instant>,
    attempts: u32,
    opened: Option<Instant>,
}

impl Shared {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                state: ReflectorState::Idle,
                listing: None,
                last_version: String::new(),
                has_version: false,
                stats: ReflectorStats::default(),
                last_error: None,
                failing_since: None,
                attempts: 0,
                opened: None,
            }),
        })
    }

    /// Counts something.
    pub(super) fn count(&self, count: impl FnOnce(&mut ReflectorStats)) {
        count(&mut self.inner.lock().stats);
    }

    /// One object of a list or watch-list has arrived.
    pub(super) fn item(&self, reused: bool) {
        let mut inner = self.inner.lock();
        inner.stats.list_items += 1;
        inner.stats.reused += u64::from(reused);
        if let Some((items, remaining)) = &mut inner.listing {
            *items += 1;
            *remaining = remaining.map(|remaining| remaining.saturating_sub(1));
        }
    }

    /// One event of a watch has been handed over.
    pub(super) fn event(&self, version: Option<&str>) {
        let mut inner = self.inner.lock();
        inner.stats.events += 1;
        inner.note_version(version);
    }

    pub(super) fn version(&self, version: Option<&str>) {
        self.inner.lock().note_version(version);
    }

    /// A page was complete; the server said so many are left.
    pub(super) fn page(&self, remaining: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.stats.list_pages += 1;
        if let Some((_, left)) = &mut inner.listing {
            *left = remaining;
        }
    }

    /// A list or watch-list begins, unless one is going on already (the next page, the next attempt).
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

    /// There is nothing to watch.
    pub(super) fn resting(&self) {
        let mut inner = self.inner.lock();
        inner.state = ReflectorState::Resting;
        inner.listing = None;
    }

    /// What was gathered is worthless.
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

    /// The collection is complete, or a watch has been asked for.
    pub(super) fn watching(&self, now: Instant) {
        let mut inner = self.inner.lock();
        inner.state = ReflectorState::Watching { since: now };
        inner.listing = None;
    }

    /// There was real progress after a failure.
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

    pub(super) fn stopped(&self) {
        self.inner.lock().state = ReflectorState::Stopped;
    }
}

impl Inner {
    fn note_version(&mut self, version: Option<&str>) {
        // The buffer is reused: this runs once per event.
        self.last_version.clear();
        self.last_version.push_str(version.unwrap_or_default());
        self.has_version = version.is_some();
    }
}
