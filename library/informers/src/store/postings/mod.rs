//! `Postings`: the mapping from index values to slots, and the sets of slots.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

/// One index in the table: value to slots, and slot to values, so that a write need not call the index function for the
/// old object.
#[derive(Clone, Default)]
pub(super) struct Postings {
    hasher: RandomState,
    /// Positions in `postings` by the hash of the value.
    by_value: HashTable<u32>,
    postings: Vec<Posting>,
    /// Unused positions in `postings`.
    free: Vec<u32>,
    column: Column,
}

#[derive(Clone)]
struct Posting {
    value: Arc<str>,
    slots: SlotSet,
}

impl Postings {
    /// Sets the values of a slot. Repeated values count once.
    pub(super) fn set<'a>(&mut self, slot: u32, values: impl Iterator<Item = &'a str>) {
        let mut new = Ids::None;
        for value in values {
            new.add(self.intern(value));
        }
        let old = self.column.take(slot);
        for id in old.iter().filter(|id| !new.contains(**id)) {
            self.unlink(*id, slot);
        }
        for id in new.iter().filter(|id| !old.contains(**id)) {
            self.postings[*id as usize].slots.insert(slot);
        }
        self.column.put(slot, new);
    }

    /// Removes a slot, as if it was never set.
    pub(super) fn clear(&mut self, slot: u32) {
        for id in self.column.take(slot).iter() {
            self.unlink(*id, slot);
        }
    }

    /// The memory it occupies.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.postings.iter().map(|posting| posting.value.len() + 16);
        let sets = self.postings.iter().map(|posting| match &posting.slots {
            SlotSet::Empty | SlotSet::One(_) => 0,
            SlotSet::Few(slots) => slots.capacity() * size_of::<u32>(),
            // A node of a `BTreeMap` is about two thirds full.
            SlotSet::Many { words, .. } => words.len() * size_of::<(u32, u64)>() * 3 / 2,
        });
        texts.sum::<usize>()
            + sets.sum::<usize>()
            + self.postings.capacity() * size_of::<Posting>()
            + self.by_value.capacity() * (size_of::<u32>() + 1)
            + self.column.first.capacity() * size_of::<u32>()
            + self
                .column
                .many
                .values()
                .map(|ids| 24 + size_of_val(&**ids))
                .sum::<usize>()
    }

    /// Whether the values of this slot were set, even to none.
    pub(super) fn is_set(&self, slot: u32) -> bool {
        self.column.is_set(slot)
    }

    /// The values of a slot.
    pub(super) fn values_of(&self, slot: u32) -> impl Iterator<Item = &Arc<str>> {
        let ids = self.column.get(slot).iter();
        ids.map(|id| &self.postings[*id as usize].value)
    }

    /// The slots with this value.
    pub(super) fn slots(&self, value: &str) -> Option<&SlotSet> {
        let id = self.find(self.hasher.hash_one(value), value)?;
        Some(&self.postings[id as usize].slots)
    }

    /// The values that at least one slot has, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_value.iter().map(|id| &self.postings[*id as usize].value)
    }

    fn find(&self, hash: u64, value: &str) -> Option<u32> {
        let is = |id: &u32| &*self.postings[*id as usize].value == value;
        self.by_value.find(hash, is).copied()
    }

    /// The position of a value. The caller must add a slot to a new posting.
    fn intern(&mut self, value: &str) -> u32 {
        let hash = self.hasher.hash_one(value);
        if let Some(id) = self.find(hash, value) {
            return id;
        }
        let posting = Posting {
            value: value.into(),
            slots: SlotSet::Empty,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.postings[id as usize] = posting;
                id
            }
            None => {
                self.postings.push(posting);
                (self.postings.len() - 1) as u32
            }
        };
        let (hasher, postings) = (&self.hasher, &self.postings);
        self.by_value
            .insert_unique(hash, id, |id| hasher.hash_one(&*postings[*id as usize].value));
        id
    }

    /// Removes a slot from a posting, and the posting if it is empty.
    fn unlink(&mut self, id: u32, slot: u32) {
        let posting = &mut self.postings[id as usize];
        posting.slots.remove(slot);
        if posting.slots.is_empty() {
            let hash = self.hasher.hash_one(&*posting.value);
            posting.value = Arc::default();
            if let Ok(entry) = self.by_value.find_entry(hash, |other| *other == id) {
                entry.remove();
            }
            self.free.push(id);
        }
    }
}

/// The postings of each slot. One posting, by far the most common case, takes four bytes.
#[derive(Clone, Default)]
struct Column {
    first: Vec<u32>,
    /// Slots with several values.
    many: HashMap<u32, Box<[u32]>, RandomState>,
}

const UNSET: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
const MANY: u32 = u32::MAX - 2;

/// The postings of one slot, in ascending order.
enum Ids {
    None,
    One(u32),
    Many(Vec<u32>),
}

