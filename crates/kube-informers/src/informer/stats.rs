//! Plain counters of an informer, readable at any time.

use crate::queue::QueueStats;
use crate::reflector::{ReflectorState, ReflectorStats};
use crate::registration::Registration;
use crate::shard::Shard;
use crate::store::Applied;

/// What an informer has done, and what it is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStats {
    /// Objects in the cache.
    pub objects: usize,
    /// Keys in quarantine.
    pub quarantined: usize,
    /// What was applied to the cache so far.
    pub totals: Totals,
    /// Handlers and subscriptions.
    pub handlers: Vec<HandlerStats>,
    /// The member watches: one, or one for each namespace.
    pub members: Vec<MemberStats>,
}

impl InformerStats {
    /// Events that handlers have not returned from, all handlers together.
    pub fn backlog(&self) -> usize {
        self.handlers.iter().map(|handler| handler.pending).sum()
    }
}

/// One watch of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberStats {
    /// What it is doing.
    pub state: ReflectorState,
    /// The version up to which it is in the cache.
    pub resource_version: Option<String>,
    /// The shard of the collection that it has in the cache; `None` for everything.
    pub shard: Option<Shard>,
    /// The queue between it and the cache.
    pub queue: QueueStats,
    /// Lists, watches, bytes, errors, and what the server makes of the shard.
    pub reflector: ReflectorStats,
}

/// One handler or subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStats {
    /// Its name.
    pub name: String,
    /// Whether it has been told everything initial.
    pub synced: bool,
    /// Events it has not returned from.
    pub pending: usize,
    /// Events it has returned from.
    pub delivered: u64,
    /// How many of them ended in a panic.
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

/// What was applied to a cache since the informer started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Objects added.
    pub added: u64,
    /// Objects changed.
    pub updated: u64,
    /// Objects deleted.
    pub deleted: u64,
    /// Of these, deletions that no watch announced.
    pub missed: u64,
    /// Objects of lists that were in the cache already, in this very version.
    pub unchanged: u64,
    /// Repeated states, told to nobody.
    pub duplicates: u64,
    /// States and bookmarks older than what was known, dropped.
    pub stale: u64,
    /// States of objects outside the shard, left out. Those which are left out before they are decoded are counted by
    /// the watch that brings them.
    pub outside: u64,
    /// How often an object was put into quarantine.
    pub quarantined: u64,
    /// How often a good version got a key out of it again.
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
