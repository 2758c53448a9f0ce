//! One index inside the table: which slots have which value. Knows slots and texts, not objects.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use super::slot_set::SlotSet;

/// Value → slots, and slot → values, so that a write needs no call of the index function for the old object.
#[derive(Clone, Default)]
pub(super) struct Postings {
    hasher: RandomState,
    /// Numbers of postings by the hash of their value.
    by_value: HashTable<u32>,
    postings: Vec<Posting>,
    /// Numbers nobody uses.
    free: Vec<u32>,
    column: Column,
}

#[derive(Clone)]
struct Posting {
    value: Arc<str>,
    slots: SlotSet,
}

impl Postings {
    /// Says which values a slot has; repeated ones count once.
    pub(super) fn set<'a>(&mut self, slot: u32, values: impl Iterator<Item = &'a str>) {
        let mut new = Ids::None;
        for value in values {
            new.add(self.intern(value));
        }
        let old = self.column.take(slot);
        for id in old.iter().filter(|id| !new.contains(**id)) {
            self.leave(*id, slot);
        }
        for id in new.iter().filter(|id| !old.contains(**id)) {
            self.postings[*id as usize].slots.insert(slot);
        }
        self.column.put(slot, new);
    }

    /// Forgets a slot: it counts as never set.
    pub(super) fn clear(&mut self, slot: u32) {
        for id in self.column.take(slot).iter() {
            self.leave(*id, slot);
        }
    }

    /// Whether the values of this slot were told, even if there are none.
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

    /// All values that some slot has, in no particular order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_value.iter().map(|id| &self.postings[*id as usize].value)
    }

    fn find(&self, hash: u64, value: &str) -> Option<u32> {
        let is = |id: &u32| &*self.postings[*id as usize].value == value;
        self.by_value.find(hash, is).copied()
    }

    /// The number of a value; a new posting is empty until its caller puts a slot into it.
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

    /// Takes a slot out of a posting, and the posting away when it was the last one.
    fn leave(&mut self, id: u32, slot: u32) {
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

/// The numbers of the postings of each slot. One number, by far the commonest case, costs four bytes.
#[derive(Clone, Default)]
struct Column {
    first: Vec<u32>,
    /// Slots with several values.
    many: HashMap<u32, Box<[u32]>, RandomState>,
}

const UNSET: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
const MANY: u32 = u32::MAX - 2;

/// The numbers of one slot, each once, in ascending order.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(postings: &Postings, value: &str) -> Vec<u32> {
        postings.slots(value).map(SlotSet::to_vec).unwrap_or_default()
    }

    #[test]
    fn a_value_without_slots_is_gone() {
        let mut postings = Postings::default();
        postings.set(1, ["a", "b", "a"].into_iter());
        postings.set(2, ["b"].into_iter());

        postings.set(1, ["c"].into_iter());

        assert!(postings.slots("a").is_none());
        assert_eq!(slots(&postings, "b"), [2]);
        assert_eq!(slots(&postings, "c"), [1]);
        assert_eq!(postings.values().count(), 2);

        postings.clear(1);
        postings.clear(2);
        assert_eq!(postings.values().count(), 0);
        assert_eq!(postings.free.len(), 3);
    }

    #[test]
    fn no_values_and_never_set_are_different() {
        let mut postings = Postings::default();

        postings.set(1, std::iter::empty());

        assert!(postings.is_set(1));
        assert!(!postings.is_set(0));
        assert!(!postings.is_set(7));
        postings.clear(1);
        assert!(!postings.is_set(1));
    }

    #[test]
    fn numbers_of_lost_values_are_used_again() {
        let mut postings = Postings::default();

        for round in 0..100 {
            postings.set(0, [format!("v{round}").as_str(), "stays"].into_iter());
        }

        assert!(postings.postings.len() <= 3, "{}", postings.postings.len());
        let mut values: Vec<_> = postings.values_of(0).map(|value| &**value).collect();
        values.sort_unstable();
        assert_eq!(values, ["stays", "v99"]);
    }
}
