//! Making a [`WritePlan`]: `planner` derives it from a batch of deltas; `rules` decides what one delta means for one key.

mod planner;
mod rules;

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::Equivalent;

use super::planned::{Age, BadVersion, PlannedKey, PlannedObject, WritePlan};
use super::table::Table;

pub(super) use planner::{Outcome, Planner};

/// The state of a key: as planned, or else as in the table.
pub(super) struct KeyView<'a, V> {
    pub(super) held: Option<HeldView<'a, V>>,
    pub(super) bad: Option<&'a BadVersion>,
}

pub(super) struct HeldView<'a, V> {
    pub(super) object: &'a Arc<V>,
    pub(super) member: u32,
    pub(super) age: Age,
}

impl<V, Q: Hash + Eq + Clone> WritePlan<V, Q> {
    pub(super) fn view<'a, L: Hash + Equivalent<Q> + ?Sized>(
        &'a self,
        table: &'a Table<V, Q>,
        key: &L,
    ) -> KeyView<'a, V> {
        let hash = table.hash(key);
        if let Some(position) = self.find(hash, key) {
            let planned = &self.keys[position];
            return KeyView {
                held: planned.held.as_ref().map(|held| HeldView {
                    object: &held.object,
                    member: held.member,
                    age: held.age,
                }),
                bad: planned.bad.as_ref(),
            };
        }
        KeyView {
            held: (table.find_hashed(hash, key)).and_then(|slot| {
                let (entry, object) = table.at(slot)?;
                Some(HeldView {
                    object,
                    member: entry.member,
                    age: entry.age,
                })
            }),
            bad: table.bad_hashed(hash, key),
        }
    }

    /// The plan for a key, to be changed. It starts as the state in the table.
    pub(super) fn touch<L: Hash + Equivalent<Q> + ?Sized>(
        &mut self,
        table: &Table<V, Q>,
        key: &L,
        to_key: impl FnOnce() -> Q,
    ) -> &mut PlannedKey<V, Q> {
        let hash = table.hash(key);
        let position = match self.find(hash, key) {
            Some(position) => position,
            None => {
                let slot = table.find_hashed(hash, key);
                let held = slot.and_then(|slot| table.at(slot));
                self.push(PlannedKey {
                    hash,
                    key: held.map_or_else(to_key, |(entry, _)| entry.key.clone()),
                    slot,
                    held: held.map(|(entry, object)| PlannedObject {
                        object: object.clone(),
                        member: entry.member,
                        age: entry.age,
                        row: None,
                    }),
                    bad: table.bad_hashed(hash, key).cloned(),
                })
            }
        };
        &mut self.keys[position]
    }
}
