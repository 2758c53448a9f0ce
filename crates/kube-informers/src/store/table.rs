//! `Table`: the data behind the store's lock. Objects in slots, their keys, the indexes, the progress of each watch, and
//! the quarantine.
//!
//! It carries out a finished `WritePlan`. It makes no decisions and runs no user code.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashTable};

use super::index::Postings;
use super::index_values::{IndexDef, IndexValues};
use super::plan::{Age, BadVersion, PlannedKey, PlannedObject, WritePlan};
use super::progress::WatchProgress;
use super::quarantined::QuarantineTable;

/// Tables with fewer slots than this are not worth compacting.
const SMALL: usize = 1024;

pub(super) struct Table<V, Q> {
    hasher: RandomState,
    slots: Slots<V>,
    /// The key and origin of each object. `None` exactly where the slot is empty.
    entries: Vec<Option<SlotEntry<Q>>>,
    /// Slots by the hash of their key.
    by_key: HashTable<u32>,
    /// Empty slots; the last one is used next.
    free: Vec<u32>,
    /// Only grows, so a column number stays valid.
    indexes: Vec<TableIndex<V>>,
    /// By watch. `None` for a watch that was removed.
    progress: Vec<Option<WatchProgress>>,
    quarantine: QuarantineTable<Q>,
}

#[derive(Clone)]
pub(super) struct SlotEntry<Q> {
    pub(super) key: Q,
    /// The watch that last delivered it.
    pub(super) member: u32,
    pub(super) age: Age,
}

pub(super) struct TableIndex<V> {
    pub(super) def: Arc<IndexDef<V>>,
    pub(super) postings: Postings,
    /// Whether it covers every object. Readers see it only then.
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
            progress: Vec::new(),
            quarantine: QuarantineTable::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn slots(&self) -> &Slots<V> {
        &self.slots
    }

    pub(super) fn hash<L: Hash + ?Sized>(&self, key: &L) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The slot of a key.
    pub(super) fn find<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<u32> {
        self.find_hashed(self.hash(key), key)
    }

    pub(super) fn find_hashed<L: Equivalent<Q> + ?Sized>(&self, hash: u64, key: &L) -> Option<u32> {
        let is_slot = |slot: &u32| self.entry(*slot).is_some_and(|entry| key.equivalent(&entry.key));
        self.by_key.find(hash, is_slot).copied()
    }

    /// The entry and object of a key.
    pub(super) fn get<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<(&SlotEntry<Q>, &Arc<V>)> {
        self.at(self.find(key)?)
    }

    /// The entry and object in a slot.
    pub(super) fn at(&self, slot: u32) -> Option<(&SlotEntry<Q>, &Arc<V>)> {
        Some((self.entry(slot)?, self.slots.get(slot)?))
    }

    pub(super) fn entry(&self, slot: u32) -> Option<&SlotEntry<Q>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    /// All entries with their slots and objects, in slot order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &SlotEntry<Q>, &Arc<V>)> {
        let objects = self.slots.enumerate();
        objects.filter_map(|(slot, object)| Some((slot, self.entry(slot)?, object)))
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The room for entries, in the map from keys to slots, and for slots.
    pub(super) fn capacities(&self) -> (usize, usize, usize) {
        let slots = self.slots.leaves.len() * LEAF;
        (self.entries.capacity(), self.by_key.capacity(), slots)
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
        self.progress.iter().flatten().map(WatchProgress::version)
    }

    pub(super) fn progress(&self, member: usize) -> WatchProgress {
        self.progress.get(member).cloned().flatten().unwrap_or_default()
    }

    /// The version of a key that is in quarantine.
    pub(super) fn bad<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<&BadVersion> {
        self.bad_hashed(self.hash(key), key)
    }

    pub(super) fn bad_hashed<L: Equivalent<Q> + ?Sized>(&self, hash: u64, key: &L) -> Option<&BadVersion> {
        self.quarantine.get(hash, key)
    }

    pub(super) fn quarantine(&self) -> &QuarantineTable<Q> {
        &self.quarantine
    }
}

