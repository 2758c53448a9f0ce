//! `DeltaWriter`: the write side of an informer's store. Applies deltas and returns events.
//!
//! It works in two steps, so that index functions run without a lock, including one the caller holds around the writer:
//! [`Prepared::new`] computes index values, [`DeltaWriter::apply`] decides and writes.

use std::fmt;
use std::sync::Arc;

use super::index_values::{IndexDef, IndexRow, IndexValues};
use super::lookup::KeyRef;
use super::plan::{Outcome, Planner};
use super::planned::WritePlan;
use super::read::{NAMESPACE_INDEX, Store};
use super::shared_table::{NeedsValues, SharedTable, TableWrite};
use super::table::Table;
use crate::delta::Delta;
use crate::event::Event;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::shard::Shard;

/// Applies deltas to a store and returns the resulting events. A store has one writer; [`store`](Self::store) returns a
/// handle for reading.
///
/// The content of the store decides what a delta means, not its variant: an `Updated` of an unknown object is an
/// addition, a `Deleted` of an unknown object is ignored, a version that is already held causes no event, and an older
/// one is dropped and counted. Two UIDs under one name are two objects: a deletion and an addition. A list is
/// authoritative even if its versions are lower.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_informers::delta::Delta;
/// use kube_informers::sim::{DeltaWriter, Origin};
///
/// let mut writer = DeltaWriter::new();
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".into());
/// map.metadata.resource_version = Some("7".into());
///
/// let mut events = Vec::new();
/// let prepared = writer.prepare(Origin::default(), vec![Delta::Added(Arc::new(map))]);
/// let applied = writer.apply(prepared, &mut events);
///
/// assert_eq!(applied.added, 1);
/// assert_eq!(events[0].to_string(), "added settings");
/// assert_eq!(writer.store().resource_version().as_deref(), Some("7"));
/// ```
#[doc(alias = "processDeltas")]
pub struct DeltaWriter<K> {
    shared: Arc<SharedTable<K, ObjectKey>>,
}

/// The source of a batch of deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The position of the watch in its informer, from 0. The watches of an informer cover different namespaces: a list of
    /// one of them does not affect the objects of the others.
    pub member: usize,
    /// Whether the deltas are part of the initial list.
    pub initial: bool,
}

/// The effects of a batch of deltas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// `Added` events.
    pub added: usize,
    /// `Updated` events that are not resyncs.
    pub updated: usize,
    /// `Deleted` events.
    pub deleted: usize,
    /// Of these, missed deletes.
    pub vanished: usize,
    /// `Updated` events that are resyncs.
    pub resynced: usize,
    /// Listed objects that were already held in the same version.
    pub unchanged: usize,
    /// Watch deltas of a state that is already held, and repeated keys in one list.
    pub duplicates: usize,
    /// Watch deltas and bookmarks that are older than what is known.
    pub stale_dropped: usize,
    /// Objects outside the shard, which were ignored.
    pub outside: usize,
    /// Objects put into quarantine, and objects without a name.
    pub quarantined: usize,
    /// Keys that left quarantine because a readable version arrived.
    pub recovered: usize,
    /// The objects counted by `quarantined`.
    pub problems: Vec<BadObject>,
}

impl<K: Object> DeltaWriter<K> {
    /// An empty store, with the index [`NAMESPACE_INDEX`].
    pub fn new() -> Self {
        let shared = SharedTable::new(|object: &K, problem| BadObject {
            key: Some(ObjectKey::of(object)).filter(|key| !key.name().is_empty()),
            uid: object.object_uid().map(str::to_owned),
            resource_version: object.object_version().map(str::to_owned),
            problem,
            size: 0,
        });
        let namespace = IndexDef::new(NAMESPACE_INDEX, |object: &K| {
            let namespace = object
                .object_namespace()
                .filter(|namespace| !namespace.is_empty());
            namespace.map(str::to_owned)
        });
        // Cannot fail: it is the first index.
        let _first = shared.add_index(namespace);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A handle for reading.
    pub fn store(&self) -> Store<K> {
        Store::new(self.shared.clone())
    }

    /// See [`Prepared::new`].
    #[cfg(any(test, feature = "sim"))]
    pub fn prepare(&self, origin: Origin, deltas: Vec<Delta<K>>) -> Prepared<K> {
        Prepared::new(&self.store(), origin, deltas)
    }

    /// Applies a batch in one step and appends the resulting events to `events`.
    ///
    /// The events of a list are the missed deletes, followed by additions and updates in the order of the list. When this
    /// returns, every reader sees the new state.
    pub fn apply(&mut self, mut prepared: Prepared<K>, events: &mut Vec<Event<K>>) -> Applied {
        if !Arc::ptr_eq(&prepared.shared, &self.shared) {
            // Prepared for another store, which may have other indexes.
            prepared.compute(self.shared.read().defs());
        }
        let outcome = self.shared.commit(&mut prepared);
        events.extend(outcome.events);
        outcome.applied
    }

    /// Removes every object outside a shard, of all watches. Their versions stay: the store holds what it held of the
    /// shard at these versions.
    ///
    /// Later batches must be [restricted](Prepared::restrict_to) to the shard, or evicted objects return.
    pub fn evict_outside(&mut self, shard: &Shard, events: &mut Vec<Event<K>>) -> Applied {
        let mut prepared = Prepared::new(&self.store(), Origin::default(), Vec::new());
        prepared.steps.push(PreparedDelta::EvictOutside);
        self.apply(prepared.restrict_to(Some(shard.clone())), events)
    }

    /// Adds a watch. The store reports its version as unknown until it delivers something.
    pub fn add_member(&mut self, member: usize) {
        self.apply(
            self.member_step(member, PreparedDelta::AddMember),
            &mut Vec::new(),
        );
    }

    /// Removes every object of one watch, which has ended, and forgets its version.
    ///
    /// Later batches of the watch must not be applied, or its objects return.
    pub fn evict_member(&mut self, member: usize, events: &mut Vec<Event<K>>) -> Applied {
        self.apply(self.member_step(member, PreparedDelta::EvictMember), events)
    }

    fn member_step(&self, member: usize, step: PreparedDelta<K>) -> Prepared<K> {
        let origin = Origin {
            member,
            ..Origin::default()
        };
        let mut prepared = Prepared::new(&self.store(), origin, Vec::new());
        prepared.steps.push(step);
        prepared
    }
}

impl<K: Object> Default for DeltaWriter<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for DeltaWriter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeltaWriter")
    }
}

