//! The table behind the lock: slab of slots, key map, indexes, versions and quarantine.
//!
//! It takes a finished `Plan` and carries it out; it decides nothing and runs no user code.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::plan::{Age, Bad, Held, Plan, Touched};
use super::postings::Postings;
use super::reached::Reached;
use super::rows::{IndexDef, Rows};
use super::slots::Slots;

/// Below so many slots nothing is won by moving entries together.
const SMALL: usize = 1024;

pub(super) struct Table<V, Q> {
    hasher: RandomState,
    slots: Slots<V>,
    /// What belongs to each slot besides its object. `None` exactly where the slot is empty.
    entries: Vec<Option<Entry<Q>>>,
    /// Slots by the hash of their key.
    by_key: HashTable<u32>,
    /// Empty slots; the last one is used next.
    free: Vec<u32>,
    /// Only ever grows, so that a column number stays valid for ever.
    indexes: Vec<TableIndex<V>>,
    /// The version of each member watch.
    versions: Vec<Reached>,
    quarantine: HashTable<Quarantine<Q>>,
    quarantined_so_far: u64,
}

#[derive(Clone)]
pub(super) struct Entry<Q> {
    pub(super) key: Q,
    /// Which member watch told of it last.
    pub(super) member: u32,
    pub(super) age: Age,
}

#[derive(Clone)]
pub(super) struct Quarantine<Q> {
    pub(super) key: Q,
    pub(super) bad: Bad,
    /// When it came in, relative to the others.
    pub(super) order: u64,
}

pub(super) struct TableIndex<V> {
    pub(super) def: Arc<IndexDef<V>>,
    pub(super) postings: Postings,
    /// Readers see an index only once it covers every object.
    pub(super) ready: bool,
}

impl<V, Q> Table<V, Q> {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self {
            hasher,
            slots: Slots::new(),
            entries: Vec::new(),
            by_key: HashTable::new(),
            free: Vec::new(),
            indexes: Vec::new(),
            versions: Vec::new(),
            quarantine: HashTable::new(),
            quarantined_so_far: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn slots(&self) -> &Slots<V> {
        &self.slots
    }

    /// The slot of a key.
    pub(super) fn find(&self, hash: u64, is: impl Fn(&Q) -> bool) -> Option<u32> {
        let is_slot = |slot: &u32| self.entry(*slot).is_some_and(|entry| is(&entry.key));
        self.by_key.find(hash, is_slot).copied()
    }

    pub(super) fn entry(&self, slot: u32) -> Option<&Entry<Q>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    /// All entries with their slots and objects, in slot order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry<Q>, &Arc<V>)> {
        let objects = self.slots.enumerate();
        objects.filter_map(|(slot, object)| Some((slot, self.entry(slot)?, object)))
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn indexes(&self) -> &[TableIndex<V>] {
        &self.indexes
    }

    pub(super) fn index_mut(&mut self, column: usize) -> Option<&mut TableIndex<V>> {
        self.indexes.get_mut(column)
    }

    /// Appends an index that readers do not see yet, and returns its column.
    pub(super) fn push_index(&mut self, def: Arc<IndexDef<V>>) -> usize {
        self.indexes.push(TableIndex {
            def,
            postings: Postings::default(),
            ready: false,
        });
        self.indexes.len() - 1
    }

    pub(super) fn defs(&self) -> Vec<Arc<IndexDef<V>>> {
        self.indexes.iter().map(|index| index.def.clone()).collect()
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = Option<&Arc<str>>> {
        self.versions.iter().map(Reached::version)
    }

    pub(super) fn reached(&self, member: usize) -> Reached {
        self.versions.get(member).cloned().unwrap_or_default()
    }

    /// Why a key is in quarantine.
    pub(super) fn bad(&self, hash: u64, is: impl Fn(&Q) -> bool) -> Option<&Bad> {
        let entry = self.quarantine.find(hash, |entry| is(&entry.key))?;
        Some(&entry.bad)
    }

    pub(super) fn quarantine(&self) -> impl Iterator<Item = &Quarantine<Q>> {
        self.quarantine.iter()
    }
}

impl<V, Q: Hash + Eq + Clone> Table<V, Q> {
    /// Carries out a plan. Returns the objects that left the table: dropping them may free a lot of memory,
    /// which is better done without the lock.
    pub(super) fn commit(&mut self, plan: Plan<V, Q>, rows: &Rows<V>) -> Vec<Arc<V>> {
        let Plan { touched, reached, .. } = plan;
        let new = touched.iter().filter(|touched| touched.slot.is_none()).count();
        if new > SMALL {
            // Growing step by step would hash every key again and again.
            let (hasher, entries) = (&self.hasher, &self.entries);
            self.by_key.reserve(new, |slot| rehash(hasher, entries, *slot));
        }
        let mut gone = Vec::new();
        for touched in touched {
            let Touched {
                hash,
                key,
                slot,
                held,
                bad,
            } = touched;
            self.set_quarantine(hash, &key, bad);
            match (slot, held) {
                (Some(slot), Some(held)) => gone.extend(self.update(slot, held, rows)),
                (None, Some(held)) => self.insert(hash, key, held, rows),
                (Some(slot), None) => gone.extend(self.remove(hash, slot)),
                (None, None) => {}
            }
        }
        if let Some((member, reached)) = reached {
            if self.versions.len() <= member {
                self.versions.resize(member + 1, Reached::default());
            }
            self.versions[member] = reached;
        }
        gone
    }

