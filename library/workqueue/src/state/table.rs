//! Live keys, indexed by hash and by slot. A key is live while it is queued, in flight or delayed; then it leaves, and
//! no state about it is kept.

use super::list::Slot;
use crate::priority::Priority;
use hashbrown::{HashTable, hash_table};
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;
use tokio::time::Instant;

/// The phase of a key. Only `Delayed` knows whether it is also delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not outstanding; in the table only because it is delayed.
    Idle,
    /// Ready, in the order of `Ready`.
    Ready,
    /// In flight.
    Running,
    /// In flight and added again: ready as soon as this run ends.
    RunningAgain,
}

/// The state of a live key.
pub(super) struct KeyEntry<T> {
    /// `None` while the slot is free. The other fields keep their old values: slots are reused often, and writing only
    /// what changes is much cheaper than moving whole entries.
    key: Option<T>,
    hash: u64,
    pub(super) phase: Phase,
    /// Whether the rate limiter was called for this key, so that it may hold a failure count.
    pub(super) limited: bool,
    /// The priority of the outstanding work.
    pub(super) priority: Priority,
    /// When the outstanding work was first added.
    pub(super) since: Instant,
    /// When the current run started.
    pub(super) started: Instant,
    /// The number of the current run.
    pub(super) run: Option<NonZeroU64>,
}

impl<T> KeyEntry<T> {
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
    entries: Vec<KeyEntry<T>>,
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

    /// The number of allocated slots.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    #[inline]
    fn hash(&self, key: &T) -> u64 {
        self.hasher.hash_one(key)
    }

    #[inline]
    pub(super) fn find(&self, key: &T) -> Option<Slot> {
        self.index
            .find(self.hash(key), |slot| {
                self.entries[*slot as usize].key.as_ref() == Some(key)
            })
            .copied()
    }

    /// The slot of a key. A key that is not in the table is added, as `Idle`; otherwise it is returned.
    #[inline]
    pub(super) fn find_or_insert(&mut self, key: T, now: Instant) -> (Slot, Option<T>) {
        let hash = self.hash(&key);
        let entries = &mut self.entries;
        let vacant = match self.index.entry(
            hash,
            |slot| entries[*slot as usize].key.as_ref() == Some(&key),
            |slot| entries[*slot as usize].hash,
        ) {
            hash_table::Entry::Occupied(found) => return (*found.get(), Some(key)),
            hash_table::Entry::Vacant(vacant) => vacant,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => entries.len() as Slot,
        };
        vacant.insert(slot);
        match entries.get_mut(slot as usize) {
            Some(entry) => {
                entry.key = Some(key);
                entry.hash = hash;
            }
            None => entries.push(KeyEntry {
                key: Some(key),
                hash,
                phase: Phase::Idle,
                limited: false,
                priority: Priority::NORMAL,
                since: now,
                started: now,
                run: None,
            }),
        }
        (slot, None)
    }

    /// Removes the key of a slot that is in use, `Idle` and not running; returns whether it was `limited`.
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
    pub(super) fn entry(&self, slot: Slot) -> &KeyEntry<T> {
        &self.entries[slot as usize]
    }

    /// The entry of a slot that is in use.
    #[inline]
    pub(super) fn entry_mut(&mut self, slot: Slot) -> &mut KeyEntry<T> {
        &mut self.entries[slot as usize]
    }

    /// The entry of a slot that may be free or unknown.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&KeyEntry<T>> {
        self.entries.get(slot as usize)
    }

    /// Frees the memory. Must be empty.
    pub(super) fn reset(&mut self) {
        self.entries = Vec::new();
        self.free = Vec::new();
        self.index = HashTable::new();
    }
}