/// A batch of deltas with the index values of its objects, ready to be applied.
pub struct Prepared<K> {
    shared: Arc<SharedTable<K, ObjectKey>>,
    pub(super) origin: Origin,
    pub(super) steps: Vec<PreparedDelta<K>>,
    pub(super) values: IndexValues<K>,
    pub(super) shard: Option<Shard>,
}

/// An object to write, and the place of its index values.
pub(super) struct Item<K> {
    pub(super) object: Arc<K>,
    pub(super) row: IndexRow,
}

pub(super) enum PreparedDelta<K> {
    /// `Added` or `Updated`.
    Put(Item<K>),
    /// Any other delta.
    Other(Delta<K>),
    ReplaceAll {
        items: Vec<Item<K>>,
        unreadable: Vec<BadObject>,
        resource_version: Option<String>,
    },
    EvictOutside,
    AddMember,
    EvictMember,
}

impl<K: Object> Prepared<K> {
    /// Runs the index functions of a store on the objects of a batch.
    ///
    /// Needs no access to the writer and may run on any thread. Listed objects that the store holds in the same version
    /// are skipped.
    pub fn new(store: &Store<K>, origin: Origin, deltas: Vec<Delta<K>>) -> Self {
        let shared = store.shared().clone();
        let defs = shared.read().defs();
        let mut values = IndexValues::new(defs);
        let steps = deltas.into_iter().map(|delta| match delta {
            Delta::Added(object) | Delta::Updated(object) => PreparedDelta::Put(Item {
                row: values.add(&object),
                object,
            }),
            Delta::ReplacedAll(replacement) => {
                let mut items = replacement.objects.into_iter().map(missing).collect::<Vec<_>>();
                fill(&shared, &mut items, &mut values);
                PreparedDelta::ReplaceAll {
                    items,
                    unreadable: replacement.unreadable,
                    resource_version: replacement.resource_version,
                }
            }
            other => PreparedDelta::Other(other),
        });
        let steps = steps.collect();
        Self {
            shared,
            origin,
            steps,
            values,
            shard: None,
        }
    }

    /// Ignores objects outside a shard, as if they did not exist. An object without the field that decides is put into
    /// quarantine.
    #[must_use]
    pub fn restrict_to(mut self, shard: Option<Shard>) -> Self {
        self.shard = shard.filter(|shard| !shard.is_everything());
        self
    }
}

fn missing<K>(object: Arc<K>) -> Item<K> {
    Item {
        object,
        row: IndexRow::Missing,
    }
}

/// Computes the index values of the objects that the store does not hold in the same version.
fn fill<K: Object>(shared: &SharedTable<K, ObjectKey>, items: &mut [Item<K>], values: &mut IndexValues<K>) {
    for items in items.chunks_mut(1024) {
        // Looked up in chunks, so that a writer does not wait for the whole list.
        let changed: Vec<bool> = {
            let table = shared.read();
            let is_held = |item: &Item<K>| {
                let held = table.get(&KeyRef::of(&*item.object));
                held.is_some_and(|(_, held)| {
                    Arc::ptr_eq(held, &item.object)
                        || (item.object.object_version().is_some()
                            && held.object_version() == item.object.object_version()
                            && held.object_uid() == item.object.object_uid())
                })
            };
            items.iter().map(|item| !is_held(item)).collect()
        };
        for (item, changed) in items.iter_mut().zip(changed) {
            if changed {
                item.row = values.add(&item.object);
            }
        }
    }
}

impl<K: Object> TableWrite<K, ObjectKey> for Prepared<K> {
    type Outcome = Outcome<K>;

    fn values(&self) -> &IndexValues<K> {
        &self.values
    }

    fn compute(&mut self, defs: Vec<Arc<IndexDef<K>>>) {
        let mut values = IndexValues::new(defs);
        for step in &mut self.steps {
            let items = match step {
                PreparedDelta::Put(item) => std::slice::from_mut(item),
                PreparedDelta::ReplaceAll { items, .. } => items,
                PreparedDelta::Other(_)
                | PreparedDelta::EvictOutside
                | PreparedDelta::AddMember
                | PreparedDelta::EvictMember => &mut [],
            };
            for item in items {
                item.row = values.add(&item.object);
            }
        }
        self.values = values;
    }

    fn plan(
        &self,
        table: &Table<K, ObjectKey>,
    ) -> Result<(WritePlan<K, ObjectKey>, Outcome<K>), NeedsValues> {
        Planner::new(&self.shared, table, self).run()
    }
}

impl<K> fmt::Debug for Prepared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("origin", &self.origin)
            .field("deltas", &self.steps.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn debug_output_is_the_name_of_the_type() {
        assert_eq!(format!("{:?}", DeltaWriter::<Secret>::new()), "DeltaWriter");
    }
}