    fn insert(&mut self, hash: u64, key: Q, held: Held<V>, rows: &Rows<V>) {
        let entry = Some(Entry {
            key,
            member: held.member,
            age: held.age,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let (hasher, entries) = (&self.hasher, &self.entries);
        self.by_key
            .insert_unique(hash, slot, |slot| rehash(hasher, entries, *slot));
        self.slots.set(slot, Some(held.object));
        self.set_values(slot, held.row, rows);
    }

    fn update(&mut self, slot: u32, held: Held<V>, rows: &Rows<V>) -> Option<Arc<V>> {
        if let Some(entry) = &mut self.entries[slot as usize] {
            entry.member = held.member;
            entry.age = held.age;
        }
        // Without a row the object is the one that is there already.
        held.row?;
        self.set_values(slot, held.row, rows);
        self.slots.set(slot, Some(held.object))
    }

    fn remove(&mut self, hash: u64, slot: u32) -> Option<Arc<V>> {
        if let Ok(entry) = self.by_key.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        for index in &mut self.indexes {
            index.postings.clear(slot);
        }
        self.entries[slot as usize] = None;
        self.free.push(slot);
        self.slots.set(slot, None)
    }

    fn set_values(&mut self, slot: u32, row: Option<usize>, rows: &Rows<V>) {
        let Some(row) = row else { return };
        for (column, index) in self.indexes.iter_mut().enumerate() {
            index.postings.set(slot, rows.get(row, column));
        }
    }

    /// Puts a key into quarantine, changes why it is there, or takes it out.
    pub(super) fn set_quarantine(&mut self, hash: u64, key: &Q, bad: Option<Bad>) {
        let found = self.quarantine.find_entry(hash, |entry| entry.key == *key);
        match (found, bad) {
            (Ok(mut entry), Some(bad)) => entry.get_mut().bad = bad,
            (Ok(entry), None) => {
                entry.remove();
            }
            (Err(_), Some(bad)) => {
                self.quarantined_so_far += 1;
                let hasher = &self.hasher;
                let entry = Quarantine {
                    key: key.clone(),
                    bad,
                    order: self.quarantined_so_far,
                };
                self.quarantine
                    .insert_unique(hash, entry, |entry| hasher.hash_one(&entry.key));
            }
            (Err(_), None) => {}
        }
    }

    /// Whether so few slots are left in use that the memory of the others is worth an effort. Never while an
    /// index is being built, because its builder remembers slots.
    pub(super) fn is_sparse(&self) -> bool {
        self.entries.len() > SMALL
            && self.len() < self.entries.len() / 4
            && self.indexes.iter().all(|index| index.ready)
    }

    /// The same table with its entries moved together; their order stays.
    pub(super) fn compacted(&self) -> Self {
        let mut table = Self::new(self.hasher.clone());
        table.indexes = (self.indexes.iter())
            .map(|index| TableIndex {
                def: index.def.clone(),
                postings: Postings::default(),
                ready: index.ready,
            })
            .collect();
        table.versions.clone_from(&self.versions);
        table.quarantine.clone_from(&self.quarantine);
        table.quarantined_so_far = self.quarantined_so_far;
        for (from, entry, object) in self.iter() {
            let to = table.entries.len() as u32;
            table.entries.push(Some(entry.clone()));
            table.slots.set(to, Some(object.clone()));
            let (hasher, entries) = (&table.hasher, &table.entries);
            table
                .by_key
                .insert_unique(hasher.hash_one(&entry.key), to, |slot| {
                    rehash(hasher, entries, *slot)
                });
            for (old, new) in self.indexes.iter().zip(&mut table.indexes) {
                let values = old.postings.values_of(from).map(|value| &**value);
                new.postings.set(to, values);
            }
        }
        table
    }
}

fn rehash<Q: Hash>(hasher: &RandomState, entries: &[Option<Entry<Q>>], slot: u32) -> u64 {
    match entries.get(slot as usize) {
        Some(Some(entry)) => hasher.hash_one(&entry.key),
        // Every slot in the map has an entry.
        _ => 0,
    }
}

impl<V, Q: Clone> Clone for Table<V, Q> {
    fn clone(&self) -> Self {
        Self {
            hasher: self.hasher.clone(),
            slots: self.slots.clone(),
            entries: self.entries.clone(),
            by_key: self.by_key.clone(),
            free: self.free.clone(),
            indexes: self.indexes.iter().map(TableIndex::clone).collect(),
            versions: self.versions.clone(),
            quarantine: self.quarantine.clone(),
            quarantined_so_far: self.quarantined_so_far,
        }
    }
}

impl<V> Clone for TableIndex<V> {
    fn clone(&self) -> Self {
        Self {
            def: self.def.clone(),
            postings: self.postings.clone(),
            ready: self.ready,
        }
    }
}
