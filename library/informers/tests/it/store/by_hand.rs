//! Random writes to a store filled by hand, compared with a plain map.

use std::collections::BTreeMap;

use kube_informers::store::StoreWriter;
use proptest::prelude::*;

use super::model::{check_index, tags};
use super::thing::*;

#[derive(Clone, Debug)]
enum ByHand {
    Insert(u8, Vec<u8>),
    Remove(u8),
    Replace(Vec<(u8, Vec<u8>)>),
    Transaction(Vec<(u8, Option<Vec<u8>>)>),
}

fn by_hand() -> impl Strategy<Value = ByHand> {
    let tags = || prop::collection::vec(0u8..4, 0..3);
    prop_oneof![
        4 => (0u8..8, tags()).prop_map(|(name, tags)| ByHand::Insert(name, tags)),
        3 => (0u8..8).prop_map(ByHand::Remove),
        1 => prop::collection::vec((0u8..8, tags()), 0..6).prop_map(ByHand::Replace),
        2 => prop::collection::vec((0u8..8, prop::option::of(tags())), 0..6).prop_map(ByHand::Transaction),
    ]
}

proptest! {
    #[test]
    fn a_store_filled_by_hand_is_a_map_with_indexes(
        writes in prop::collection::vec(by_hand(), 1..40),
        late_at in 0usize..40,
    ) {
        let made = |name: u8, tags: &[u8], version: usize| {
            Thing {
                name: format!("o{name}"),
                version: Some(version.to_string()),
                tags: tags.iter().map(|tag| format!("t{tag}")).collect(),
                ..Thing::default()
            }
        };
        let mut writer = StoreWriter::with_key(|thing: &Thing| thing.name.clone());
        let store = writer.store();
        let early = store.add_index("early", tags).unwrap();
        let mut late = None;
        let mut model: BTreeMap<String, Thing> = BTreeMap::new();

        for (version, write) in writes.into_iter().enumerate() {
            if version == late_at {
                late = Some(store.add_index("late", tags).unwrap());
            }
            match write {
                ByHand::Insert(name, tags) => {
                    let thing = made(name, &tags, version);
                    let old = writer.insert(thing.clone()).unwrap();
                    let expected = model.insert(thing.name.clone(), thing);
                    prop_assert_eq!(old.as_deref(), expected.as_ref());
                }
                ByHand::Remove(name) => {
                    let name = format!("o{name}");
                    let (old, expected) = (writer.remove(name.as_str()), model.remove(&name));
                    prop_assert_eq!(old.as_deref(), expected.as_ref());
                }
                ByHand::Replace(things) => {
                    let things: Vec<Thing> = things.iter().map(|(name, tags)| made(*name, tags, version)).collect();
                    writer.replace(things.clone(), Some("7")).unwrap();
                    model = things.into_iter().map(|thing| (thing.name.clone(), thing)).collect();
                    let reached = store.resource_version();
                    prop_assert_eq!(reached.as_deref(), Some("7"));
                }
                ByHand::Transaction(writes) => {
                    let mut transaction = writer.transaction();
                    for (name, tags) in writes {
                        match tags {
                            Some(tags) => {
                                let thing = made(name, &tags, version);
                                transaction.insert(thing.clone());
                                model.insert(thing.name.clone(), thing);
                            }
                            None => {
                                transaction.remove(format!("o{name}"));
                                model.remove(&format!("o{name}"));
                            }
                        }
                    }
                    transaction.commit().unwrap();
                }
            }
            let held: BTreeMap<String, Thing> = (store.list().iter())
                .map(|thing| (thing.name.clone(), (**thing).clone()))
                .collect();
            prop_assert_eq!(&held, &model);
            prop_assert_eq!(store.len(), model.len());
            check_index(&store, &early, tags)?;
            if let Some(late) = &late {
                check_index(&store, late, tags)?;
            }
        }
    }
}
