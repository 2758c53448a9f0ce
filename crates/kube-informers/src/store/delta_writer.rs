//! `DeltaWriter`: the write side of an informer. Deltas in, events out.
//!
//! In two halves, so that index functions run without any lock, also without one the caller holds around the
//! writer: [`Prepared::new`] computes, [`DeltaWriter::apply`] decides and writes.

use std::fmt;
use std::sync::Arc;

use super::plan::Plan;
use super::planner::{Outcome, Planner};
use super::read::{At, NAMESPACE_INDEX, Store};
use super::rows::{IndexDef, Row, Rows};
use super::shared::{NeedsValues, Shared, Step};
use super::table::Table;
use crate::delta::Delta;
use crate::event::Event;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::shard::Shard;

/// Applies deltas to a store and says what happened. There is one writer; [`store`](Self::store) gives any
/// number of readers.
///
/// What the store holds decides what a delta means, not its name: an `Updated` of an unknown object is an
/// addition, a `Deleted` of an unknown object is nothing, a version that is held already is told to nobody and
/// an older one is dropped and counted. Two UIDs under one name are two objects: a deletion and an addition.
/// A list is the truth even where its versions are lower.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_informers::delta::Delta;
/// use kube_informers::store::{DeltaWriter, Origin};
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
    shared: Arc<Shared<K, ObjectKey>>,
}

/// Where a batch of deltas comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which of the informer's watches, counted from 0. The watches of one informer cover different objects
    /// (namespaces, shards): a list of one of them says nothing about the objects of the others.
    pub member: usize,
    /// Whether the deltas are part of the first list.
    pub initial: bool,
    /// Whether the queue kept the order across keys. If not, the store reports no version from the first
    /// delta on until a `Bookmark` says that everything up to it has been applied.
    pub in_order: bool,
}

impl Default for Origin {
    /// The first watch, not its first list, in order.
    fn default() -> Self {
        Self {
            member: 0,
            initial: false,
            in_order: true,
        }
    }
}

/// What a batch of deltas did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// `Added` events.
    pub added: usize,
    /// `Updated` events that are no resync.
    pub updated: usize,
    /// `Deleted` events.
    pub deleted: usize,
    /// Of these, deletions that no watch announced.
    pub vanished: usize,
    /// `Updated` events that are a resync.
    pub resynced: usize,
    /// Objects of lists that were held already, in this very version.
    pub unchanged: usize,
    /// Watch deltas, and earlier mentions in one list, of a state that is held already.
    pub duplicates: usize,
    /// Watch deltas and bookmarks older than what is known.
    pub stale_dropped: usize,
    /// States of objects outside the shard, left out.
    pub outside: usize,
    /// Objects put into quarantine, and objects without a name.
    pub quarantined: usize,
    /// Keys that left quarantine because a good version came.
    pub recovered: usize,
    /// The objects counted by `quarantined`.
    pub problems: Vec<BadObject>,
}

