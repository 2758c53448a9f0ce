//! The invariants of indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_informers::Store;
use kube_informers::store::Index;
use kube_informers::{Event, Object};

use super::{Check, violated};
use crate::object::{Key, Thing};

/// When a handler receives an event, the index leads to the state that the cache holds.
pub fn h6_index_is_not_older(event: &Event<Thing>, index: &Index<Thing>, store: &Store<Thing>) -> Check {
    let object = event.object();
    let held = store.get(&kube_informers::ObjectKey::of(&**object));
    let found = index.get(&object.label.to_string());
    let found = found.iter().find(|found| found.key == object.key);
    let expected = held.filter(|held| held.label == object.label);
    if found.map(|found| found.revision) != expected.as_ref().map(|held| held.revision) {
        return violated(
            "H6",
            format!(
                "k{} at {}: the index differs from the cache",
                object.key, object.revision
            ),
        );
    }
    Ok(())
}

/// Checks an index against the objects of the store.
pub fn i1_index_equals_rebuild(index: &Index<Thing>, store: &Store<Thing>) -> Check {
    let mut rebuilt: BTreeMap<String, Vec<Key>> = BTreeMap::new();
    for object in store.list().iter() {
        rebuilt
            .entry(object.label.to_string())
            .or_default()
            .push(object.key);
    }
    for (value, expected) in &mut rebuilt {
        let mut keys: Vec<Key> = index.get(value).iter().map(|object| object.key).collect();
        keys.sort_unstable();
        expected.sort_unstable();
        if keys != *expected {
            return violated("I1", format!("{value} leads to {keys:?}, expected {expected:?}"));
        }
    }
    for value in index.values() {
        if !rebuilt.contains_key(&*value) {
            return violated("I2", format!("the value {value} has no objects"));
        }
    }
    Ok(())
}

/// An index that is added late equals one that was there from the start.
pub fn i3_late_index_equals_early(early: &Index<Thing>, late: &Index<Thing>) -> Check {
    let contents = |index: &Index<Thing>| {
        let values = index.values().into_iter();
        let mut contents: Vec<(Arc<str>, Vec<String>)> = values
            .map(|value| {
                let objects = index.get(&value);
                let mut names: Vec<_> = objects
                    .iter()
                    .map(|object| object.object_name().to_owned())
                    .collect();
                names.sort();
                (value, names)
            })
            .collect();
        contents.sort();
        contents
    };
    if contents(early) != contents(late) {
        return violated("I3", "an index that was added late differs");
    }
    Ok(())
}
