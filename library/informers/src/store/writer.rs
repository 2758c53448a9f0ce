//! `StoreWriter`: the write side of a store that is filled by hand, with any type of value and key.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::error::{IndexError, TransactionError};
use super::index_values::{IndexDef, IndexRow, IndexValues};
use super::lookup::Lookup;
use super::planned::{Age, BadVersion, PlannedObject, WritePlan};
use super::progress::WatchProgress;
use super::read::Store;
use super::shared_table::{NeedsValues, SharedTable, TableWrite, panicked};
use super::table::Table;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;

/// Fills a store by hand. A store has one writer; [`store`](Self::store) returns a handle for reading, which can be
/// cloned.
///
/// It is also the target of a reflector, which then keeps the store equal to a collection, under keys of your choice:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::reflector::Reflector;
/// use kube_informers::store::StoreWriter;
/// use kube_informers::{ListWatch, Scope};
///
/// # fn example(client: kube::Client) {
/// let writer = StoreWriter::with_key(|pod: &Pod| pod.metadata.uid.clone().unwrap_or_default());
/// let pods_by_uid = writer.store();
/// let reflector = Reflector::new(ListWatch::<Pod>::new(client, Scope::all()), writer);
/// # }
/// ```
///
/// Values of any type:
///
/// ```
/// use kube_informers::store::StoreWriter;
///
/// struct Disk {
///     serial: u64,
///     node: String,
/// }
///
/// let mut writer = StoreWriter::with_key(|disk: &Disk| disk.serial);
/// let disks = writer.store();
/// disks.add_index("node", |disk: &Disk| [disk.node.clone()])?;
///
/// writer.insert(Disk { serial: 7, node: "a".into() })?;
/// writer.insert(Disk { serial: 9, node: "a".into() })?;
///
/// assert_eq!(disks.get(&7).map(|disk| disk.node.clone()).as_deref(), Some("a"));
/// assert_eq!(disks.by_index("node", "a")?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "NewThreadSafeStore")]
#[doc(alias = "StoreOption")]
#[doc(alias = "ThreadSafeStoreOption")]
#[doc(alias = "NewStore")]
#[doc(alias = "NewIndexer")]
pub struct StoreWriter<V, Q = ObjectKey> {
    pub(super) shared: Arc<SharedTable<V, Q>>,
    pub(super) key: Box<dyn Fn(&V) -> Q + Send + Sync>,
    /// The key of an object with this name, if the keys are names.
    pub(super) key_of_name: Option<fn(&ObjectKey) -> Q>,
}

impl<V: Object> StoreWriter<V> {
    /// A store of objects by namespace and name, without indexes.
    #[doc(alias = "MetaNamespaceKeyFunc")]
    pub fn new() -> Self {
        Self {
            key_of_name: Some(ObjectKey::clone),
            ..Self::with_key(|object| ObjectKey::of(object))
        }
    }
}

