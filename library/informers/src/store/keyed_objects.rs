//! `KeyedObjects`: objects in slots, with their keys. The part of a table that views share.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::Equivalent;

use super::key_map::KeyMap;
use super::planned::Age;
use super::slots::Slots;

/// Objects in slots, with their keys.
///
/// Cloning copies three pointers. A write after that copies the leaves it changes; without a clone, writes are in place. An
/// update changes the slot of the object only, so keys are copied for insertions and removals.
pub(super) struct KeyedObjects<V, Q> {
    hasher: RandomState,
    objects: Slots<Arc<V>>,
    /// The key and origin of each object. Empty exactly where `objects` is.
    entries: Slots<SlotEntry<Q>>,
    slots_by_key: KeyMap,
}

#[derive(Clone)]
pub(super) struct SlotEntry<Q> {
    pub(super) key: Q,
    /// The watch that last delivered it.
    pub(super) member: u32,
    pub(super) age: Age,
}

impl<V, Q> KeyedObjects<V, Q> {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self {
            hasher,
            objects: Slots::new(),
            entries: Slots::new(),
            slots_by_key: KeyMap::new(),
        }
    }

    pub(super) fn hasher(&self) -> &RandomState {
        &self.hasher
    }

    pub(super) fn len(&self) -> usize {
        self.slots_by_key.len()
    }

    pub(super) fn slots(&self) -> &Slots<Arc<V>> {
        &self.objects
    }

    /// The slot of a key.
    pub(super) fn find<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<u32> {
        self.find_hashed(self.hasher.hash_one(key), key)
    }

    pub(super) fn find_hashed<L: Equivalent<Q> + ?Sized>(&self, hash: u64, key: &L) -> Option<u32> {
        let is_slot = |slot| self.entry(slot).is_some_and(|entry| key.equivalent(&entry.key));
        self.slots_by_key.find(hash, is_slot)
    }

    /// The object with a key. Reads no more of the entry than the key, which is compared.
    pub(super) fn get<L: Hash + Equivalent<Q> + ?Sized>(&self, key: &L) -> Option<&Arc<V>> {
        self.objects.get(self.find(key)?)
    }

    /// The entry and object in a slot.
    pub(super) fn at(&self, slot: u32) -> Option<(&SlotEntry<Q>, &Arc<V>)> {
        Some((self.entry(slot)?, self.objects.get(slot)?))
    }

    pub(super) fn entry(&self, slot: u32) -> Option<&SlotEntry<Q>> {
        self.entries.get(slot)
    }

    /// All entries with their slots and objects, in slot order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &SlotEntry<Q>, &Arc<V>)> {
        let objects = self.objects.enumerate();
        objects.filter_map(|(slot, object)| Some((slot, self.entry(slot)?, object)))
    }

    /// The memory of the arrays: of entries, of the map from keys to slots, and of slots.
    pub(super) fn bytes(&self) -> usize {
        self.entries.bytes() + self.slots_by_key.bytes() + self.objects.bytes()
    }
}

impl<V, Q: Hash + Clone> KeyedObjects<V, Q> {
    /// Makes room for more objects.
    pub(super) fn reserve(&mut self, additional: usize) {
        let (hasher, entries) = (&self.hasher, &self.entries);
        self.slots_by_key
            .reserve(additional, |slot| rehash(hasher, entries, slot));
    }

    /// Fills an empty slot. No other slot has this key.
    pub(super) fn insert(&mut self, hash: u64, slot: u32, entry: SlotEntry<Q>, object: Arc<V>) {
        self.entries.set(slot, Some(entry));
        let (hasher, entries) = (&self.hasher, &self.entries);
        self.slots_by_key
            .insert(hash, slot, |slot| rehash(hasher, entries, slot));
        self.objects.set(slot, Some(object));
    }

    /// Changes the origin of an object.
    pub(super) fn set_origin(&mut self, slot: u32, member: u32, age: Age) {
        // Most updates do not change it, and a write would copy the keys around it for a view.
        if let Some(entry) = self.entry(slot)
            && (entry.member, entry.age) != (member, age)
        {
            let key = entry.key.clone();
            self.entries.set(slot, Some(SlotEntry { key, member, age }));
        }
    }

    /// Replaces an object and returns the old one.
    pub(super) fn replace(&mut self, slot: u32, object: Arc<V>) -> Option<Arc<V>> {
        self.objects.set(slot, Some(object))
    }

    /// Empties a slot and returns its object.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) -> Option<Arc<V>> {
        self.slots_by_key.remove(hash, slot);
        self.entries.set(slot, None);
        self.objects.set(slot, None)
    }
}

fn rehash<Q: Hash>(hasher: &RandomState, entries: &Slots<SlotEntry<Q>>, slot: u32) -> u64 {
    // Every slot in the map has an entry.
    entries.get(slot).map_or(0, |entry| hasher.hash_one(&entry.key))
}

impl<V, Q> Clone for KeyedObjects<V, Q> {
    fn clone(&self) -> Self {
        Self {
            hasher: self.hasher.clone(),
            objects: self.objects.clone(),
            entries: self.entries.clone(),
            slots_by_key: self.slots_by_key.clone(),
        }
    }
}
