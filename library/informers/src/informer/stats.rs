//! Counters of an informer.

use std::time::Duration;

use super::drift::AuditStats;
use crate::codec::LazyCounters;
use crate::queue::QueueStats;
use crate::reflector::{ReflectorState, ReflectorStats};
use crate::registration::Registration;
use crate::shard::Shard;
use crate::store::{Applied, Store};

/// Counters and state of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStats {
    /// Objects in the cache.
    pub objects: usize,
    /// Objects in quarantine.
    pub quarantined: usize,
    /// Failed accesses to [`Lazy`](crate::lazy::Lazy) objects: they could not be decoded.
    pub access_errors: u64,
    /// The memory it occupies.
    pub memory: MemoryStats,
    /// Changes applied to the cache so far.
    pub totals: Totals,
    /// Handlers and subscriptions.
    pub handlers: Vec<HandlerStats>,
    /// The watches: one, or one for each namespace.
    pub members: Vec<MemberStats>,
}

impl InformerStats {
    /// The backlog of all handlers together.
    pub fn backlog(&self) -> usize {
        self.handlers.iter().map(|handler| handler.pending).sum()
    }
}

/// The memory that an informer occupies, in bytes. Estimated: allocators round up, and tables have spare room, which is
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// All [`Lazy`](crate::lazy::Lazy) objects that exist: those in the cache, and older states that the backlog or the program
    /// still holds. `None` for other types, whose memory is not known.
    pub objects: Option<usize>,
    /// Keys, slots and the map from keys to slots.
    pub keys: usize,
    /// Indexes, including the one by namespace.
    pub indexes: usize,
    /// Queued events, without their objects. Handlers that keep every event share one copy, which is counted once for
    /// each of them.
    pub backlog: usize,
}

impl MemoryStats {
    pub(super) fn of<K>(store: &Store<K>, lazy: Option<&LazyCounters>, backlog: usize) -> Self {
        let (keys, indexes) = store.table_bytes();
        Self {
            objects: lazy.map(LazyCounters::bytes),
            keys,
            indexes,
            backlog,
        }
    }
}

/// One watch of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberStats {
    /// The only namespace it watches; `None` for all of them, or if that is unknown.
    pub namespace: Option<String>,
    /// Its state.
    pub state: ReflectorState,
    /// The version up to which its events are in the cache.
    pub resource_version: Option<String>,
    /// The shard that the cache holds; `None` for the whole collection.
    pub shard: Option<Shard>,
    /// The queue between it and the cache.
    pub queue: QueueStats,
    /// Lists, watches, bytes, errors, and whether the server supports shards.
    pub reflector: ReflectorStats,
    /// Comparisons of the cache with the server.
    pub audit: AuditStats,
    /// The age of the last proof that the cache is current; see [`Informer::freshness`](crate::Informer::freshness).
    pub freshness: Option<Duration>,
}

/// One handler or subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStats {
    /// Its name.
    pub name: String,
    /// Whether it has received all its initial events.
    pub synced: bool,
    /// Its backlog, including the event in flight.
    pub pending: usize,
    /// Events it has processed.
    pub delivered: u64,
    /// Those that ended in a panic.
    pub panics: u64,
}

impl HandlerStats {
    pub(super) fn of(registration: &Registration) -> Self {
        Self {
            name: registration.name().to_owned(),
            synced: registration.has_synced(),
            pending: registration.pending(),
            delivered: registration.delivered(),
            panics: registration.panics(),
        }
    }
}

/// Changes applied to a cache since the informer started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Objects added.
    pub added: u64,
    /// Objects changed.
    pub updated: u64,
    /// Objects deleted.
    pub deleted: u64,
    /// The missed deletes among them.
    pub missed: u64,
    /// Listed objects that were in the cache in the same version.
    pub unchanged: u64,
    /// Repeated states, not delivered.
    pub duplicates: u64,
    /// Stale states and bookmarks, dropped.
    pub stale: u64,
    /// Objects outside the shard, ignored. Those ignored before decoding are counted by their watch.
    pub outside: u64,
    /// Objects put into quarantine.
    pub quarantined: u64,
    /// Objects that left quarantine with a readable version.
    pub recovered: u64,
}

impl Totals {
    pub(super) fn add(&mut self, applied: &Applied) {
        self.added += applied.added as u64;
        self.updated += applied.updated as u64;
        self.deleted += applied.deleted as u64;
        self.missed += applied.vanished as u64;
        self.unchanged += applied.unchanged as u64;
        self.duplicates += applied.duplicates as u64;
        self.stale += applied.stale_dropped as u64;
        self.outside += applied.outside as u64;
        self.quarantined += applied.quarantined as u64;
        self.recovered += applied.recovered as u64;
    }
}