impl Ids {
    fn iter(&self) -> std::slice::Iter<'_, u32> {
        match self {
            Self::None => [].iter(),
            Self::One(id) => std::slice::from_ref(id).iter(),
            Self::Many(ids) => ids.iter(),
        }
    }

    fn contains(&self, id: u32) -> bool {
        self.iter().as_slice().binary_search(&id).is_ok()
    }

    fn add(&mut self, id: u32) {
        match self {
            Self::None => *self = Self::One(id),
            Self::One(present) if *present == id => {}
            Self::One(present) => {
                let present = *present;
                *self = Self::Many(vec![present.min(id), present.max(id)]);
            }
            Self::Many(ids) => {
                if let Err(place) = ids.binary_search(&id) {
                    ids.insert(place, id);
                }
            }
        }
    }
}

impl Column {
    fn is_set(&self, slot: u32) -> bool {
        self.first.get(slot as usize).is_some_and(|id| *id != UNSET)
    }

    fn get(&self, slot: u32) -> &[u32] {
        match self.first.get(slot as usize) {
            None | Some(&UNSET | &NONE) => &[],
            Some(&MANY) => self.many.get(&slot).map_or(&[], |ids| ids),
            Some(id) => std::slice::from_ref(id),
        }
    }

    fn take(&mut self, slot: u32) -> Ids {
        let Some(first) = self.first.get_mut(slot as usize) else {
            return Ids::None;
        };
        match std::mem::replace(first, UNSET) {
            UNSET | NONE => Ids::None,
            MANY => self
                .many
                .remove(&slot)
                .map_or(Ids::None, |ids| Ids::Many(ids.into())),
            id => Ids::One(id),
        }
    }

    fn put(&mut self, slot: u32, ids: Ids) {
        if self.first.len() <= slot as usize {
            self.first.resize(slot as usize + 1, UNSET);
        }
        self.first[slot as usize] = match ids {
            Ids::None => NONE,
            Ids::One(id) => id,
            Ids::Many(ids) => {
                self.many.insert(slot, ids.into());
                MANY
            }
        };
    }
}

/// Sets with more slots than this use a bitmap instead of a sorted array, which would be slow to change.
const FEW: usize = 64;

/// An ordered set of slots: what an index has for one value.
///
/// Most values belong to one or a few objects, so small sets are compact. Large sets (a namespace, a node) change in
/// logarithmic time and are compact if their slots are adjacent, as they are after a list.
#[derive(Clone, Debug, Default)]
pub(super) enum SlotSet {
    #[default]
    Empty,
    One(u32),
    /// Sorted.
    Few(Vec<u32>),
    /// Slot `64 * key + bit`. No word is zero.
    Many {
        words: BTreeMap<u32, u64>,
        len: usize,
    },
}

impl SlotSet {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(_) => 1,
            Self::Few(slots) => slots.len(),
            Self::Many { len, .. } => *len,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn insert(&mut self, slot: u32) {
        match self {
            Self::Empty => *self = Self::One(slot),
            Self::One(present) if *present == slot => {}
            Self::One(present) => {
                let present = *present;
                *self = Self::Few(vec![present.min(slot), present.max(slot)]);
            }
            Self::Few(slots) => {
                let Err(place) = slots.binary_search(&slot) else {
                    return;
                };
                slots.insert(place, slot);
                if slots.len() > FEW {
                    *self = Self::many(slots);
                }
            }
            Self::Many { words, len } => {
                let word = words.entry(slot / 64).or_default();
                let bit = 1 << (slot % 64);
                *len += usize::from(*word & bit == 0);
                *word |= bit;
            }
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        match self {
            Self::Empty => {}
            Self::One(present) => {
                if *present == slot {
                    *self = Self::Empty;
                }
            }
            Self::Few(slots) => {
                if let Ok(place) = slots.binary_search(&slot) {
                    slots.remove(place);
                }
                if let [last] = slots[..] {
                    *self = Self::One(last);
                }
            }
            Self::Many { words, len } => {
                let Some(word) = words.get_mut(&(slot / 64)) else {
                    return;
                };
                let bit = 1 << (slot % 64);
                *len -= usize::from(*word & bit != 0);
                *word &= !bit;
                if *word == 0 {
                    words.remove(&(slot / 64));
                }
                // Half the limit, so that a set near it does not change its form with every write.
                if *len <= FEW / 2 {
                    *self = Self::Few(self.to_vec());
                }
            }
        }
    }

    /// Calls `visit` with every slot, in ascending order.
    pub(super) fn for_each(&self, mut visit: impl FnMut(u32)) {
        match self {
            Self::Empty => {}
            Self::One(slot) => visit(*slot),
            Self::Few(slots) => slots.iter().copied().for_each(visit),
            Self::Many { words, .. } => {
                for (word, bits) in words {
                    let mut bits = *bits;
                    while bits != 0 {
                        visit(word * 64 + bits.trailing_zeros());
                        bits &= bits - 1;
                    }
                }
            }
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.len());
        self.for_each(|slot| slots.push(slot));
        slots
    }

    fn many(slots: &[u32]) -> Self {
        let mut words = BTreeMap::new();
        for slot in slots {
            *words.entry(slot / 64).or_default() |= 1u64 << (slot % 64);
        }
        Self::Many {
            words,
            len: slots.len(),
        }
    }
}
