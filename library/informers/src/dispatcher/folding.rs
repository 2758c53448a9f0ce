//! `Folding`: the queue of a handler that coalesces by key.
//!
//! Accepts events and marks; returns at most one change per object, in the order of the first queued event of each.
//! Holds at most one change per live object and per deleted object that the handler knows (twice that while a resync is
//! queued), however many events arrive.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::change::Change;
use super::mailbox::Item;
use crate::event::Event;
use crate::object::Object;

pub(super) struct Folding<K> {
    /// In order; a change that cancelled out leaves a hole. The number of a slot is its position plus `first`, so that
    /// numbers survive pops.
    slots: VecDeque<Option<Item<K>>>,
    first: u64,
    holes: usize,
    /// Numbers of the changes that may still be folded into, found by the key of their object.
    index: HashTable<u64>,
    hasher: RandomState,
    /// No slot with a smaller number is in the index.
    sealed: u64,
    /// The events that `slots` will be delivered as, without snapshots and resyncs.
    changes: usize,
}

impl<K> Folding<K> {
    pub(super) fn new() -> Self {
        Self {
            slots: VecDeque::new(),
            first: 0,
            holes: 0,
            index: HashTable::new(),
            hasher: RandomState::default(),
            sealed: 0,
            changes: 0,
        }
    }

    /// Appends a mark. Events behind a resync are not folded into changes before it: the resync repeats states that must
    /// have been delivered by then.
    pub(super) fn push_mark(&mut self, mark: Item<K>) {
        if matches!(mark, Item::Resync(_)) {
            self.index = HashTable::new();
            self.sealed = self.next_number();
        }
        self.slots.push_back(Some(mark));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.len() == self.holes
    }

    /// The number of events that the queued changes will be delivered as.
    pub(super) fn changes(&self) -> usize {
        self.changes
    }

    /// The number of slots, including holes.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The next item, without removing it.
    pub(super) fn peek(&mut self) -> Option<&Item<K>> {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 1;
            self.holes -= 1;
        }
        self.slots.front()?.as_ref()
    }

    fn next_number(&self) -> u64 {
        self.first + self.slots.len() as u64
    }
}

impl<K: Object> Folding<K> {
    /// Adds one event.
    pub(super) fn push(&mut self, event: &Event<K>) {
        let hash = self.hash(event.object());
        let queued = self.find(hash, event.object());
        match queued {
            Some(number) => {
                let Some(change) = self.lift(number) else { return };
                self.settle(hash, number, change.then(event));
            }
            None => {
                let number = self.next_number();
                let change = Change::new(event);
                self.changes += change.events();
                self.slots.push_back(Some(Item::Change(change)));
                self.enter(hash, number);
            }
        }
    }

    /// Removes the next item.
    pub(super) fn pop(&mut self) -> Option<Item<K>> {
        self.peek()?;
        let number = self.first;
        let item = self.slots.pop_front()??;
        self.first += 1;
        if let Item::Change(change) = &item {
            self.changes -= change.events();
            let hash = self.hash(change.object());
            self.leave(hash, number);
        }
        Some(item)
    }

    /// Whether a newer change of this object is queued.
    pub(super) fn has_pending(&self, object: &Arc<K>) -> bool {
        self.find(self.hash(object), object).is_some()
    }

    /// How to deliver an initial object now, given the changes queued since.
    pub(super) fn fold_initial(&mut self, object: &Arc<K>) -> Option<Change<K>> {
        let hash = self.hash(object);
        let waiting = self
            .find(hash, object)
            .and_then(|number| Some((number, self.lift(number)?)));
        match waiting {
            None => Some(Change::Added {
                object: object.clone(),
                initial: true,
            }),
            Some((number, change)) => {
                let (now, later) = change.after_initial();
                self.settle(hash, number, later);
                now
            }
        }
    }

    /// Removes a change from its slot, to be put back by `settle`.
    fn lift(&mut self, number: u64) -> Option<Change<K>> {
        let slot = self.slots.get_mut(position(self.first, number))?;
        match slot.take() {
            Some(Item::Change(change)) => {
                self.changes -= change.events();
                Some(change)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Puts back the result of a lifted change.
    fn settle(&mut self, hash: u64, number: u64, change: Option<Change<K>>) {
        match change {
            Some(change) => {
                self.changes += change.events();
                if let Some(slot) = self.slots.get_mut(position(self.first, number)) {
                    *slot = Some(Item::Change(change));
                }
            }
            None => {
                self.holes += 1;
                self.leave(hash, number);
                self.close_holes();
            }
        }
    }

    /// Without this, holes would grow with every object created and deleted while the handler is busy. Amortised constant:
    /// at least half of the slots moved over are holes made since the last time.
    fn close_holes(&mut self) {
        if self.holes <= 32 || self.holes * 2 <= self.slots.len() {
            return;
        }
        let slots = std::mem::take(&mut self.slots);
        self.index.clear();
        self.holes = 0;
        let (old_first, old_sealed) = (self.first, self.sealed);
        self.sealed = self.first;
        for (position, slot) in slots.into_iter().enumerate() {
            let foldable = old_first + position as u64 >= old_sealed;
            let number = self.next_number();
            match slot {
                None => continue,
                Some(Item::Change(change)) if foldable => {
                    let hash = self.hash(change.object());
                    self.slots.push_back(Some(Item::Change(change)));
                    self.enter(hash, number);
                }
                other => self.slots.push_back(other),
            }
            if !foldable {
                self.sealed = self.next_number();
            }
        }
    }

    fn hash(&self, object: &Arc<K>) -> u64 {
        hash(&self.hasher, object)
    }

    fn find(&self, hash: u64, object: &Arc<K>) -> Option<u64> {
        self.index
            .find(hash, |&number| {
                match self.slots.get(position(self.first, number)) {
                    Some(Some(Item::Change(change))) => same_key(change.object(), object),
                    _ => false,
                }
            })
            .copied()
    }

    fn enter(&mut self, hash_of_new: u64, number: u64) {
        let Self {
            index,
            slots,
            first,
            hasher,
            ..
        } = self;
        index.insert_unique(hash_of_new, number, |&number| {
            match slots.get(position(*first, number)) {
                Some(Some(Item::Change(change))) => hash(hasher, change.object()),
                // Only changes are in the index.
                _ => 0,
            }
        });
    }

    fn leave(&mut self, hash: u64, number: u64) {
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
    }
}

fn position(first: u64, number: u64) -> usize {
    // A number before the front is in no index; `usize::MAX` finds no slot.
    number
        .checked_sub(first)
        .and_then(|position| usize::try_from(position).ok())
        .unwrap_or(usize::MAX)
}

fn hash<K: Object>(hasher: &RandomState, object: &Arc<K>) -> u64 {
    hasher.hash_one((namespace(object), object.object_name()))
}

fn same_key<K: Object>(one: &Arc<K>, other: &Arc<K>) -> bool {
    one.object_name() == other.object_name() && namespace(one) == namespace(other)
}

/// An empty namespace counts as none, as in `ObjectKey`.
fn namespace<K: Object>(object: &Arc<K>) -> Option<&str> {
    object
        .object_namespace()
        .filter(|namespace| !namespace.is_empty())
}