impl<V, Q: Hash + Eq + Clone> Table<V, Q> {
    /// Carries out a plan. Returns the objects that left the table, to be dropped outside the lock: that may free much
    /// memory.
    pub(super) fn commit(&mut self, plan: WritePlan<V, Q>, values: &IndexValues<V>) -> Vec<Arc<V>> {
        let WritePlan { keys, progress, .. } = plan;
        let new = keys.iter().filter(|planned| planned.slot.is_none()).count();
        if new > SMALL {
            // Growing in steps would rehash every key repeatedly.
            let (hasher, entries) = (&self.hasher, &self.entries);
            self.by_key.reserve(new, |slot| rehash(hasher, entries, *slot));
        }
        let mut gone = Vec::new();
        for planned in keys {
            let PlannedKey {
                hash,
                key,
                slot,
                held,
                bad,
            } = planned;
            self.quarantine.set(&self.hasher, hash, &key, bad);
            match (slot, held) {
                (Some(slot), Some(held)) => gone.extend(self.update(slot, held, values)),
                (None, Some(held)) => self.insert(hash, key, held, values),
                (Some(slot), None) => gone.extend(self.remove(hash, slot)),
                (None, None) => {}
            }
        }
        if let Some((member, progress)) = progress {
            if self.progress.len() <= member {
                self.progress.resize(member + 1, Some(WatchProgress::default()));
            }
            self.progress[member] = progress;
        }
        gone
    }

