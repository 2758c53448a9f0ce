use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn slots(postings: &Postings, value: &str) -> Vec<u32> {
    postings.slots(value).map(SlotSet::to_vec).unwrap_or_default()
}

#[test]
fn a_value_without_slots_is_removed() {
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
fn a_slot_that_is_inserted_twice_is_in_the_set_once() {
    let mut set = SlotSet::default();

    set.insert(7);
    set.insert(7);

    assert_eq!(set.to_vec(), [7]);
    assert_eq!(set.len(), 1);
}

#[test]
fn a_slot_without_values_differs_from_one_never_set() {
    let mut postings = Postings::default();

    postings.set(1, std::iter::empty());

    assert!(postings.is_set(1));
    assert!(!postings.is_set(0));
    assert!(!postings.is_set(7));
    postings.clear(1);
    assert!(!postings.is_set(1));
}

#[test]
fn positions_of_removed_values_are_reused() {
    let mut postings = Postings::default();

    for round in 0..100 {
        postings.set(0, [format!("v{round}").as_str(), "stays"].into_iter());
    }

    assert!(postings.postings.len() <= 3, "{}", postings.postings.len());
    let mut values: Vec<_> = postings.values_of(0).map(|value| &**value).collect();
    values.sort_unstable();
    assert_eq!(values, ["stays", "v99"]);
}

#[test]
fn the_memory_of_an_index_is_that_of_its_texts_its_sets_and_its_arrays() {
    let mut postings = Postings::default();
    postings.set(0, ["one", "few"].into_iter());
    for slot in [1, 2] {
        postings.set(slot, ["few"].into_iter());
    }
    for word in 1..=100 {
        postings.set(64 * word, ["many"].into_iter());
    }

    let texts = "one".len() + "few".len() + "many".len() + 3 * 16;
    let few = match postings.slots("few") {
        Some(SlotSet::Few(slots)) => 4 * slots.capacity(),
        other => panic!("three slots are few: {other:?}"),
    };
    // A hundred words with their keys, in nodes that are two thirds full.
    let many = 100 * (8 + 8) * 3 / 2;
    let values = postings.postings.capacity() * size_of::<Posting>() + postings.by_value.capacity() * (4 + 1);
    let column = postings.column.first.capacity() * 4 + (24 + 2 * 4);
    assert_eq!(postings.bytes(), texts + few + many + values + column);
}

proptest! {
    #[test]
    fn a_slot_set_behaves_like_an_ordered_set(
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
fn a_shrinking_set_returns_to_the_small_forms() {
    let mut set = SlotSet::default();
    (0..200).for_each(|slot| set.insert(slot * 3));
    assert!(matches!(set, SlotSet::Many { .. }));

    (0..199).for_each(|slot| set.remove(slot * 3));

    assert!(matches!(set, SlotSet::One(597)));
    set.remove(597);
    assert!(matches!(set, SlotSet::Empty));
}
