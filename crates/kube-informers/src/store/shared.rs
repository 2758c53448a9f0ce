//! The table and its one lock, as readers and writer share them.
//!
//! A write is planned while readers read, then carried out under the lock. User code (index functions) runs
//! before, without any lock.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard};

use super::index::DuplicateIndex;
use super::plan::{Bad, Plan};
use super::postings::Postings;
use super::rows::{IndexDef, Row, Rows};
use super::table::Table;
use crate::quarantine::{BadObject, Problem};

/// A plan of more keys than this, and of more than a sixteenth of the table, is carried out on a copy of the
/// table that then takes its place: readers wait for a swap instead of for every write. The copy shares the
/// objects, so its memory is that of keys and indexes.
const LARGE: usize = 1024;

pub(super) struct Shared<V, Q> {
    hasher: RandomState,
    table: RwLock<Table<V, Q>>,
    /// What is known of an object that an index function cannot digest.
    describe: fn(&V, Problem) -> BadObject,
    /// For those who wait until an index that somebody else adds covers every object.
    index_added: (Mutex<()>, Condvar),
}

/// One write: knows its objects and what to do with them.
pub(super) trait Step<V, Q> {
    /// What the write has to say for itself.
    type Outcome;

    /// The index values of its objects.
    fn rows(&self) -> &Rows<V>;

    /// Computes the index values of all its objects for these indexes. Called without a lock.
    fn compute(&mut self, defs: Vec<Arc<IndexDef<V>>>);

    /// Works out what is to be done. Called while others read.
    fn plan(&self, table: &Table<V, Q>) -> Result<(Plan<V, Q>, Self::Outcome), NeedsValues>;
}

/// The plan writes an object whose index values were not computed.
pub(super) struct NeedsValues;

impl<V, Q: Hash + Eq + Clone> Shared<V, Q> {
    pub(super) fn new(describe: fn(&V, Problem) -> BadObject) -> Self {
        let hasher = RandomState::default();
        Self {
            table: RwLock::new(Table::new(hasher.clone())),
            hasher,
            describe,
            index_added: (Mutex::new(()), Condvar::new()),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table<V, Q>> {
        self.table.read()
    }

    pub(super) fn hash<B: Hash + ?Sized>(&self, key: &B) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(super) fn describe(&self, object: &V, problem: Problem) -> BadObject {
        (self.describe)(object, problem)
    }

    /// Carries out a write in one step, as readers see it. There must be one writer only.
    pub(super) fn commit<S: Step<V, Q>>(&self, step: &mut S) -> S::Outcome {
        loop {
            // Readers go on reading, other indexes wait to be added.
            let table = self.table.upgradable_read();
            let planned = if step.rows().columns() == table.indexes().len() {
                step.plan(&table)
            } else {
                // An index was added since the values were computed.
                Err(NeedsValues)
            };
            match planned {
                Ok((plan, outcome)) => {
                    self.carry_out(table, plan, step.rows());
                    return outcome;
                }
                Err(NeedsValues) => {
                    let defs = table.defs();
                    drop(table);
                    step.compute(defs);
                }
            }
        }
    }

    fn carry_out(&self, table: RwLockUpgradableReadGuard<'_, Table<V, Q>>, plan: Plan<V, Q>, rows: &Rows<V>) {
        if plan.is_empty() {
            return;
        }
        if plan.len() > LARGE && plan.len() > table.len() / 16 {
            let mut copy = table.clone();
            let gone = copy.commit(plan, rows);
            if copy.is_sparse() {
                copy = copy.compacted();
            }
            let mut table = RwLockUpgradableReadGuard::upgrade(table);
            std::mem::swap(&mut *table, &mut copy);
            // What is freed is freed without the lock.
            drop(table);
            drop((copy, gone));
        } else {
            let mut table = RwLockUpgradableReadGuard::upgrade(table);
            let gone = table.commit(plan, rows);
            let is_sparse = table.is_sparse();
            drop(table);
            drop(gone);
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
    pub(super) fn add_index(&self, def: IndexDef<V>) -> Result<usize, DuplicateIndex> {
        let def = Arc::new(def);
        let (column, objects) = {
            let mut table = self.table.write();
            if table.indexes().iter().any(|index| index.def.name == def.name) {
                return Err(DuplicateIndex {
                    name: def.name.to_string(),
                });
            }
            // From now on every write brings the values of this index with it; what is there already is
            // done below.
            (table.push_index(def.clone()), table.slots().clone())
        };

        let mut rows = Rows::new(vec![def.clone()]);
        let mut postings = Postings::default();
        let mut bad = Vec::new();
        for (slot, object) in objects.enumerate() {
            match rows.add(object) {
                Row::At(row) => postings.set(slot, rows.get(row, 0)),
                Row::Missing | Row::Panicked(_) => {
                    postings.set(slot, std::iter::empty());
                    bad.push((slot, Box::new(self.describe(object, panicked(&def.name)))));
                }
            }
            rows.clear();
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
            if let Some((key, member)) = key.map(|entry| (entry.key.clone(), entry.member)) {
                let hash = self.hash(&key);
                if table.bad(hash, |other| *other == key).is_none() {
                    table.set_quarantine(hash, &key, Some(Bad { object, member }));
                }
            }
        }
        if let Some(index) = table.index_mut(column) {
            index.postings = postings;
            index.ready = true;
        }
        drop(table);
        let (turn, added) = &self.index_added;
        // Whoever found the index unready under this lock is waiting by now.
        drop(turn.lock());
        added.notify_all();
        Ok(column)
    }

    /// The column of the index of this name once it covers every object; adds it if there is none.
    pub(super) fn index_or_add(&self, def: IndexDef<V>) -> usize {
        let name = def.name.clone();
        if let Ok(column) = self.add_index(def) {
            return column;
        }
        let (turn, added) = &self.index_added;
        let mut waiting = turn.lock();
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

/// Without the message of the panic, which may hold values of the object.
pub(super) fn panicked(index: &str) -> Problem {
    Problem::Index(format!("the function of index {index:?} panicked"))
}
