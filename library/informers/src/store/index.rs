//! `Index`: the read handle of a secondary index.

use std::borrow::Cow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::postings::{Postings, SlotSet};
use super::read::Store;
use super::slots::Slots;

/// Results with more objects than this are collected after the lock is released.
const LARGE_RESULT: usize = 256;

/// A secondary index: the objects of a store by values computed from them.
///
/// It is always consistent with the store. The order of results is arbitrary but stable. Cloning is cheap.
///
/// ```
/// use kube_informers::store::StoreWriter;
///
/// let mut writer = StoreWriter::with_key(|word: &String| word.clone());
/// let by_letter = writer.store().add_index("letter", |word: &String| word.chars().next().map(String::from))?;
/// writer.insert("apple".to_owned())?;
/// writer.insert("avocado".to_owned())?;
/// writer.insert("banana".to_owned())?;
///
/// assert_eq!(by_letter.count("a"), 2);
/// assert_eq!(by_letter.keys("b"), ["banana"]);
/// assert_eq!(by_letter.values().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Indexer")]
pub struct Index<V, Q = crate::ObjectKey> {
    store: Store<V, Q>,
    name: Arc<str>,
    column: usize,
}

impl<V, Q: Hash + Eq + Clone> Index<V, Q> {
    pub(super) fn new(store: Store<V, Q>, name: Arc<str>, column: usize) -> Self {
        Self { store, name, column }
    }

    /// The name of the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects with this value.
    #[doc(alias = "ByIndex")]
    pub fn get(&self, value: &str) -> Vec<Arc<V>> {
        self.collect(|postings| postings.slots(value).map(Cow::Borrowed))
    }

    /// The keys of the objects with this value.
    #[doc(alias = "IndexKeys")]
    pub fn keys(&self, value: &str) -> Vec<Q> {
        let table = self.store.table();
        let mut keys = Vec::new();
        let slots = (table.indexes().get(self.column)).and_then(|index| index.postings.slots(value));
        if let Some(slots) = slots {
            keys.reserve(slots.len());
            slots.for_each(|slot| keys.extend(table.entry(slot).map(|entry| entry.key.clone())));
        }
        keys
    }

    /// The number of objects with this value.
    pub fn count(&self, value: &str) -> usize {
        let table = self.store.table();
        let slots = (table.indexes().get(self.column)).and_then(|index| index.postings.slots(value));
        slots.map_or(0, SlotSet::len)
    }

    /// The values that at least one object has, sorted.
    #[doc(alias = "ListIndexFuncValues")]
    pub fn values(&self) -> Vec<Arc<str>> {
        let mut values: Vec<Arc<str>> = {
            let table = self.store.table();
            let index = table.indexes().get(self.column);
            index.map_or_else(Vec::new, |index| index.postings.values().cloned().collect())
        };
        values.sort_unstable();
        values
    }

    /// The index values of an object, which need not be in the store.
    ///
    /// # Panics
    ///
    /// If the index function panics.
    pub fn values_of(&self, object: &V) -> Vec<String> {
        let def = {
            let table = self.store.table();
            table.indexes().get(self.column).map(|index| index.def.clone())
        };
        let mut values = Vec::new();
        if let Some(def) = def {
            def.values(object, &mut |value| values.push(value.to_owned()));
        }
        values
    }

    /// The objects that have at least one value in common with this one, which need not be in the store. Each is returned
    /// once.
    ///
    /// # Panics
    ///
    /// If the index function panics.
    #[doc(alias = "Index")]
    pub fn matching(&self, object: &V) -> Vec<Arc<V>> {
        let values = self.values_of(object);
        self.collect(|postings| {
            let mut union = SlotSet::default();
            for value in &values {
                if let Some(slots) = postings.slots(value) {
                    slots.for_each(|slot| union.insert(slot));
                }
            }
            Some(Cow::Owned(union))
        })
    }

    fn collect(&self, pick: impl FnOnce(&Postings) -> Option<Cow<'_, SlotSet>>) -> Vec<Arc<V>> {
        let table = self.store.table();
        let index = table.indexes().get(self.column);
        let Some(set) = index.and_then(|index| pick(&index.postings)) else {
            return Vec::new();
        };
        let picked = set.to_vec();
        if picked.len() <= LARGE_RESULT {
            return gather(table.slots(), &picked);
        }
        let slots = table.slots().clone();
        drop(table);
        gather(&slots, &picked)
    }
}

fn gather<V>(slots: &Slots<Arc<V>>, picked: &[u32]) -> Vec<Arc<V>> {
    let mut objects = Vec::with_capacity(picked.len());
    objects.extend(picked.iter().filter_map(|slot| slots.get(*slot).cloned()));
    objects
}

impl<V, Q> Clone for Index<V, Q> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            name: self.name.clone(),
            column: self.column,
        }
    }
}

impl<V, Q> fmt::Debug for Index<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({:?})", self.name)
    }
}
