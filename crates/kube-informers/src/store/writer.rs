//! `StoreWriter`: the write side of a store that is filled by hand, with any value and any key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashTable;

use super::plan::{Age, Bad, Held, Plan};
use super::reached::Reached;
use super::read::Store;
use super::rows::{IndexDef, Row, Rows};
use super::shared::{NeedsValues, Shared, Step, panicked};
use super::table::Table;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;

/// Fills a store by hand. There is one writer; [`store`](Self::store) gives any number of readers.
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
#[doc(alias = "NewStore")]
#[doc(alias = "NewIndexer")]
pub struct StoreWriter<V, Q = ObjectKey> {
    shared: Arc<Shared<V, Q>>,
    key: Box<dyn Fn(&V) -> Q + Send + Sync>,
}

impl<V: Object> StoreWriter<V> {
    /// A store of objects by namespace and name, without any index.
    #[doc(alias = "MetaNamespaceKeyFunc")]
    pub fn new() -> Self {
        Self::with_key(|object| ObjectKey::of(object))
    }
}

impl<V: Object> Default for StoreWriter<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V, Q: Hash + Eq + Clone> StoreWriter<V, Q> {
    /// A store with a key function of your own. The key of a value must not change.
    #[doc(alias = "KeyFunc")]
    pub fn with_key(key: impl Fn(&V) -> Q + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared::new(|_, problem| BadObject {
                key: None,
                uid: None,
                resource_version: None,
                problem,
                size: 0,
            })),
            key: Box::new(key),
        }
    }

    /// The read side.
    pub fn store(&self) -> Store<V, Q> {
        Store::new(self.shared.clone())
    }

    /// Puts a value in, and returns the one that was under its key.
    ///
    /// # Errors
    ///
    /// If an index function panics on the value. The value that was there stays and counts as stale.
    #[doc(alias = "Add")]
    #[doc(alias = "Update")]
    pub fn insert(&mut self, value: impl Into<Arc<V>>) -> Result<Option<Arc<V>>, IndexPanic> {
        let mut transaction = self.transaction();
        transaction.insert(value);
        let mut outcome = transaction.run();
        match outcome.failed.pop() {
            Some((_, error)) => Err(error),
            None => Ok(outcome.replaced.pop().flatten()),
        }
    }

    /// Takes a value out and returns it.
    #[doc(alias = "Delete")]
    pub fn remove<B>(&mut self, key: &B) -> Option<Arc<V>>
    where
        Q: Borrow<B>,
        B: Hash + Eq + ?Sized,
    {
        let key = {
            let hash = self.shared.hash(key);
            let table = self.shared.read();
            let slot = table.find(hash, |other| other.borrow() == key)?;
            table.entry(slot)?.key.clone()
        };
        let mut transaction = self.transaction();
        transaction.remove(key);
        transaction.run().replaced.pop().flatten()
    }

    /// Exchanges everything in one step; of several values with one key the last one counts.
    ///
    /// # Errors
    ///
    /// If an index function panics on a value. All others are exchanged; for that key the value that was there
    /// stays and counts as stale.
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

    /// Sets the resource version the store reports.
    #[doc(alias = "Bookmark")]
    pub fn set_resource_version(&mut self, resource_version: Option<&str>) {
        let mut transaction = self.transaction();
        transaction.version = Some(resource_version.map(str::to_owned));
        transaction.run();
    }

    /// Several writes that readers see as one.
    #[doc(alias = "Transaction")]
    pub fn transaction(&mut self) -> Transaction<'_, V, Q> {
        let defs = self.shared.read().defs();
        Transaction {
            rows: Rows::new(defs),
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

/// Several writes that become visible together, on [`commit`](Self::commit). Dropping it does nothing.
pub struct Transaction<'a, V, Q> {
    writer: &'a mut StoreWriter<V, Q>,
    writes: Vec<Write<V, Q>>,
    rows: Rows<V>,
    version: Option<Option<String>>,
    /// Whether keys that no write names are to go.
    replaces_all: bool,
}

enum Write<V, Q> {
    Insert { key: Q, value: Arc<V>, row: Row },
    Remove(Q),
}

impl<V, Q: Hash + Eq + Clone> Transaction<'_, V, Q> {
    /// Puts a value in.
    pub fn insert(&mut self, value: impl Into<Arc<V>>) -> &mut Self {
        let value = value.into();
        self.writes.push(Write::Insert {
            key: (self.writer.key)(&value),
            row: self.rows.add(&value),
            value,
        });
        self
    }

    /// Takes a value out, if there is one.
    pub fn remove(&mut self, key: Q) -> &mut Self {
        self.writes.push(Write::Remove(key));
        self
    }

    /// Carries out the writes in their order, as one step.
    ///
    /// # Errors
    ///
    /// If an index function panics on a value. All other writes are carried out; the error says which.
    pub fn commit(self) -> Result<(), TransactionError> {
        let total = self.writes.len();
        let failed = self.run().failed;
        if failed.is_empty() {
            return Ok(());
        }
        let is_good = |number: &usize| !failed.iter().any(|(other, _)| other == number);
        Err(TransactionError {
            successful: (0..total).filter(is_good).collect(),
            failed,
        })
    }

    fn run(mut self) -> Outcome<V> {
        let shared = self.writer.shared.clone();
        shared.commit(&mut self)
    }
}

