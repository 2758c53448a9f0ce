//! The coalescing queue against a plain list that does the same slowly.

use proptest::prelude::*;

use super::super::change::Change;
use super::super::folding::Folding;
use super::super::mailbox::Item;
use super::*;

/// What one object's pending events become, delivered as text; all events are about `a`.
fn folded(events: &[Event<Thing>]) -> Vec<String> {
    let mut folding = Folding::new();
    for event in events {
        folding.push(event);
    }
    let mut delivered = Vec::new();
    while let Some(item) = folding.pop() {
        delivered.extend(describe(item));
    }
    assert_eq!(folding.changes(), 0);
    assert!(folding.is_empty());
    delivered
}

fn describe(item: Item<Thing>) -> Vec<String> {
    match item {
        Item::Change(change) => describe_change(change),
        Item::Synced => vec!["synced".to_owned()],
        Item::Resync(_) => vec!["resync".to_owned()],
        Item::Initial(_) => vec!["replay".to_owned()],
        Item::Batch(_) => unreachable!("batches are for handlers that keep all"),
    }
}

fn describe_change(change: Change<Thing>) -> Vec<String> {
    let (first, second) = change.into_deliveries();
    [Some(first), second]
        .into_iter()
        .flatten()
        .map(|delivery| match delivery.last_delivered {
            Some(last) => format!("{} (last delivered {})", text(&delivery.event), last.version),
            None => text(&delivery.event),
        })
        .collect()
}

#[test]
fn pending_events_of_one_object_fold_into_one_step() {
    let [a1, a2, a3] = [1, 2, 3].map(|version| thing("a", version));
    let [b4, b5, b6] = [4, 5, 6].map(|version| thing_of_uid("a", "another", version));
    let again = Event::Updated {
        old: a2.clone(),
        new: a2.clone(),
        resync: true,
    };
    let cases: [(&[Event<Thing>], &[&str]); 15] = [
        (&[added(&a1), updated(&a1, &a2)], &["add a2"]),
        (&[initial(&a1), updated(&a1, &a2)], &["initial a2"]),
        (&[added(&a1), deleted(&a2)], &[]),
        (&[initial(&a1), deleted(&a2)], &[]),
        (&[updated(&a1, &a2), updated(&a2, &a3)], &["update a1 a3"]),
        (
            &[updated(&a1, &a2), deleted(&a3)],
            &["delete a3 (last delivered 1)"],
        ),
        (&[updated(&a1, &a2), missed(&a2)], &["miss a2 (last delivered 1)"]),
        (&[deleted(&a1), added(&b4)], &["delete a1", "add a4"]),
        (
            &[deleted(&a1), added(&b4), updated(&b4, &b5)],
            &["delete a1", "add a5"],
        ),
        (&[deleted(&a1), added(&b4), deleted(&b5)], &["delete a1"]),
        (
            &[deleted(&a1), added(&b4), deleted(&b5), added(&b6)],
            &["delete a1", "add a6"],
        ),
        (
            &[updated(&a1, &a2), missed(&a2), added(&b4)],
            &["miss a2 (last delivered 1)", "add a4"],
        ),
        (&[updated(&a1, &a2), again.clone()], &["update a1 a2"]),
        (&[again.clone(), again.clone()], &["again a2"]),
        (&[again, updated(&a2, &a3)], &["update a2 a3"]),
    ];

    for (events, expected) in cases {
        let said: Vec<_> = events.iter().map(text).collect();
        assert_eq!(folded(events), expected, "after {said:?}");
    }
}

#[test]
fn pairs_a_store_never_emits_still_fold_to_the_newest_state() {
    let [a1, a2, a3] = [1, 2, 3].map(|version| thing("a", version));
    let b4 = thing_of_uid("a", "another", 4);

    assert_eq!(folded(&[added(&a1), added(&a2)]), ["add a2"]);
    assert_eq!(folded(&[updated(&a1, &a2), added(&a3)]), ["update a1 a3"]);
    assert_eq!(
        folded(&[updated(&a1, &a2), added(&b4)]),
        ["miss a2 (last delivered 1)", "add a4"]
    );
    assert_eq!(folded(&[deleted(&a1), deleted(&a2)]), ["delete a1"]);
    assert_eq!(
        folded(&[deleted(&a1), updated(&a1, &a2)]),
        ["delete a1", "add a2"]
    );
}

