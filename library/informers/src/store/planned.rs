//! `WritePlan`: the new state of every key that one write touches.
//!
//! A plan is made while readers continue to read, and is carried out in one step. Several changes of a key become one.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashTable};

use super::progress::WatchProgress;
use crate::quarantine::BadObject;

pub(super) struct WritePlan<V, Q> {
    pub(super) keys: Vec<PlannedKey<V, Q>>,
    /// Positions in `keys` by the hash of the key.
    by_key: HashTable<usize>,
    /// The watch whose progress this write changes, and its new progress; `None` for a watch that is removed.
    pub(super) progress: Option<(usize, Option<WatchProgress>)>,
}

/// The new state of one key.
pub(super) struct PlannedKey<V, Q> {
    pub(super) hash: u64,
    pub(super) key: Q,
    /// The slot it has in the table; `None` if it is new.
    pub(super) slot: Option<u32>,
    /// The object to hold, if any.
    pub(super) held: Option<PlannedObject<V>>,
    /// The version in quarantine, if any.
    pub(super) bad: Option<BadVersion>,
}

pub(super) struct PlannedObject<V> {
    pub(super) object: Arc<V>,
    pub(super) member: u32,
    pub(super) age: Age,
    /// The row of its index values; `None` if the object is already in the table.
    pub(super) row: Option<usize>,
}

/// How a held object relates to the current state at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Age {
    /// It is the current state.
    #[default]
    Current,
    /// A newer state exists that could not be read.
    Outdated,
    /// As `Outdated`, and the server was restored from a backup since. Its version is not comparable, because the
    /// server assigns the same numbers again.
    BeforeRestore,
}

impl Age {
    pub(super) fn is_stale(self) -> bool {
        self != Self::Current
    }
}

/// A version in quarantine, and the watch it came from.
#[derive(Clone)]
pub(super) struct BadVersion {
    /// Boxed because few keys have one and every planned key has room for it.
    pub(super) object: Box<BadObject>,
    pub(super) member: u32,
}

impl<V, Q: Hash + Eq + Clone> WritePlan<V, Q> {
    pub(super) fn new() -> Self {
        Self {
            keys: Vec::new(),
            by_key: HashTable::new(),
            progress: None,
        }
    }

    /// The number of keys it touches.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.progress.is_none()
    }

    pub(super) fn find<L: Equivalent<Q> + ?Sized>(&self, hash: u64, key: &L) -> Option<usize> {
        let is = |position: &usize| key.equivalent(&self.keys[*position].key);
        self.by_key.find(hash, is).copied()
    }

    pub(super) fn push(&mut self, key: PlannedKey<V, Q>) -> usize {
        let (hash, position) = (key.hash, self.keys.len());
        self.keys.push(key);
        let keys = &self.keys;
        self.by_key
            .insert_unique(hash, position, |position| keys[*position].hash);
        position
    }
}
