//! Delayed keys: a heap by due time with at most one entry per key, indexed by slot. Compares times, never reads the
//! clock.

use super::list::{NONE, Slot};
use crate::priority::Priority;
use tokio::time::Instant;

/// A delayed key.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) due: Instant,
    /// Orders keys due at the same instant: first in, first out.
    number: u64,
    pub(super) slot: Slot,
    pub(super) priority: Priority,
}

impl Waiting {
    fn before(&self, other: &Waiting) -> bool {
        (self.due, self.number) < (other.due, other.number)
    }
}

/// Children per node. With four, siblings share one or two cache lines, and the depth is half that of a binary heap.
const ARITY: usize = 4;

/// Up to this number, due keys are popped one by one.
const FEW: usize = 32;

/// A heap of delayed keys with an index by slot.
#[derive(Default)]
pub(super) struct Delayed {
    heap: Vec<Waiting>,
    /// Index into `heap` by slot, or `NONE`.
    places: Vec<u32>,
    next_number: u64,
}

impl Delayed {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The earliest due time.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.heap.first().map(|first| first.due)
    }

    #[inline]
    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.place(slot).is_some()
    }

    /// Delays a slot. If it is delayed already, the earlier time and the higher priority win.
    pub(super) fn push(&mut self, slot: Slot, due: Instant, priority: Priority) {
        if let Some(place) = self.place(slot) {
            let waiting = &mut self.heap[place];
            waiting.priority = waiting.priority.max(priority);
            if due < waiting.due {
                waiting.due = due;
                self.sift_up(place);
            }
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.heap.push(Waiting {
            due,
            number,
            slot,
            priority,
        });
        self.sift_up(self.heap.len() - 1);
    }

    /// Removes all keys due at `now` and returns them in order of their times.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Waiting> {
        let mut due = Vec::new();
        while self.next_due().is_some_and(|first| first <= now) {
            // Popping is fastest for a few keys. If a large part is due, as after a long pause, sorting those and
            // rebuilding the rest is several times faster, which shortens the time under the lock.
            if due.len() >= FEW && due.len() >= self.heap.len() / 32 {
                let mut rest: Vec<Waiting> = self.heap.extract_if(.., |waiting| waiting.due <= now).collect();
                rest.sort_unstable_by_key(|waiting| (waiting.due, waiting.number));
                for waiting in &rest {
                    self.places[waiting.slot as usize] = NONE;
                }
                self.rebuild();
                due.append(&mut rest);
                break;
            }
            due.push(self.remove_at(0));
        }
        due
    }

    /// Removes a slot; false if it is not delayed.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        match self.place(slot) {
            Some(place) => {
                self.remove_at(place);
                true
            }
            None => false,
        }
    }

    /// Empties the heap, frees its memory and returns its entries, unordered.
    pub(super) fn take_all(&mut self) -> Vec<Waiting> {
        self.places = Vec::new();
        std::mem::take(&mut self.heap)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.heap.capacity() + self.places.capacity()
    }

    /// Frees the memory. Must be empty.
    pub(super) fn reset(&mut self) {
        self.take_all();
    }

    #[inline]
    fn place(&self, slot: Slot) -> Option<usize> {
        let place = *self.places.get(slot as usize)?;
        (place != NONE).then_some(place as usize)
    }

    /// Restores the heap order.
    fn rebuild(&mut self) {
        for place in (0..self.heap.len()).rev() {
            // Also sets the index of the leaves.
            self.sift_down(place);
        }
    }

    fn remove_at(&mut self, place: usize) -> Waiting {
        let removed = self.heap.swap_remove(place);
        self.places[removed.slot as usize] = NONE;
        if place < self.heap.len() {
            // The last entry may belong above or below the gap, unless the gap is the root.
            self.sift_down(place);
            self.sift_up(place);
        }
        removed
    }

    fn sift_up(&mut self, mut place: usize) {
        let Some(&moving) = self.heap.get(place) else {
            return;
        };
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !moving.before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, moving);
    }

    fn sift_down(&mut self, mut place: usize) {
        let moving = self.heap[place];
        loop {
            let first = place * ARITY + 1;
            let children = first.min(self.heap.len())..(first + ARITY).min(self.heap.len());
            let Some(least) = children.reduce(|a, b| if self.heap[b].before(&self.heap[a]) { b } else { a })
            else {
                break;
            };
            if !self.heap[least].before(&moving) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, moving);
    }

    fn put(&mut self, place: usize, waiting: Waiting) {
        self.heap[place] = waiting;
        let slot = waiting.slot as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, NONE);
        }
        self.places[slot] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn drain(delayed: &mut Delayed, now: Instant) -> Vec<Slot> {
        delayed
            .take_due(now)
            .into_iter()
            .map(|waiting| waiting.slot)
            .collect()
    }

    #[test]
    fn keys_due_at_the_same_instant_keep_their_order() {
        let now = Instant::now();
        let mut delayed = Delayed::default();
        for slot in 0..50 {
            delayed.push(slot, now, Priority::NORMAL);
        }

        assert_eq!(drain(&mut delayed, now), (0..50).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn heap_matches_a_sorted_list(
            ops in prop::collection::vec((0..300u32, 0..50u64, prop::bool::weighted(0.2)), 0..500),
            looks in prop::collection::vec(0..60u64, 0..4),
        ) {
            let start = Instant::now();
            let mut delayed = Delayed::default();
            let mut model: Vec<(Instant, usize, Slot)> = Vec::new();

            for (number, (slot, millis, remove)) in ops.into_iter().enumerate() {
                let due = start + Duration::from_millis(millis);
                let known = model.iter().position(|(_, _, waiting)| *waiting == slot);
                if remove {
                    prop_assert_eq!(delayed.remove(slot), known.is_some());
                    known.map(|index| model.remove(index));
                } else {
                    delayed.push(slot, due, Priority::NORMAL);
                    match known {
                        Some(index) => model[index].0 = model[index].0.min(due),
                        None => model.push((due, number, slot)),
                    }
                }
                prop_assert_eq!(delayed.len(), model.len());
                prop_assert_eq!(delayed.next_due(), model.iter().map(|(due, _, _)| *due).min());
            }

            model.sort();
            for millis in looks.into_iter().chain([60]) {
                let now = start + Duration::from_millis(millis);
                let expected: Vec<Slot> = model.extract_if(.., |(due, _, _)| *due <= now).map(|(_, _, slot)| slot).collect();
                prop_assert_eq!(drain(&mut delayed, now), expected);
                for (_, _, slot) in &model {
                    prop_assert!(delayed.contains(*slot));
                }
                prop_assert_eq!(delayed.len(), model.len());
            }
        }
    }
}