#[test]
fn objects_keep_the_order_of_their_first_pending_event() {
    let [a1, a2] = [1, 2].map(|version| thing("a", version));
    let [b1, c1] = ["b", "c"].map(|name| thing(name, 1));

    assert_eq!(
        folded(&[
            added(&a1),
            added(&b1),
            added(&c1),
            updated(&a1, &a2),
            deleted(&b1),
            added(&b1)
        ]),
        ["add a2", "add c1", "add b1"]
    );
}

#[test]
fn namespaces_keep_objects_apart() {
    struct Namespaced(&'static str);
    impl Object for Namespaced {
        fn object_name(&self) -> &str {
            "same"
        }
        fn object_namespace(&self) -> Option<&str> {
            Some(self.0)
        }
        fn object_uid(&self) -> Option<&str> {
            None
        }
        fn object_version(&self) -> Option<&str> {
            None
        }
    }
    let mut folding = Folding::new();
    for namespace in ["one", "two", "one", ""] {
        folding.push(&Event::Added {
            object: Arc::new(Namespaced(namespace)),
            initial: false,
        });
    }

    assert_eq!(folding.changes(), 3);
}

#[test]
fn short_lived_objects_leave_no_slots() {
    let (first, changed) = (thing("first", 1), thing("first", 2));
    let mut folding = Folding::new();
    folding.push(&added(&first));
    for n in 0..100_000 {
        let object = thing(&format!("t{n}"), n);
        folding.push(&added(&object));
        folding.push(&deleted(&object));
        assert!(
            folding.slots() < 70,
            "{} slots after {n} objects",
            folding.slots()
        );
    }

    folding.push(&updated(&first, &changed));

    assert_eq!(folding.changes(), 1);
    assert_eq!(folding.pop().map(describe), Some(vec!["add first2".to_owned()]));
    assert!(folding.pop().is_none());
}

/// Closing the holes moves everything; what stands before a resync must still not be folded into, and what stands
/// behind it must still be found.
#[test]
fn compaction_keeps_sealed_changes_sealed() {
    let churn = |folding: &mut Folding<Thing>| {
        for n in 0..100 {
            let object = thing(&format!("t{n}"), n);
            folding.push(&added(&object));
            folding.push(&deleted(&object));
        }
    };
    let [a1, a2, a3, a4] = [1, 2, 3, 4].map(|version| thing("a", version));
    let (b1, b2) = (thing("b", 1), thing("b", 2));
    let mut folding = Folding::new();

    churn(&mut folding);
    folding.push(&updated(&a1, &a2));
    folding.push_mark(Item::Resync(no_objects()));
    folding.push(&added(&b1));
    churn(&mut folding);
    folding.push(&updated(&a2, &a3));
    churn(&mut folding);
    folding.push(&updated(&b1, &b2));
    folding.push(&updated(&a3, &a4));
    churn(&mut folding);

    let delivered: Vec<String> = std::iter::from_fn(|| folding.pop()).flat_map(describe).collect();
    assert_eq!(delivered, ["update a1 a2", "resync", "add b2", "update a2 a4"]);
}

#[derive(Clone, Debug)]
enum Op {
    /// Makes the object appear or change.
    Touch(u8),
    Delete(u8),
    Pop,
    Resync,
    Synced,
    /// Tells an object as initial, as a replay would.
    Initial(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..60_u8).prop_map(Op::Touch),
        8 => (0..60_u8).prop_map(Op::Delete),
        2 => Just(Op::Pop),
        1 => (0..20_u8).prop_map(|n| if n == 0 { Op::Resync } else { Op::Pop }),
        1 => (0..20_u8).prop_map(|n| if n == 0 { Op::Synced } else { Op::Pop }),
        1 => (0..60_u8).prop_map(Op::Initial),
    ]
}