impl<K: Object> DeltaWriter<K> {
    /// An empty store, with the index [`NAMESPACE_INDEX`].
    pub fn new() -> Self {
        let shared = Shared::new(|object: &K, problem| BadObject {
            key: Some(ObjectKey::of(object)).filter(|key| !key.name().is_empty()),
            uid: object.uid().map(str::to_owned),
            resource_version: object.resource_version().map(str::to_owned),
            problem,
            size: 0,
        });
        let namespace = IndexDef::new(NAMESPACE_INDEX, |object: &K| {
            let namespace = object.namespace().filter(|namespace| !namespace.is_empty());
            namespace.map(str::to_owned)
        });
        // Cannot fail: it is the first one.
        let _first = shared.add_index(namespace);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The read side.
    pub fn store(&self) -> Store<K> {
        Store::new(self.shared.clone())
    }

    /// See [`Prepared::new`].
    pub fn prepare(&self, origin: Origin, deltas: Vec<Delta<K>>) -> Prepared<K> {
        Prepared::new(&self.store(), origin, deltas)
    }

    /// Applies a batch as one step and appends what happened to `events`.
    ///
    /// The events of a list begin with what vanished, followed by additions and updates in the order of the
    /// list. When this returns, every reader sees the new state.
    pub fn apply(&mut self, mut prepared: Prepared<K>, events: &mut Vec<Event<K>>) -> Applied {
        if !Arc::ptr_eq(&prepared.shared, &self.shared) {
            // Prepared for another store, with other indexes.
            prepared.compute(self.shared.read().defs());
        }
        let outcome = self.shared.commit(&mut prepared);
        events.extend(outcome.events);
        outcome.applied
    }

    /// Gives up everything outside a shard: it leaves, whichever watch it came from. The versions of the watches stay:
    /// what is left is what they showed of that shard.
    ///
    /// What comes later must be [narrowed](Prepared::restrict_to), or it comes back.
    pub fn evict_outside(&mut self, shard: &Shard, events: &mut Vec<Event<K>>) -> Applied {
        let mut prepared = Prepared::new(&self.store(), Origin::default(), Vec::new());
        prepared.steps.push(PreparedDelta::EvictOutside);
        self.apply(prepared.restrict_to(Some(shard.clone())), events)
    }

    /// Gives up a member watch: its objects leave, and its version is unknown.
    pub fn drop_member(&mut self, member: usize, events: &mut Vec<Event<K>>) -> Applied {
        let mut prepared = Prepared::new(
            &self.store(),
            Origin {
                member,
                ..Origin::default()
            },
            Vec::new(),
        );
        prepared.steps.push(PreparedDelta::LeaveScope);
        self.apply(prepared, events)
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
    shared: Arc<Shared<K, ObjectKey>>,
    pub(super) origin: Origin,
    pub(super) steps: Vec<PreparedDelta<K>>,
    pub(super) rows: Rows<K>,
    pub(super) shard: Option<Shard>,
}

/// An object to be written, and where its index values are.
pub(super) struct Item<K> {
    pub(super) object: Arc<K>,
    pub(super) row: Row,
}

pub(super) enum PreparedDelta<K> {
    /// `Added` or `Updated`.
    Put(Item<K>),
    /// One object of a list.
    PutListed(Item<K>),
    /// Any other delta about one object, or none.
    Other(Delta<K>),
    ReplaceAll {
        items: Vec<Item<K>>,
        unreadable: Vec<BadObject>,
        resource_version: Option<String>,
    },
    LeaveScope,
    EvictOutside,
}

impl<K: Object> Prepared<K> {
    /// Runs the index functions of a store on the objects of a batch.
    ///
    /// Needs no access to the writer and may run on any thread. Objects of a list that the store holds in the
    /// same version are left out.
    pub fn new(store: &Store<K>, origin: Origin, deltas: Vec<Delta<K>>) -> Self {
        let shared = store.shared().clone();
        let defs = shared.read().defs();
        let mut rows = Rows::new(defs);
        let steps = deltas.into_iter().map(|delta| match delta {
            Delta::Added(object) | Delta::Updated(object) => PreparedDelta::Put(Item {
                row: rows.add(&object),
                object,
            }),
            Delta::Replaced(object) => {
                let mut item = missing(object);
                fill(&shared, std::slice::from_mut(&mut item), &mut rows);
                PreparedDelta::PutListed(item)
            }
            Delta::ReplacedAll(replacement) => {
                let mut items = replacement.objects.into_iter().map(missing).collect::<Vec<_>>();
                fill(&shared, &mut items, &mut rows);
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
            rows,
            shard: None,
        }
    }

    /// Leaves out what is outside a shard, as if it were not there. An object that does not show what the shard goes by
    /// is put into quarantine.
    #[must_use]
    pub fn restrict_to(mut self, shard: Option<Shard>) -> Self {
        self.shard = shard.filter(|shard| !shard.is_everything());
        self
    }
}

fn missing<K>(object: Arc<K>) -> Item<K> {
    Item {
        object,
        row: Row::Missing,
    }
}

/// Computes the index values of those objects that the store does not hold in this version.
fn fill<K: Object>(shared: &Shared<K, ObjectKey>, items: &mut [Item<K>], rows: &mut Rows<K>) {
    for items in items.chunks_mut(1024) {
        // Looked up in pieces, so that a writer need not wait for the whole list.
        let changed: Vec<bool> = {
            let table = shared.read();
            let is_held = |item: &Item<K>| {
                let at = At::new(item.object.namespace(), item.object.name());
                let held = (table.find(shared.hash(&at.hashed()), |key| at.is(key)))
                    .and_then(|slot| table.slots().get(slot));
                held.is_some_and(|held| {
                    Arc::ptr_eq(held, &item.object)
                        || (item.object.resource_version().is_some()
                            && held.resource_version() == item.object.resource_version()
                            && held.uid() == item.object.uid())
                })
            };
            items.iter().map(|item| !is_held(item)).collect()
        };
        for (item, changed) in items.iter_mut().zip(changed) {
            if changed {
                item.row = rows.add(&item.object);
            }
        }
    }
}

impl<K: Object> Step<K, ObjectKey> for Prepared<K> {
    type Outcome = Outcome<K>;

    fn rows(&self) -> &Rows<K> {
        &self.rows
    }

    fn compute(&mut self, defs: Vec<Arc<IndexDef<K>>>) {
        let mut rows = Rows::new(defs);
        for step in &mut self.steps {
            let items = match step {
                PreparedDelta::Put(item) | PreparedDelta::PutListed(item) => std::slice::from_mut(item),
                PreparedDelta::ReplaceAll { items, .. } => items,
                PreparedDelta::Other(_) | PreparedDelta::LeaveScope | PreparedDelta::EvictOutside => &mut [],
            };
            for item in items {
                item.row = rows.add(&item.object);
            }
        }
        self.rows = rows;
    }

    fn plan(&self, table: &Table<K, ObjectKey>) -> Result<(Plan<K, ObjectKey>, Outcome<K>), NeedsValues> {
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
