//! `KeyMap`: slots by the hash of their key, in small hash tables that views share and writes copy.

use std::sync::Arc;

use hashbrown::HashTable;

/// The average number of keys in a leaf, at most. An insertion or a removal while a view exists copies one leaf, and the list
/// of leaves once per view.
const KEYS: usize = 64;

/// Slots by the hash of their key.
///
/// Cloning copies one pointer, as for [`Slots`](super::slots::Slots). The keys themselves are elsewhere: every method that
/// needs one is given a function.
pub(super) struct KeyMap {
    /// Their number is a power of two.
    leaves: Arc<Vec<Arc<HashTable<u32>>>>,
    len: usize,
}

impl KeyMap {
    pub(super) fn new() -> Self {
        Self {
            leaves: Arc::new(vec![Arc::default()]),
            len: 0,
        }
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot with this hash for which `is_wanted` returns true.
    pub(super) fn find(&self, hash: u64, mut is_wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let leaf = self.leaves.get(leaf_of(hash, self.leaves.len()))?;
        leaf.find(hash, |slot| is_wanted(*slot)).copied()
    }

    /// Adds a slot that is not in the map. `hash_of` returns the hash of the key in a slot.
    pub(super) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        self.reserve(1, &hash_of);
        self.leaf_mut(hash)
            .insert_unique(hash, slot, |slot| hash_of(*slot));
        self.len += 1;
    }

    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        if let Ok(found) = self.leaf_mut(hash).find_entry(hash, |other| *other == slot) {
            found.remove();
            self.len -= 1;
        }
    }

    /// Makes room for more keys. Many insertions without it would hash every key repeatedly.
    pub(super) fn reserve(&mut self, additional: usize, hash_of: impl Fn(u32) -> u64) {
        let expected = self.len + additional;
        if expected <= self.leaves.len() * KEYS {
            return;
        }
        let count = expected.div_ceil(KEYS).next_power_of_two();
        let mut leaves: Vec<HashTable<u32>> = (0..count)
            .map(|_| HashTable::with_capacity(expected.div_ceil(count)))
            .collect();
        for slot in self.leaves.iter().flat_map(|leaf| leaf.iter()) {
            let hash = hash_of(*slot);
            leaves[leaf_of(hash, count)].insert_unique(hash, *slot, |slot| hash_of(*slot));
        }
        self.leaves = Arc::new(leaves.into_iter().map(Arc::new).collect());
    }

    /// The memory of the leaves.
    pub(super) fn bytes(&self) -> usize {
        let leaves = self.leaves.iter().map(|leaf| leaf.allocation_size());
        let headers = self.leaves.len() * (size_of::<HashTable<u32>>() + size_of::<usize>());
        leaves.sum::<usize>() + headers
    }

    fn leaf_mut(&mut self, hash: u64) -> &mut HashTable<u32> {
        let leaf = leaf_of(hash, self.leaves.len());
        Arc::make_mut(&mut Arc::make_mut(&mut self.leaves)[leaf])
    }
}

/// Uses bits in the middle of the hash: within a leaf, the lowest and the highest ones count.
fn leaf_of(hash: u64, count: usize) -> usize {
    (hash >> 32) as usize & (count - 1)
}

impl Clone for KeyMap {
    fn clone(&self) -> Self {
        Self {
            leaves: self.leaves.clone(),
            len: self.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hash::BuildHasher;

    use foldhash::fast::RandomState;

    use super::*;

    #[test]
    fn a_key_is_found_until_it_is_removed_also_after_growing() {
        let hasher = RandomState::default();
        let hash_of = |slot: u32| hasher.hash_one(slot);
        let mut map = KeyMap::new();
        let mut model = HashMap::new();
        for slot in 0..5_000 {
            map.insert(hash_of(slot), slot, hash_of);
            model.insert(slot, ());
            if slot % 3 == 0 {
                map.remove(hash_of(slot / 2), slot / 2);
                model.remove(&(slot / 2));
            }
            assert_eq!(map.len(), model.len());
        }
        assert!(map.leaves.len() >= model.len() / KEYS);
        for slot in 0..6_000 {
            let found = map.find(hash_of(slot), |other| other == slot);
            assert_eq!(found, model.get(&slot).map(|()| slot));
        }
    }

    #[test]
    fn keys_with_equal_hashes_are_distinguished() {
        let mut map = KeyMap::new();
        for slot in 0..300 {
            map.insert(7, slot, |_| 7);
        }
        assert_eq!(map.find(7, |slot| slot == 299), Some(299));
        map.remove(7, 299);
        assert_eq!(map.find(7, |slot| slot == 299), None);
        assert_eq!(map.len(), 299);
    }

    #[test]
    fn a_clone_is_not_affected_by_later_writes() {
        let hasher = RandomState::default();
        let hash_of = |slot: u32| hasher.hash_one(slot);
        let mut map = KeyMap::new();
        map.reserve(1_000, hash_of);
        let leaves = map.leaves.len();
        for slot in 0..1_000 {
            map.insert(hash_of(slot), slot, hash_of);
        }
        assert_eq!(map.leaves.len(), leaves, "the room was reserved");
        let before = map.clone();

        map.remove(hash_of(0), 0);
        map.insert(hash_of(1_000), 1_000, hash_of);

        assert_eq!(before.len(), 1_000);
        assert_eq!(before.find(hash_of(0), |slot| slot == 0), Some(0));
        assert_eq!(before.find(hash_of(1_000), |slot| slot == 1_000), None);
        let shared = (map.leaves.iter().zip(before.leaves.iter())).filter(|(new, old)| Arc::ptr_eq(new, old));
        assert!(shared.count() >= leaves - 2, "a write copies one leaf");
    }
}
