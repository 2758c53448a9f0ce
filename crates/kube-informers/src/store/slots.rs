//! Objects by slot number, in leaves that snapshots share and writes copy.
//!
//! Cloning costs one pointer. The first write after a clone copies the list of leaves, and each leaf it
//! touches; without a living clone a write is in place. Knows neither keys nor indexes.

use std::sync::Arc;

/// Slots in a leaf. A write under a living snapshot touches the reference count of every object of one leaf
/// and of every leaf. With 100,000 objects listed in a loop, 16, 64 and 256 differ by about a microsecond in
/// the median write; the slowest hundredth is best with the smaller two, and 16 would make the list of leaves
/// four times as long.
const LEAF: usize = 64;

type Leaf<V> = [Option<Arc<V>>; LEAF];

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

    /// Puts an object into a slot, or empties it, and returns what was there. Grows as needed.
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

    #[test]
    fn a_clone_keeps_what_it_saw() {
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
    fn a_write_copies_one_leaf_only_and_only_under_a_clone() {
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