/// The same rules over a plain list.
#[derive(Default)]
struct Plain {
    items: Vec<Item<Thing>>,
    sealed: usize,
}

impl Plain {
    fn find(&self, object: &Arc<Thing>) -> Option<usize> {
        (self.sealed..self.items.len()).find(|&at| match &self.items[at] {
            Item::Change(change) => change.object().name == object.name,
            _ => false,
        })
    }

    fn push(&mut self, event: &Event<Thing>) {
        match self.find(event.object()) {
            None => self.items.push(Item::Change(Change::new(event))),
            Some(at) => {
                let Item::Change(change) = self.items.remove(at) else {
                    unreachable!()
                };
                if let Some(change) = change.then(event) {
                    self.items.insert(at, Item::Change(change));
                }
            }
        }
    }

    fn pop(&mut self) -> Option<Item<Thing>> {
        if self.items.is_empty() {
            return None;
        }
        self.sealed = self.sealed.saturating_sub(1);
        Some(self.items.remove(0))
    }

    fn fold_initial(&mut self, object: &Arc<Thing>) -> Option<Change<Thing>> {
        let Some(at) = self.find(object) else {
            return Some(Change::new(&initial(object)));
        };
        let Item::Change(change) = self.items.remove(at) else {
            unreachable!()
        };
        let (now, later) = change.after_initial();
        if let Some(later) = later {
            self.items.insert(at, Item::Change(later));
        }
        now
    }
}

proptest! {
    #[test]
    fn the_queue_does_what_a_plain_list_does(ops in prop::collection::vec(op(), 0..600)) {
        let mut live: [Option<Arc<Thing>>; 60] = [const { None }; 60];
        let mut version = 0;
        let (mut folding, mut plain) = (Folding::new(), Plain::default());
        let both = |folding: &mut Folding<Thing>, plain: &mut Plain, event: Event<Thing>| {
            folding.push(&event);
            plain.push(&event);
        };

        for op in ops {
            version += 1;
            match op {
                Op::Touch(key) => {
                    let slot = &mut live[key as usize];
                    let event = match slot.take() {
                        None => {
                            let new = thing_of_uid(&format!("k{key}-"), &version.to_string(), version);
                            *slot = Some(new.clone());
                            added(&new)
                        }
                        Some(old) => {
                            let new = thing_of_uid(&old.name, &old.uid, version);
                            *slot = Some(new.clone());
                            updated(&old, &new)
                        }
                    };
                    both(&mut folding, &mut plain, event);
                }
                Op::Delete(key) => {
                    if let Some(old) = live[key as usize].take() {
                        both(&mut folding, &mut plain, deleted(&thing_of_uid(&old.name, &old.uid, version)));
                    }
                }
                Op::Pop => {
                    prop_assert_eq!(folding.pop().map(describe), plain.pop().map(describe));
                }
                Op::Resync => {
                    folding.push_mark(Item::Resync(no_objects()));
                    plain.items.push(Item::Resync(no_objects()));
                    plain.sealed = plain.items.len();
                }
                Op::Synced => {
                    folding.push_mark(Item::Synced);
                    plain.items.push(Item::Synced);
                }
                Op::Initial(key) => {
                    let object = thing(&format!("k{key}-"), version);
                    prop_assert_eq!(folding.has_pending(&object), plain.find(&object).is_some());
                    prop_assert_eq!(
                        folding.fold_initial(&object).map(describe_change),
                        plain.fold_initial(&object).map(describe_change)
                    );
                }
            }
            prop_assert_eq!(folding.is_empty(), plain.items.is_empty());
            prop_assert_eq!(
                folding.changes(),
                plain.items.iter().map(Item::events).sum::<usize>()
            );
        }
        loop {
            let (item, expected) = (folding.pop().map(describe), plain.pop().map(describe));
            prop_assert_eq!(&item, &expected);
            if item.is_none() {
                break;
            }
        }
    }
}
