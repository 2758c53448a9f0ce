//! `Index`: a handle on one named index of a store.

use std::borrow::Cow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::postings::Postings;
use super::read::Store;
use super::slot_set::SlotSet;
use super::slots::Slots;

/// Beyond so many objects they are gathered after the lock is released.
const MANY: usize = 256;

/// A secondary index: the objects of a store by values computed from them.
///
/// The index is exactly as new as the store. Objects come in an order that stays the same as long as they
/// do. Cloning is cheap.
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

    /// The name it was added under.
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
        let table = self.store.shared().read();
        let mut keys = Vec::new();
        let slots = (table.indexes().get(self.column)).and_then(|index| index.postings.slots(value));
        if let Some(slots) = slots {
            keys.reserve(slots.len());
            slots.for_each(|slot| keys.extend(table.entry(slot).map(|entry| entry.key.clone())));
        }
        keys
    }

    /// How many objects have this value.
    pub fn count(&self, value: &str) -> usize {
        let table = self.store.shared().read();
        let slots = (table.indexes().get(self.column)).and_then(|index| index.postings.slots(value));
        slots.map_or(0, SlotSet::len)
    }

    /// All values that some object has, sorted.
    #[doc(alias = "ListIndexFuncValues")]
    pub fn values(&self) -> Vec<Arc<str>> {
        let mut values: Vec<Arc<str>> = {
            let table = self.store.shared().read();
            let index = table.indexes().get(self.column);
            index.map_or_else(Vec::new, |index| index.postings.values().cloned().collect())
        };
        values.sort_unstable();
        values
    }

    /// The values of an object, whether the store holds it or not.
    ///
    /// # Panics
    ///
    /// If the index function panics.
    pub fn values_of(&self, object: &V) -> Vec<String> {
        let def = {
            let table = self.store.shared().read();
            table.indexes().get(self.column).map(|index| index.def.clone())
        };
        let mut values = Vec::new();
        if let Some(def) = def {
            def.values(object, &mut |value| values.push(value.to_owned()));
        }
        values
    }

    /// The objects that share at least one value with this one, each once. It need not be in the store.
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
        let table = self.store.shared().read();
        let index = table.indexes().get(self.column);
        let Some(set) = index.and_then(|index| pick(&index.postings)) else {
            return Vec::new();
        };
        let picked = set.to_vec();
        if picked.len() <= MANY {
            return gather(table.slots(), &picked);
        }
        let slots = table.slots().clone();
        drop(table);
        gather(&slots, &picked)
    }
}

fn gather<V>(slots: &Slots<V>, picked: &[u32]) -> Vec<Arc<V>> {
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

/// There is no index of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no index {name:?}: {}", list(known))]
pub struct UnknownIndex {
    /// The name asked for.
    pub name: String,
    /// The names that exist.
    pub known: Vec<String>,
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "this store has none; add it with `add_index`".to_owned();
    }
    let names: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    format!("this store has {}; add others with `add_index`", names.join(", "))
}

/// An index of this name exists already.
#[doc(alias = "indexer conflict")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an index {name:?} exists already: use it with `index({name:?})`, or choose another name")]
pub struct DuplicateIndex {
    /// The name.
    pub name: String,
}
