//! The order of ready keys: by priority, FIFO within a priority, and periodically the key that has waited longest,
//! regardless of its priority. Works on slots, without a clock.

use super::list::{AGE, Links, List, Slot, TURN};
use crate::priority::Priority;

/// The keys of one priority, in FIFO order.
struct Band {
    priority: Priority,
    keys: List<TURN>,
}

/// The ready keys in two orders: per priority, and by age over all priorities.
///
/// Ageing counts picks, not seconds. If age in seconds raised a key, an initial list that takes longer to process than
/// the ageing time would delay every fresh change for the rest of its run. With picks the share of old work is bounded
/// from both sides: with `ageing = n` the longest waiting key goes next after it was passed over n times, so fresh
/// changes lose at most one pick in n + 1, and a key with m older ones before it is picked after at most (m + 1)(n + 1)
/// picks.
pub(super) struct Ready {
    /// Ascending, so that the most urgent band is last and can be pushed and popped cheaply. No band is empty but
    /// the only one: keys often come and go one by one, and then it stays for the next.
    bands: Vec<Band>,
    by_age: List<AGE>,
    ageing: u32,
    /// How often in a row the longest waiting key was passed over.
    passed_over: u32,
}

impl Ready {
    pub(super) fn new(ageing: u32) -> Self {
        Ready {
            bands: Vec::new(),
            by_age: List::new(),
            ageing,
            passed_over: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// Appends a slot to its priority.
    #[inline]
    pub(super) fn push(&mut self, links: &mut Links, slot: Slot, priority: Priority) {
        self.by_age.push_back(links, slot);
        self.push_band(links, slot, priority);
    }

    /// Moves a ready slot to the end of a higher priority. Its age is kept.
    pub(super) fn raise(&mut self, links: &mut Links, slot: Slot, from: Priority, to: Priority) {
        self.remove_band(links, slot, from);
        self.push_band(links, slot, to);
    }

    /// The next slot, without removing it.
    #[inline]
    pub(super) fn next(&self) -> Option<Slot> {
        let (urgent, oldest) = (self.bands.last()?.keys.first()?, self.by_age.first()?);
        let aged = self.ageing != 0 && self.passed_over >= self.ageing;
        Some(if aged { oldest } else { urgent })
    }

    /// Removes the slot returned by [`next`](Self::next), which was pushed or raised to `priority`.
    #[inline]
    pub(super) fn take(&mut self, links: &mut Links, slot: Slot, priority: Priority) {
        self.passed_over = match self.by_age.first() {
            Some(oldest) if oldest != slot => self.passed_over.saturating_add(1),
            _ => 0,
        };
        self.by_age.remove(links, slot);
        self.remove_band(links, slot, priority);
    }

    #[inline]
    fn push_band(&mut self, links: &mut Links, slot: Slot, priority: Priority) {
        let index = match self.bands.as_mut_slice() {
            [.., last] if last.priority == priority => self.bands.len() - 1,
            [only] if only.keys.is_empty() => {
                only.priority = priority;
                0
            }
            _ => match self.bands.binary_search_by_key(&priority, |band| band.priority) {
                Ok(index) => index,
                Err(index) => {
                    self.bands.insert(
                        index,
                        Band {
                            priority,
                            keys: List::new(),
                        },
                    );
                    index
                }
            },
        };
        self.bands[index].keys.push_back(links, slot);
    }

    #[inline]
    fn remove_band(&mut self, links: &mut Links, slot: Slot, priority: Priority) {
        let found = match self.bands.last() {
            Some(last) if last.priority == priority => Ok(self.bands.len() - 1),
            _ => self.bands.binary_search_by_key(&priority, |band| band.priority),
        };
        let Ok(index) = found else {
            unreachable!("slot {slot} is ready at priority {priority}, so there is a band for it");
        };
        let keys = &mut self.bands[index].keys;
        keys.remove(links, slot);
        if keys.is_empty() && self.bands.len() > 1 {
            self.bands.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order((mut ready, mut links): (Ready, Links), priorities: &[i32]) -> Vec<Slot> {
        std::iter::from_fn(|| {
            let slot = ready.next()?;
            ready.take(&mut links, slot, Priority(priorities[slot as usize]));
            Some(slot)
        })
        .collect()
    }

    fn filled(ageing: u32, priorities: &[i32]) -> (Ready, Links) {
        let (mut ready, mut links) = (Ready::new(ageing), Links::default());
        for (slot, priority) in priorities.iter().enumerate() {
            ready.push(&mut links, slot as Slot, Priority(*priority));
        }
        (ready, links)
    }

    fn raised(ageing: u32, priorities: &[i32], slot: Slot, to: i32) -> (Ready, Links) {
        let (mut ready, mut links) = filled(ageing, priorities);
        ready.raise(
            &mut links,
            slot,
            Priority(priorities[slot as usize]),
            Priority(to),
        );
        (ready, links)
    }

    #[test]
    fn equal_priorities_are_fifo() {
        let priorities = [0; 5];
        assert_eq!(order(filled(2, &priorities), &priorities), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn higher_priority_comes_first() {
        let priorities = [-100, 0, 100, 0];
        assert_eq!(order(filled(0, &priorities), &priorities), [2, 1, 3, 0]);
    }

    #[test]
    fn oldest_goes_next_after_being_passed_over() {
        let priorities = [-100, -100, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            order(filled(2, &priorities), &priorities),
            [2, 3, 0, 4, 5, 1, 6, 7]
        );
    }

    #[test]
    fn without_ageing_the_oldest_waits_for_all_more_urgent_keys() {
        let priorities = [-100, 0, 0, 0];
        assert_eq!(order(filled(0, &priorities), &priorities), [1, 2, 3, 0]);
    }

    #[test]
    fn priority_that_was_empty_does_not_outrank_later_ones() {
        let priorities = [100, 0, 50, 0];
        let (mut ready, mut links) = filled(0, &priorities[..1]);
        ready.take(&mut links, 0, Priority(100));
        assert_eq!((ready.next(), ready.len()), (None, 0));

        for slot in 1..4 {
            ready.push(&mut links, slot, Priority(priorities[slot as usize]));
        }
        assert_eq!(order((ready, links), &priorities), [2, 1, 3]);
    }

    #[test]
    fn raised_key_joins_the_end_of_its_new_priority() {
        let ready = raised(0, &[-100, -100, 0], 0, 0);
        assert_eq!(order(ready, &[0, -100, 0]), [2, 0, 1]);
    }

    #[test]
    fn raised_key_keeps_its_age() {
        let ready = raised(1, &[-100, 0, 0, 0], 0, 0);
        assert_eq!(order(ready, &[0, 0, 0, 0]), [1, 0, 2, 3]);
    }
}