/// What became of the writes of a transaction.
pub(super) struct Outcome<V> {
    /// What each write found under its key.
    replaced: Vec<Option<Arc<V>>>,
    failed: Vec<(usize, IndexPanic)>,
}

impl<V, Q: Hash + Eq + Clone> Step<V, Q> for Transaction<'_, V, Q> {
    type Outcome = Outcome<V>;

    fn rows(&self) -> &Rows<V> {
        &self.rows
    }

    fn compute(&mut self, defs: Vec<Arc<IndexDef<V>>>) {
        self.rows = Rows::new(defs);
        for write in &mut self.writes {
            if let Write::Insert { value, row, .. } = write {
                *row = self.rows.add(value);
            }
        }
    }

    fn plan(&self, table: &Table<V, Q>) -> Result<(Plan<V, Q>, Outcome<V>), NeedsValues> {
        let shared = &self.writer.shared;
        let mut plan = Plan::new();
        let mut outcome = Outcome {
            replaced: Vec::with_capacity(self.writes.len()),
            failed: Vec::new(),
        };
        if self.replaces_all {
            self.remove_others(table, &mut plan);
        }
        for (number, write) in self.writes.iter().enumerate() {
            let key = write.key();
            let touched = plan.touch(table, shared.hash(key), |other| other == key, || key.clone());
            let before = touched.held.as_ref().map(|held| held.object.clone());
            match write {
                Write::Remove(_) => {
                    touched.held = None;
                    touched.bad = None;
                }
                Write::Insert { value, row, .. } => match *row {
                    Row::Missing => return Err(NeedsValues),
                    Row::At(row) => {
                        touched.bad = None;
                        touched.held = Some(Held {
                            object: value.clone(),
                            member: 0,
                            age: Age::Current,
                            row: Some(row),
                        });
                    }
                    Row::Panicked(column) => {
                        let index = self.rows.name(column);
                        touched.bad = Some(Bad {
                            object: Box::new(shared.describe(value, panicked(index))),
                            member: 0,
                        });
                        if let Some(held) = &mut touched.held {
                            held.age = Age::Outdated;
                        }
                        let index = index.to_owned();
                        outcome.failed.push((number, IndexPanic { index }));
                    }
                },
            }
            outcome.replaced.push(before);
        }
        plan.reached = self.version.as_ref().map(|version| {
            let mut reached = Reached::default();
            reached.reset(version.as_deref());
            (0, reached)
        });
        Ok((plan, outcome))
    }
}

impl<V, Q: Hash + Eq + Clone> Transaction<'_, V, Q> {
    /// Plans the end of all keys that no write names. First of all, so that the new ones find free slots.
    fn remove_others(&self, table: &Table<V, Q>, plan: &mut Plan<V, Q>) {
        let shared = &self.writer.shared;
        let mut named = HashTable::with_capacity(self.writes.len());
        for write in &self.writes {
            let rehash = |other: &&Q| shared.hash(*other);
            named.insert_unique(shared.hash(write.key()), write.key(), rehash);
        }
        let held = table.iter().map(|(_, entry, _)| &entry.key);
        let quarantined = table.quarantine().map(|entry| &entry.key);
        for key in held.chain(quarantined) {
            let hash = shared.hash(key);
            if named.find(hash, |other| *other == key).is_none() {
                let touched = plan.touch(table, hash, |other| other == key, || key.clone());
                touched.held = None;
                touched.bad = None;
            }
        }
    }
}

impl<V, Q> Write<V, Q> {
    fn key(&self) -> &Q {
        match self {
            Self::Insert { key, .. } | Self::Remove(key) => key,
        }
    }
}

/// An index function panicked on a value, which was therefore not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the function of index {index:?} panicked on the value: it was not stored")]
pub struct IndexPanic {
    /// The name of the index.
    pub index: String,
}

/// Some writes of a transaction were not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of {} writes failed: {}", failed.len(), failed.len() + successful.len(), first_failure(failed))]
pub struct TransactionError {
    /// The numbers of the writes that were carried out, counted from 0.
    #[doc(alias = "SuccessfulIndices")]
    pub successful: Vec<usize>,
    /// The others, and why.
    pub failed: Vec<(usize, IndexPanic)>,
}

fn first_failure(failed: &[(usize, IndexPanic)]) -> String {
    match failed.first() {
        None => String::new(),
        Some((number, panic)) => format!("write {number}: {panic}"),
    }
}
