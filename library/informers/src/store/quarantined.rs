//! The keys in quarantine, and what has changed since a position.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashTable};

use super::planned::BadVersion;

/// The number of released keys that are remembered. A reader that is further behind reads the whole quarantine.
const REMEMBERED: usize = 4096;

/// The keys in quarantine. Hashes are those of the table.
#[derive(Clone)]
pub(super) struct QuarantineTable<Q> {
    entries: HashTable<QuarantineEntry<Q>>,
    /// Counts the changes: entered, other reason, released.
    position: u64,
    /// The last released keys, with their positions.
    released: VecDeque<(u64, Q)>,
    /// The position of the last released key that is forgotten.
    forgotten: u64,
}

#[derive(Clone)]
pub(super) struct QuarantineEntry<Q> {
    pub(super) key: Q,
    pub(super) bad: BadVersion,
    /// The position at which the key entered.
    pub(super) order: u64,
    /// The position of the last change.
    pub(super) changed: u64,
}

impl<Q> QuarantineTable<Q> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashTable::new(),
            position: 0,
            released: VecDeque::new(),
            forgotten: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QuarantineEntry<Q>> {
        self.entries.iter()
    }

    pub(super) fn get<L: Equivalent<Q> + ?Sized>(&self, hash: u64, key: &L) -> Option<&BadVersion> {
        let entry = self.entries.find(hash, |entry| key.equivalent(&entry.key))?;
        Some(&entry.bad)
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The keys released after a position, if all of them are remembered.
    pub(super) fn released_since(&self, position: u64) -> Option<impl Iterator<Item = &Q>> {
        // Position 0 is that of a reader that has read nothing.
        let is_known = position > 0 && position >= self.forgotten && position <= self.position;
        let start = self.released.partition_point(|(at, _)| *at <= position);
        is_known.then(|| self.released.range(start..).map(|(_, key)| key))
    }
}

impl<Q: Hash + Eq + Clone> QuarantineTable<Q> {
    /// Puts a key into quarantine, changes the reason, or releases the key.
    pub(super) fn set(&mut self, hasher: &RandomState, hash: u64, key: &Q, bad: Option<BadVersion>) {
        let found = self.entries.find_entry(hash, |entry| entry.key == *key);
        match (found, bad) {
            (Ok(mut entry), Some(bad)) => {
                let entry = entry.get_mut();
                if entry.bad.object != bad.object {
                    self.position += 1;
                    entry.changed = self.position;
                }
                entry.bad = bad;
            }
            (Ok(entry), None) => {
                let (entry, _) = entry.remove();
                self.position += 1;
                if self.released.len() >= REMEMBERED
                    && let Some((position, _)) = self.released.pop_front()
                {
                    self.forgotten = position;
                }
                self.released.push_back((self.position, entry.key));
            }
            (Err(_), Some(bad)) => {
                self.position += 1;
                let entry = QuarantineEntry {
                    key: key.clone(),
                    bad,
                    order: self.position,
                    changed: self.position,
                };
                self.entries
                    .insert_unique(hash, entry, |entry| hasher.hash_one(&entry.key));
            }
            (Err(_), None) => {}
        }
    }
}
