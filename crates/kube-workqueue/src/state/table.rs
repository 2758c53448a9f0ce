//! Every live key once, found by its hash and reachable by its slot. A key is live while it is queued, being
//! worked on or delayed; then it leaves, and nothing about it stays.

use super::list::Slot;
use crate::priority::Priority;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};
use tokio::time::Instant;

/// Where a key stands. That it also waits for a later time is known to `Delayed` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not outstanding; in the table only because it is delayed.
    Idle,
    /// To be worked on, in the order of `Ready`.
    Ready,
    /// Being worked on.
    Running,
    /// Being worked on and asked for again since: ready once more as soon as this run ends.
    RunningAgain,
}

/// What is known about a live key.
pub(super) struct Entry<T> {
    /// Empty while the slot is free. The other fields stay as they were: a slot is reused many times, and writing
    /// only what changes is a good deal cheaper than moving whole entries in and out.
    key: Option<T>,
    hash: u64,
    pub(super) phase: Phase,
    /// The rate limiter was asked about this key, so it may hold a failure count for it.
    pub(super) limited: bool,
    /// The priority of the outstanding work.
    pub(super) priority: Priority,
    /// When the outstanding work was first asked for.
    pub(super) since: Instant,
    /// When the run in progress began.
    pub(super) started: Instant,
    /// The number of the run in progress; 0 if there is none.
    pub(super) run: u64,
}

impl<T> Entry<T> {
    #[inline]
    pub(super) fn key(&self) -> &T {
        match &self.key {
            Some(key) => key,
            None => unreachable!("a slot that is in use holds a key"),
        }
    }
}

/// Entries in slots, and an index from keys to slots.
pub(super) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<Slot>,
    index: HashTable<Slot>,
    hasher: foldhash::fast::RandomState,
}

impl<T: Hash + Eq> Table<T> {
    pub(super) fn new() -> Self {
        Table {
            entries: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// How many slots there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    #[inline]
    pub(super) fn hash(&self, key: &T) -> u64 {
        self.hasher.hash_one(key)
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, key: &T) -> Option<Slot> {
        self.index
            .find(hash, |slot| {
                self.entries[*slot as usize].key.as_ref() == Some(key)
            })
            .copied()
    }

    /// Adds a key that is not in the table, as `Idle`.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, key: T, now: Instant) -> Slot {
        let slot = match self.free.pop() {
            Some(slot) => {
                let entry = &mut self.entries[slot as usize];
                entry.key = Some(key);
                entry.hash = hash;
                slot
            }
            None => {
                self.entries.push(Entry {
                    key: Some(key),
                    hash,
                    phase: Phase::Idle,
                    limited: false,
                    priority: Priority::NORMAL,
                    since: now,
                    started: now,
                    run: 0,
                });
                (self.entries.len() - 1) as Slot
            }
        };
        self.index
            .insert_unique(hash, slot, |slot| self.entries[*slot as usize].hash);
        slot
    }

    /// Removes the key of a slot that is in use, is `Idle` and not running; tells whether it was `limited`.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) -> (T, bool) {
        let entry = &mut self.entries[slot as usize];
        let limited = std::mem::take(&mut entry.limited);
        let Some(key) = entry.key.take() else {
            unreachable!("slot {slot} holds a live key until it is removed");
        };
        if let Ok(found) = self.index.find_entry(entry.hash, |indexed| *indexed == slot) {
            found.remove();
        }
        self.free.push(slot);
        (key, limited)
    }

    /// The entry of a slot that is in use.
    #[inline]
    pub(super) fn entry(&self, slot: Slot) -> &Entry<T> {
        &self.entries[slot as usize]
    }

    /// The entry of a slot that is in use.
    #[inline]
    pub(super) fn entry_mut(&mut self, slot: Slot) -> &mut Entry<T> {
        &mut self.entries[slot as usize]
    }

    /// The entry of a slot that may be free, or never was one.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&Entry<T>> {
        self.entries.get(slot as usize)
    }

    /// Gives the memory back. Must be empty.
    pub(super) fn reset(&mut self) {
        self.entries = Vec::new();
        self.free = Vec::new();
        self.index = HashTable::new();
    }
}
