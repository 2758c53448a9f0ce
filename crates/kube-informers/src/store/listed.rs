//! The keys a list names, to tell which of the known ones it lacks.

use hashbrown::HashTable;

use super::read::At;
use super::shared::Shared;
use super::table::Table;
use crate::key::ObjectKey;

/// Known keys by slot, which is quicker, others by name.
pub(super) struct Listed<'a, K> {
    table: &'a Table<K, ObjectKey>,
    slots: Vec<bool>,
    others: HashTable<At<'a>>,
}

impl<'a, K> Listed<'a, K> {
    pub(super) fn new(table: &'a Table<K, ObjectKey>) -> Self {
        Self {
            table,
            slots: vec![false; table.capacity()],
            others: HashTable::new(),
        }
    }

    /// Takes a key down; says whether it was not yet.
    pub(super) fn mark(&mut self, shared: &Shared<K, ObjectKey>, at: At<'a>) -> bool {
        let hash = shared.hash(&at.hashed());
        match self.table.find(hash, |key| at.is(key)) {
            Some(slot) => !std::mem::replace(&mut self.slots[slot as usize], true),
            None if self.others.find(hash, |other| *other == at).is_some() => false,
            None => {
                self.others
                    .insert_unique(hash, at, |other| shared.hash(&other.hashed()));
                true
            }
        }
    }

    pub(super) fn has_slot(&self, slot: u32) -> bool {
        self.slots[slot as usize]
    }

    pub(super) fn contains(&self, shared: &Shared<K, ObjectKey>, at: At<'_>) -> bool {
        let hash = shared.hash(&at.hashed());
        match self.table.find(hash, |key| at.is(key)) {
            Some(slot) => self.has_slot(slot),
            None => self.others.find(hash, |other| *other == at).is_some(),
        }
    }
}
