//! A set of slot numbers, iterated in order: what an index holds for one value.

use std::collections::BTreeMap;

/// Beyond so many slots a sorted array becomes slow to change and is exchanged for words of bits.
const FEW: usize = 64;

/// Most values belong to one object or to a few, so these cost little; the large sets (a namespace, a node)
/// change in logarithmic time and are compact when slots lie together, as they do after a list.
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
                // Half, so that a set at the border does not change its form with every write.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(
            writes in prop::collection::vec((any::<bool>(), 0u32..400), 0..600),
        ) {
            let mut set = SlotSet::default();
            let mut model = BTreeSet::new();

            for (insert, slot) in writes {
                if insert {
                    set.insert(slot);
                    model.insert(slot);
                } else {
                    set.remove(slot);
                    model.remove(&slot);
                }

                prop_assert_eq!(set.len(), model.len());
                prop_assert_eq!(set.is_empty(), model.is_empty());
            }
            prop_assert_eq!(set.to_vec(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_shrinking_set_takes_the_small_forms_again() {
        let mut set = SlotSet::default();
        (0..200).for_each(|slot| set.insert(slot * 3));
        assert!(matches!(set, SlotSet::Many { .. }));

        (0..199).for_each(|slot| set.remove(slot * 3));

        assert!(matches!(set, SlotSet::One(597)));
        set.remove(597);
        assert!(matches!(set, SlotSet::Empty));
    }
}
