//! `SharedTable`: the table and its lock, shared by readers and the writer.
//!
//! A write is planned while readers continue to read, then carried out under the lock. User code (index functions) runs
//! before, without a lock.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{Condvar, Mutex, RwLockReadGuard, RwLockUpgradableReadGuard};

use super::error::IndexError;
use super::index_values::{IndexDef, IndexRow, IndexValues};
use super::planned::{BadVersion, WritePlan};
use super::postings::Postings;
use super::table::Table;
use crate::lock::RwLock;
use crate::quarantine::{BadObject, Problem};

/// A plan with more keys than this, and with more than a sixteenth of the table, is carried out on a copy that then
/// replaces the table. Readers wait for the swap instead of for every write. The copy shares the objects, so it takes the
/// memory of keys and indexes only.
const LARGE: usize = 1024;

pub(super) struct SharedTable<V, Q> {
    table: RwLock<Table<V, Q>>,
    /// Describes an object on which an index function panicked.
    describe: fn(&V, Problem) -> BadObject,
    /// Notified when an index covers every object.
    index_added: (Mutex<()>, Condvar),
}

/// One write to the table.
pub(super) trait TableWrite<V, Q> {
    /// The result of the write.
    type Outcome;

    /// The index values of its objects.
    fn values(&self) -> &IndexValues<V>;

    /// Computes the index values of all its objects for these indexes. Called without a lock.
    fn compute(&mut self, defs: Vec<Arc<IndexDef<V>>>);

    /// Makes the plan. Called while others read.
    fn plan(&self, table: &Table<V, Q>) -> Result<(WritePlan<V, Q>, Self::Outcome), NeedsValues>;
}

/// The plan needs index values that were not computed.
pub(super) struct NeedsValues;

impl<V, Q: Hash + Eq + Clone> SharedTable<V, Q> {
    pub(super) fn new(describe: fn(&V, Problem) -> BadObject) -> Self {
        Self {
            table: RwLock::new(Table::new(RandomState::default())),
            describe,
            index_added: (Mutex::new(()), Condvar::new()),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table<V, Q>> {
        self.table.read()
    }

    pub(super) fn describe(&self, object: &V, problem: Problem) -> BadObject {
        (self.describe)(object, problem)
    }

    /// Carries out a write, which readers see as one step. There must be only one writer.
    pub(super) fn commit<W: TableWrite<V, Q>>(&self, write: &mut W) -> W::Outcome {
        loop {
            // Readers continue; adding an index waits.
            let table = self.table.upgradable_read();
            let planned = if write.values().columns() == table.indexes().len() {
                write.plan(&table)
            } else {
                // An index was added after the values were computed.
                Err(NeedsValues)
            };
            match planned {
                Ok((plan, outcome)) => {
                    self.carry_out(table, plan, write.values());
                    return outcome;
                }
                Err(NeedsValues) => {
                    let defs = table.defs();
                    drop(table);
                    write.compute(defs);
                }
            }
        }
    }

    fn carry_out(
        &self,
        table: RwLockUpgradableReadGuard<'_, Table<V, Q>>,
        plan: WritePlan<V, Q>,
        values: &IndexValues<V>,
    ) {
        if plan.is_empty() {
            return;
        }
        if plan.len() > LARGE && plan.len() > table.len() / 16 {
            let mut copy = table.clone();
            let removed = copy.commit(plan, values);
            if copy.is_sparse() {
                copy = copy.compacted();
            }
            let mut table = RwLockUpgradableReadGuard::upgrade(table);
            std::mem::swap(&mut *table, &mut copy);
            // Memory is freed without the lock.
            drop(table);
            drop((copy, removed));
        } else {
            let mut table = RwLockUpgradableReadGuard::upgrade(table);
            let removed = table.commit(plan, values);
            let is_sparse = table.is_sparse();
            drop(table);
            drop(removed);
            if is_sparse {
                self.compact();
            }
        }
    }

    fn compact(&self) {
        let table = self.table.upgradable_read();
        if table.is_sparse() {
            let mut compacted = table.compacted();
            let mut table = RwLockUpgradableReadGuard::upgrade(table);
            std::mem::swap(&mut *table, &mut compacted);
            drop(table);
        }
    }

    /// Adds an index and returns its column once it covers every object.
    pub(super) fn add_index(&self, def: IndexDef<V>) -> Result<usize, IndexError> {
        let def = Arc::new(def);
        let (column, objects) = {
            let mut table = self.table.write();
            if table.indexes().iter().any(|index| index.def.name == def.name) {
                return Err(IndexError::Duplicate {
                    name: def.name.to_string(),
                });
            }
            // From now on every write includes the values of this index. Existing objects are indexed below.
            (table.push_index(def.clone()), table.slots().clone())
        };

        let mut values = IndexValues::new(vec![def.clone()]);
        let mut postings = Postings::default();
        let mut bad = Vec::new();
        for (slot, object) in objects.enumerate() {
            match values.add(object) {
                IndexRow::At(row) => postings.set(slot, values.get(row, 0)),
                IndexRow::Missing | IndexRow::Panicked(_) => {
                    postings.set(slot, std::iter::empty());
                    bad.push((slot, Box::new(self.describe(object, panicked(&def.name)))));
                }
            }
            values.clear();
        }

        let mut table = self.table.write();
        let Some(index) = table.index_mut(column) else {
            return Ok(column);
        };
        let written = std::mem::take(&mut index.postings);
        for slot in 0..table.capacity() as u32 {
            if written.is_set(slot) {
                postings.set(slot, written.values_of(slot).map(|value| &**value));
            } else if table.entry(slot).is_none() {
                postings.clear(slot);
            }
        }
        for (slot, object) in bad {
            let unchanged = !written.is_set(slot);
            let key = table.entry(slot).filter(|_| unchanged);
            if let Some((key, member)) = key.map(|entry| (entry.key.clone(), entry.member))
                && table.bad(&key).is_none()
            {
                table.set_quarantine(&key, BadVersion { object, member });
            }
        }
        if let Some(index) = table.index_mut(column) {
            index.postings = postings;
            index.ready = true;
        }
        drop(table);
        let (lock, added) = &self.index_added;
        // A thread that found the index not ready holds this lock until it waits.
        drop(lock.lock());
        added.notify_all();
        Ok(column)
    }

    /// The column of the index of this name, once it covers every object. Adds the index if there is none.
    pub(super) fn index_or_add(&self, def: IndexDef<V>) -> usize {
        let name = def.name.clone();
        if let Ok(column) = self.add_index(def) {
            return column;
        }
        let (lock, added) = &self.index_added;
        let mut waiting = lock.lock();
        loop {
            let ready = {
                let table = self.read();
                let mut indexes = table.indexes().iter();
                indexes.position(|index| index.ready && index.def.name == name)
            };
            match ready {
                Some(column) => return column,
                None => added.wait(&mut waiting),
            }
        }
    }
}

/// Omits the panic message, which may contain values of the object.
pub(super) fn panicked(index: &str) -> Problem {
    Problem::Index(format!("the function of index {index:?} panicked"))
}