impl<V: Object> Default for StoreWriter<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V, Q: Hash + Eq + Clone> StoreWriter<V, Q> {
    /// A store with a custom key function. It must always return the same key for a value.
    #[doc(alias = "KeyFunc")]
    pub fn with_key(key: impl Fn(&V) -> Q + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(SharedTable::new(|_, problem| BadObject {
                key: None,
                uid: None,
                resource_version: None,
                problem,
                size: 0,
            })),
            key: Box::new(key),
            key_of_name: None,
        }
    }

    /// A handle for reading.
    pub fn store(&self) -> Store<V, Q> {
        Store::new(self.shared.clone())
    }

    /// Inserts a value and returns the previous value of its key.
    ///
    /// # Errors
    ///
    /// An index function panicked on the value. The previous value stays and is marked stale.
    #[doc(alias = "Add")]
    #[doc(alias = "Update")]
    pub fn insert(&mut self, value: impl Into<Arc<V>>) -> Result<Option<Arc<V>>, IndexError> {
        let mut transaction = self.transaction();
        transaction.insert(value);
        let mut outcome = transaction.run();
        match outcome.failed.pop() {
            Some((_, error)) => Err(error),
            None => Ok(outcome.replaced.pop().flatten()),
        }
    }

    /// Removes a value and returns it.
    #[doc(alias = "Delete")]
    pub fn remove(&mut self, key: impl Lookup<Q>) -> Option<Arc<V>> {
        let key = {
            let table = self.shared.read();
            let (entry, _) = table.get(&key.into_key())?;
            entry.key.clone()
        };
        let mut transaction = self.transaction();
        transaction.remove(key);
        transaction.run().replaced.pop().flatten()
    }

    /// Replaces all values in one step. If several values have the same key, the last one counts.
    ///
    /// # Errors
    ///
    /// An index function panicked on a value. All others are replaced; the previous value of that key stays and is
    /// marked stale.
    pub fn replace<T: Into<Arc<V>>>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        resource_version: Option<&str>,
    ) -> Result<(), TransactionError> {
        let mut transaction = self.transaction();
        transaction.version = Some(resource_version.map(str::to_owned));
        transaction.replaces_all = true;
        for value in values {
            transaction.insert(value);
        }
        transaction.commit()
    }

    /// Sets the resource version that the store reports.
    #[doc(alias = "Bookmark")]
    pub fn set_resource_version(&mut self, resource_version: Option<&str>) {
        let mut transaction = self.transaction();
        transaction.version = Some(resource_version.map(str::to_owned));
        transaction.run();
    }

    /// Several writes that become visible to readers together.
    #[doc(alias = "Transaction")]
    pub fn transaction(&mut self) -> Transaction<'_, V, Q> {
        self.begin()
    }

    /// A transaction of the only writer: the caller, or the reflector that owns it.
    pub(super) fn begin(&self) -> Transaction<'_, V, Q> {
        let defs = self.shared.read().defs();
        Transaction {
            values: IndexValues::new(defs),
            writer: self,
            writes: Vec::new(),
            version: None,
            replaces_all: false,
        }
    }
}

impl<V, Q> fmt::Debug for StoreWriter<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreWriter")
    }
}

/// Several writes that become visible together on [`commit`](Self::commit). Dropping it discards them.
#[doc(alias = "TransactionType")]
#[doc(alias = "TransactionTypeAdd")]
#[doc(alias = "TransactionTypeUpdate")]
#[doc(alias = "TransactionTypeDelete")]
#[doc(alias = "TransactionStore")]
#[doc(alias = "ThreadSafeStoreTransaction")]
#[doc(alias = "ThreadSafeStoreWithTransaction")]
pub struct Transaction<'a, V, Q> {
    writer: &'a StoreWriter<V, Q>,
    writes: Vec<Write<V, Q>>,
    values: IndexValues<V>,
    pub(super) version: Option<Option<String>>,
    /// Whether keys without a write are removed.
    pub(super) replaces_all: bool,
}

enum Write<V, Q> {
    Insert {
        key: Q,
        value: Arc<V>,
        row: IndexRow,
    },
    Remove(Q),
    /// The newest state could not be read. The previous value stays and is marked stale.
    Quarantine(Q, BadObject),
}

impl<V, Q: Hash + Eq + Clone> Transaction<'_, V, Q> {
    /// Inserts a value.
    pub fn insert(&mut self, value: impl Into<Arc<V>>) -> &mut Self {
        let value = value.into();
        let key = (self.writer.key)(&value);
        self.insert_under(key, value);
        self
    }

    pub(super) fn insert_under(&mut self, key: Q, value: Arc<V>) {
        let row = self.values.add(&value);
        self.writes.push(Write::Insert { key, value, row });
    }

    pub(super) fn quarantine(&mut self, key: Q, bad: BadObject) {
        self.writes.push(Write::Quarantine(key, bad));
    }

    /// Removes a value, if there is one.
    pub fn remove(&mut self, key: Q) -> &mut Self {
        self.writes.push(Write::Remove(key));
        self
    }

    /// Carries out the writes in order, as one step.
    ///
    /// # Errors
    ///
    /// An index function panicked on a value. All other writes are carried out; the error lists both.
    pub fn commit(self) -> Result<(), TransactionError> {
        let total = self.writes.len();
        let failed = self.run().failed;
        if failed.is_empty() {
            return Ok(());
        }
        let is_successful = |position: &usize| !failed.iter().any(|(other, _)| other == position);
        Err(TransactionError {
            successful: (0..total).filter(is_successful).collect(),
            failed,
        })
    }

    fn run(mut self) -> Outcome<V> {
        let shared = self.writer.shared.clone();
        shared.commit(&mut self)
    }
}

