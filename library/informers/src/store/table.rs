//! `Table`: the data behind the store's lock. Objects in slots, their keys, the indexes, the progress of each watch, and
//! the quarantine.
//!
//! It carries out a finished `WritePlan`. It makes no decisions and runs no user code.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::Equivalent;

use super::index_values::{IndexDef, IndexValues};
use super::keyed_objects::{KeyedObjects, SlotEntry};
use super::planned::{BadVersion, PlannedKey, PlannedObject, WritePlan};
use super::postings::Postings;
use super::progress::WatchProgress;
use super::quarantined::QuarantineTable;
use super::slots::Slots;

/// Tables with fewer slots than this are not worth compacting.
const SMALL: usize = 1024;

pub(super) struct Table<V, Q> {
    objects: KeyedObjects<V, Q>,
    /// The number of slots, used or empty.
    capacity: u32,
    /// Empty slots; the last one is used next.
    free: Vec<u32>,
    /// Only grows, so a column number stays valid.
    indexes: Vec<TableIndex<V>>,
    /// By watch. `None` for a watch that was removed.
    progress: Vec<Option<WatchProgress>>,
    quarantine: QuarantineTable<Q>,
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
            objects: KeyedObjects::new(hasher),
            capacity: 0,
            free: Vec::new(),
            indexes: Vec::new(),
            progress: Vec::new(),
            quarantine: QuarantineTable::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects with their keys.
    pub(super) fn objects(&self) -> &KeyedObjects<V, Q> {
        &self.objects
    }

    pub(super) fn slots(&self) -> &Slots<Arc<V>> {
        self.objects.slots()
    }

    pub(super) fn hash<L: Hash + ?Sized>(&self, key: &L) -> u64 {
        self.objects.hasher().hash_one(key)
    }

    /// The slot of a key.
    pub(super) fn find<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<u32> {
        self.objects.find(key)
    }

    pub(super) fn find_hashed<L: Equivalent<Q> + ?Sized>(&self, hash: u64, key: &L) -> Option<u32> {
        self.objects.find_hashed(hash, key)
    }

    /// The entry and object of a key.
    pub(super) fn get<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<(&SlotEntry<Q>, &Arc<V>)> {
        self.at(self.find(key)?)
    }

    /// The entry and object in a slot.
    pub(super) fn at(&self, slot: u32) -> Option<(&SlotEntry<Q>, &Arc<V>)> {
        self.objects.at(slot)
    }

    pub(super) fn entry(&self, slot: u32) -> Option<&SlotEntry<Q>> {
        self.objects.entry(slot)
    }

    /// All entries with their slots and objects, in slot order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &SlotEntry<Q>, &Arc<V>)> {
        self.objects.iter()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
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

    /// The version of the only watch; `None` if there are several.
    pub(super) fn version(&self) -> Option<&Arc<str>> {
        let mut versions = self.versions();
        let only = versions.next()?;
        only.filter(|_| versions.next().is_none())
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
            self.objects.reserve(new);
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
            self.quarantine.set(self.objects.hasher(), hash, &key, bad);
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
        let slot = self.free.pop().unwrap_or_else(|| {
            self.capacity += 1;
            self.capacity - 1
        });
        let entry = SlotEntry {
            key,
            member: held.member,
            age: held.age,
        };
        self.objects.insert(hash, slot, entry, held.object);
        self.set_values(slot, held.row, values);
    }

    fn update(&mut self, slot: u32, held: PlannedObject<V>, values: &IndexValues<V>) -> Option<Arc<V>> {
        self.objects.set_origin(slot, held.member, held.age);
        // Without a row, the object is the one in the table.
        held.row?;
        self.set_values(slot, held.row, values);
        self.objects.replace(slot, held.object)
    }

    fn remove(&mut self, hash: u64, slot: u32) -> Option<Arc<V>> {
        for index in &mut self.indexes {
            index.postings.clear(slot);
        }
        self.free.push(slot);
        self.objects.remove(hash, slot)
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
        self.quarantine.set(self.objects.hasher(), hash, key, Some(bad));
    }

    /// Whether few enough slots are used to compact the table. Never while an index is being built, because its builder
    /// keeps slot numbers.
    pub(super) fn is_sparse(&self) -> bool {
        self.capacity() > SMALL
            && self.len() < self.capacity() / 4
            && self.indexes.iter().all(|index| index.ready)
    }

    /// The same table without empty slots. The order of objects stays.
    pub(super) fn compacted(&self) -> Self {
        let mut table = Self::new(self.objects.hasher().clone());
        table.objects.reserve(self.len());
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
            let to = table.capacity;
            table.capacity += 1;
            let hash = table.hash(&entry.key);
            table.objects.insert(hash, to, entry.clone(), object.clone());
            for (old, new) in self.indexes.iter().zip(&mut table.indexes) {
                let values = old.postings.values_of(from).map(|value| &**value);
                new.postings.set(to, values);
            }
        }
        table
    }
}

impl<V, Q: Clone> Clone for Table<V, Q> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            capacity: self.capacity,
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

#[cfg(test)]
mod tests {
    use crate::store::StoreWriter;

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
}