    fn insert(&mut self, hash: u64, key: Q, held: PlannedObject<V>, values: &IndexValues<V>) {
        let entry = Some(SlotEntry {
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
        self.set_values(slot, held.row, values);
    }

    fn update(&mut self, slot: u32, held: PlannedObject<V>, values: &IndexValues<V>) -> Option<Arc<V>> {
        if let Some(entry) = &mut self.entries[slot as usize] {
            entry.member = held.member;
            entry.age = held.age;
        }
        // Without a row, the object is the one in the table.
        held.row?;
        if !mutant!(IndexNotUpdated) {
            self.set_values(slot, held.row, values);
        }
        self.slots.set(slot, Some(held.object))
    }

    fn remove(&mut self, hash: u64, slot: u32) -> Option<Arc<V>> {
        if let Ok(entry) = self.by_key.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        for index in self.indexes.iter_mut().filter(|_| !mutant!(IndexNotCleared)) {
            index.postings.clear(slot);
        }
        self.entries[slot as usize] = None;
        self.free.push(slot);
        self.slots.set(slot, None)
    }

    fn set_values(&mut self, slot: u32, row: Option<usize>, values: &IndexValues<V>) {
        let Some(row) = row else { return };
        for (column, index) in self.indexes.iter_mut().enumerate() {
            index.postings.set(slot, values.get(row, column));
        }
    }

    /// Puts a key into quarantine.
    pub(super) fn set_quarantine(&mut self, key: &Q, bad: BadVersion) {
        let hash = self.hash(key);
        self.quarantine.set(&self.hasher, hash, key, Some(bad));
    }

    /// Whether few enough slots are used to compact the table. Never while an index is being built, because its builder
    /// keeps slot numbers.
    pub(super) fn is_sparse(&self) -> bool {
        self.entries.len() > SMALL
            && self.len() < self.entries.len() / 4
            && self.indexes.iter().all(|index| index.ready)
    }

    /// The same table without empty slots. The order of objects stays.
    pub(super) fn compacted(&self) -> Self {
        let mut table = Self::new(self.hasher.clone());
        table.indexes = (self.indexes.iter())
            .map(|index| TableIndex {
                def: index.def.clone(),
                postings: Postings::default(),
                ready: index.ready,
            })
            .collect();
        table.progress.clone_from(&self.progress);
        table.quarantine.clone_from(&self.quarantine);
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

fn rehash<Q: Hash>(hasher: &RandomState, entries: &[Option<SlotEntry<Q>>], slot: u32) -> u64 {
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
            progress: self.progress.clone(),
            quarantine: self.quarantine.clone(),
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

/// Slots in a leaf. A write while a snapshot exists changes the reference count of every leaf and of every object in one
/// leaf. With 100,000 objects listed in a loop, the median write differs by about a microsecond between 16, 64 and 256;
/// the slowest percentile is best with 16 and 64, and 16 makes the list of leaves four times as long.
const LEAF: usize = 64;

type Leaf<V> = [Option<Arc<V>>; LEAF];

/// Objects by slot number, in leaves that snapshots share and writes copy.
///
/// Cloning copies one pointer. The first write after a clone copies the list of leaves, and each leaf it changes. Without a
/// clone, writes are in place.
pub(super) struct Slots<V> {
    leaves: Arc<Vec<Arc<Leaf<V>>>>,
}

impl<V> Slots<V> {
    pub(super) fn new() -> Self {
        Self {
            leaves: Arc::default(),
        }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Arc<V>> {
        let (leaf, place) = split(slot);
        self.leaves.get(leaf)?[place].as_ref()
    }

    /// Replaces the content of a slot and returns the old one. Grows as needed.
    pub(super) fn set(&mut self, slot: u32, object: Option<Arc<V>>) -> Option<Arc<V>> {
        let (leaf, place) = split(slot);
        let leaves = Arc::make_mut(&mut self.leaves);
        if leaves.len() <= leaf {
            leaves.resize_with(leaf + 1, || Arc::new([const { None }; LEAF]));
        }
        std::mem::replace(&mut Arc::make_mut(&mut leaves[leaf])[place], object)
    }

    /// The objects in slot order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.leaves.iter().flat_map(|leaf| leaf.iter().flatten())
    }

    /// The objects in slot order, with their slots.
    pub(super) fn enumerate(&self) -> impl Iterator<Item = (u32, &Arc<V>)> {
        self.leaves
            .iter()
            .flat_map(|leaf| leaf.iter())
            .enumerate()
            .filter_map(|(slot, object)| Some((slot as u32, object.as_ref()?)))
    }
}

fn split(slot: u32) -> (usize, usize) {
    (slot as usize / LEAF, slot as usize % LEAF)
}

impl<V> Clone for Slots<V> {
    fn clone(&self) -> Self {
        Self {
            leaves: self.leaves.clone(),
        }
    }
}

impl<V> FromIterator<Arc<V>> for Slots<V> {
    fn from_iter<I: IntoIterator<Item = Arc<V>>>(objects: I) -> Self {
        let mut slots = Self::new();
        for (slot, object) in objects.into_iter().enumerate() {
            slots.set(slot as u32, Some(object));
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreWriter;

    #[test]
    fn a_clone_is_not_affected_by_later_writes() {
        let mut slots: Slots<u32> = (0..200).map(Arc::new).collect();
        let before = slots.clone();

        slots.set(70, None);
        slots.set(500, Some(Arc::new(1)));

        assert_eq!(before.iter().count(), 200);
        assert_eq!(before.get(70).map(|v| **v), Some(70));
        assert_eq!(before.get(500), None);
        assert_eq!(slots.iter().count(), 200);
        assert_eq!(slots.get(70), None);
        assert_eq!(
            slots.enumerate().last().map(|(slot, v)| (slot, **v)),
            Some((500, 1))
        );
    }

    #[test]
    fn a_table_is_compacted_when_less_than_a_quarter_is_used() {
        let mut writer = StoreWriter::with_key(|name: &String| name.clone());
        for number in 0..2048 {
            writer.insert(number.to_string()).unwrap();
        }
        let store = writer.store();

        for number in 512..2048 {
            writer.remove(&number.to_string());
        }
        assert_eq!(store.table().capacity(), 2048, "a quarter is used");
        writer.remove(&"0".to_owned());
        assert_eq!(store.table().capacity(), 511);
    }

    #[test]
    fn a_write_copies_one_leaf_if_a_clone_exists() {
        let mut slots: Slots<u32> = (0..200).map(Arc::new).collect();
        let leaf = |slots: &Slots<u32>, n: usize| Arc::as_ptr(&slots.leaves[n]);
        let (first, second) = (leaf(&slots, 0), leaf(&slots, 1));

        slots.set(3, None);
        assert_eq!(leaf(&slots, 0), first);

        let snapshot = slots.clone();
        slots.set(3, Some(Arc::new(3)));
        assert_ne!(leaf(&slots, 0), first);
        assert_eq!(leaf(&slots, 1), second);
        drop(snapshot);
    }
}