/// The results of the writes of a transaction.
pub(super) struct Outcome<V> {
    /// The previous value of the key of each write.
    replaced: Vec<Option<Arc<V>>>,
    failed: Vec<(usize, IndexError)>,
}

impl<V, Q: Hash + Eq + Clone> TableWrite<V, Q> for Transaction<'_, V, Q> {
    type Outcome = Outcome<V>;

    fn values(&self) -> &IndexValues<V> {
        &self.values
    }

    fn compute(&mut self, defs: Vec<Arc<IndexDef<V>>>) {
        self.values = IndexValues::new(defs);
        for write in &mut self.writes {
            if let Write::Insert { value, row, .. } = write {
                *row = self.values.add(value);
            }
        }
    }

    fn plan(&self, table: &Table<V, Q>) -> Result<(WritePlan<V, Q>, Outcome<V>), NeedsValues> {
        let shared = &self.writer.shared;
        let mut plan = WritePlan::new();
        let mut outcome = Outcome {
            replaced: Vec::with_capacity(self.writes.len()),
            failed: Vec::new(),
        };
        if self.replaces_all {
            self.remove_others(table, &mut plan);
        }
        for (number, write) in self.writes.iter().enumerate() {
            let key = write.key();
            let planned = plan.touch(table, key, || key.clone());
            let before = planned.held.as_ref().map(|held| held.object.clone());
            match write {
                Write::Remove(_) => {
                    planned.held = None;
                    planned.bad = None;
                }
                Write::Quarantine(_, bad) => {
                    planned.bad = Some(BadVersion {
                        object: Box::new(bad.clone()),
                        member: 0,
                    });
                    if let Some(held) = &mut planned.held {
                        held.age = Age::Outdated;
                    }
                }
                Write::Insert { value, row, .. } => match *row {
                    IndexRow::Missing => return Err(NeedsValues),
                    IndexRow::At(row) => {
                        planned.bad = None;
                        planned.held = Some(PlannedObject {
                            object: value.clone(),
                            member: 0,
                            age: Age::Current,
                            row: Some(row),
                        });
                    }
                    IndexRow::Panicked(column) => {
                        let index = self.values.name(column);
                        planned.bad = Some(BadVersion {
                            object: Box::new(shared.describe(value, panicked(index))),
                            member: 0,
                        });
                        if let Some(held) = &mut planned.held {
                            held.age = Age::Outdated;
                        }
                        let name = index.to_owned();
                        outcome.failed.push((number, IndexError::Panicked { name }));
                    }
                },
            }
            outcome.replaced.push(before);
        }
        plan.progress = self.version.as_ref().map(|version| {
            let mut progress = WatchProgress::default();
            progress.reset(version.as_deref());
            (0, Some(progress))
        });
        Ok((plan, outcome))
    }
}

impl<V, Q: Hash + Eq + Clone> Transaction<'_, V, Q> {
    /// Removes all keys without a write. This comes first, so that new keys reuse their slots.
    fn remove_others(&self, table: &Table<V, Q>, plan: &mut WritePlan<V, Q>) {
        let written: HashSet<&Q, RandomState> = self.writes.iter().map(Write::key).collect();
        let held = table.iter().map(|(_, entry, _)| &entry.key);
        let quarantined = table.quarantine().iter().map(|entry| &entry.key);
        for key in held.chain(quarantined) {
            if !written.contains(key) {
                let planned = plan.touch(table, key, || key.clone());
                planned.held = None;
                planned.bad = None;
            }
        }
    }
}

impl<V, Q> fmt::Debug for Transaction<'_, V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("writes", &self.writes.len())
            .finish_non_exhaustive()
    }
}

impl<V, Q> Write<V, Q> {
    fn key(&self) -> &Q {
        match self {
            Self::Insert { key, .. } | Self::Remove(key) | Self::Quarantine(key, _) => key,
        }
    }
}
