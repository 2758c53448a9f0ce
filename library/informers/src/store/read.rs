//! `Store`: the read side of a store. No method returns a lock guard.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::RwLockReadGuard;

use super::error::IndexError;
use super::index::Index;
use super::index_values::IndexDef;
use super::lookup::{KeyRef, Lookup};
use super::shared_table::SharedTable;
use super::snapshot::Snapshot;
use super::table::Table;
use super::view::View;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::source::{Identity, KnownObjects};

/// The name of the index by namespace, which every informer's store has.
#[doc(alias = "NamespaceIndex")]
pub const NAMESPACE_INDEX: &str = "namespace";

/// A read handle on a cache of objects by key, with indexes.
///
/// Readers do not block one another. A list or a batch of changes becomes visible in one step, in the objects and in
/// every index. Objects are shared and read-only; no lock is held while user code runs. Cloning is cheap.
///
/// An informer fills its store itself. [`StoreWriter`](super::StoreWriter) creates one that is filled by hand, with any
/// type of value and key.
///
/// Keys are looked up by reference, by `(namespace, name)` or by their text: see [`Lookup`].
///
/// Cached objects cannot be modified, so there is no counterpart of client-go's mutation detector:
///
/// ```compile_fail,E0594
/// # use kube_informers::Store;
/// # fn label(store: &Store<k8s_openapi::api::core::v1::Pod>) {
/// if let Some(pod) = store.get(("shop", "cart")) {
///     pod.metadata.name = None;
/// }
/// # }
/// ```
#[doc(alias = "TypedIndexer")]
#[doc(alias = "Getter")]
#[doc(alias = "KeyGetter")]
#[doc(alias = "KeyLister")]
#[doc(alias = "Indexer")]
#[doc(alias = "ThreadSafeStore")]
#[doc(alias = "CacheMutationDetector")]
pub struct Store<V, Q = ObjectKey> {
    shared: Arc<SharedTable<V, Q>>,
    /// Kept alive by every handle.
    keep_alive: Option<Arc<dyn Any + Send + Sync>>,
}

impl<V, Q> Store<V, Q> {
    pub(super) fn new(shared: Arc<SharedTable<V, Q>>) -> Self {
        Self {
            shared,
            keep_alive: None,
        }
    }

    pub(super) fn shared(&self) -> &Arc<SharedTable<V, Q>> {
        &self.shared
    }

    /// A handle that keeps `guard` alive, as do its clones and their indexes.
    pub(crate) fn keeping(mut self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep_alive = Some(guard);
        self
    }
}

impl<V, Q: Hash + Eq + Clone> Store<V, Q> {
    pub(super) fn table(&self) -> RwLockReadGuard<'_, Table<V, Q>> {
        self.shared.read()
    }

    /// The object with this key. To look up many, or several that belong together, use a [`view`](Self::view).
    #[doc(alias = "GetByKey")]
    pub fn get(&self, key: impl Lookup<Q>) -> Option<Arc<V>> {
        let key = key.into_key();
        self.table().objects().get(&key).cloned()
    }

    /// Whether there is an object with this key.
    pub fn contains(&self, key: impl Lookup<Q>) -> bool {
        let key = key.into_key();
        self.table().find(&key).is_some()
    }

    /// Whether the object with this key is known to be stale: a newer version exists that could not be read.
    /// [`quarantine`](Self::quarantine) says why.
    pub fn is_stale(&self, key: impl Lookup<Q>) -> bool {
        let key = key.into_key();
        let table = self.table();
        table.get(&key).is_some_and(|(entry, _)| entry.age.is_stale())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.table().len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects at this moment. The cost does not depend on the size of the store.
    #[doc(alias = "List")]
    pub fn list(&self) -> Snapshot<V> {
        let table = self.table();
        Snapshot::new(table.slots().clone(), table.len())
    }

    /// The store at this moment, for lookups by key that see one state and count no references. The cost does not depend on
    /// the size of the store.
    pub fn view(&self) -> View<V, Q> {
        let table = self.table();
        View::new(table.objects().clone(), table.version().cloned())
    }

    /// All keys, in the order of [`list`](Self::list). Clones each of them.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<Q> {
        let table = self.table();
        let mut keys = Vec::with_capacity(table.len());
        keys.extend(table.iter().map(|(_, entry, _)| entry.key.clone()));
        keys
    }

    /// The resource version of the store: it holds exactly what the server held at this version.
    ///
    /// `None` before the initial list, for a store without versions, and for an
    /// informer with several watches, which has [one version per watch](Self::resource_versions).
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> Option<String> {
        self.table().version().map(|version| version.to_string())
    }

    /// The resource version of each watch; `None` for one that has none yet.
    pub fn resource_versions(&self) -> Vec<Option<String>> {
        let table = self.table();
        let versions = table.versions();
        versions
            .map(|version| version.map(|version| version.to_string()))
            .collect()
    }

    /// The resource version of one watch.
    pub(crate) fn version_of(&self, member: usize) -> Option<String> {
        let table = self.table();
        let progress = table.progress(member);
        progress.version().map(|version| version.to_string())
    }

    /// Adds an index: a name, and a function that returns the values of an object (an `Option<String>`, a `Vec<String>`,
    /// …).
    ///
    /// Existing objects are indexed before this returns; reads and writes are not blocked meanwhile. The function runs
    /// once per version of an object, outside all locks. If it panics, the object is put into
    /// [quarantine](Self::quarantine): a new version is not stored and the last good one stays; an object that existed
    /// before the index has no values in it.
    ///
    /// # Errors
    ///
    /// The store already has an index of this name.
    #[doc(alias = "AddIndexers")]
    pub fn add_index<I>(
        &self,
        name: &str,
        values: impl Fn(&V) -> I + Send + Sync + 'static,
    ) -> Result<Index<V, Q>, IndexError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let column = self.shared.add_index(IndexDef::new(name, values))?;
        Ok(Index::new(self.clone(), name.into(), column))
    }

    /// The index of this name.
    pub fn index(&self, name: &str) -> Option<Index<V, Q>> {
        let table = self.table();
        let mut indexes = table.indexes().iter().enumerate();
        let (column, index) = indexes.find(|(_, index)| index.ready && *index.def.name == *name)?;
        Some(Index::new(self.clone(), index.def.name.clone(), column))
    }

    /// The index of this name. Adds it with this function if there is none.
    ///
    /// If another thread is adding an index of this name, waits until it covers every object.
    pub fn index_or_add<I>(&self, name: &str, values: impl Fn(&V) -> I + Send + Sync + 'static) -> Index<V, Q>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        if let Some(index) = self.index(name) {
            return index;
        }
        let column = self.shared.index_or_add(IndexDef::new(name, values));
        Index::new(self.clone(), name.into(), column)
    }

    /// The names of all indexes, in the order in which they were added.
    #[doc(alias = "GetIndexers")]
    pub fn index_names(&self) -> Vec<String> {
        let table = self.table();
        let ready = table.indexes().iter().filter(|index| index.ready);
        ready.map(|index| index.def.name.to_string()).collect()
    }

    /// The objects with a value in an index. [`Index::get`] does the same without a lookup of the name.
    ///
    /// # Errors
    ///
    /// The store has no index of this name.
    #[doc(alias = "ByIndex")]
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<V>>, IndexError> {
        match self.index(name) {
            Some(index) => Ok(index.get(value)),
            None => Err(IndexError::Unknown {
                name: name.to_owned(),
                known: self.index_names(),
            }),
        }
    }

    /// The keys whose current version could not be decoded, transformed or indexed, oldest first.
    ///
    /// Copies all of them; to poll, use [`quarantine_since`](Self::quarantine_since).
    pub fn quarantine(&self) -> Vec<Quarantined<Q>> {
        self.quarantine_since(0).quarantined
    }

    /// The number of keys in quarantine.
    pub fn quarantine_len(&self) -> usize {
        self.table().quarantine().len()
    }

    /// What has changed in the quarantine since a position: 0, or the position of an earlier call. Without a change it
    /// costs nothing, however many keys there are.
    ///
    /// ```
    /// # use kube_informers::Store;
    /// # fn example(store: &Store<k8s_openapi::api::core::v1::Pod>, mut position: u64) {
    /// let changes = store.quarantine_since(position);
    /// for bad in &changes.quarantined {
    ///     println!("{} {}", bad.key, bad.object.problem);
    /// }
    /// position = changes.position;
    /// # }
    /// ```
    pub fn quarantine_since(&self, position: u64) -> QuarantineChanges<Q> {
        let table = self.table();
        let quarantine = table.quarantine();
        let mut changes = QuarantineChanges {
            position: quarantine.position(),
            is_complete: false,
            quarantined: Vec::new(),
            released: Vec::new(),
        };
        let since = match quarantine.released_since(position) {
            Some(_) if position == changes.position => return changes,
            Some(released) => {
                changes.released.extend(released.cloned());
                position
            }
            None => {
                changes.is_complete = true;
                0
            }
        };
        let mut found: Vec<_> = quarantine
            .iter()
            .filter(|entry| entry.changed > since)
            .map(|entry| {
                let stale = table.get(&entry.key).map(|(held, _)| held.age.is_stale());
                let quarantined = Quarantined {
                    key: entry.key.clone(),
                    object: (*entry.bad.object).clone(),
                    served: match stale {
                        None => Served::Nothing,
                        Some(true) => Served::OlderVersion,
                        Some(false) => Served::ThisVersion,
                    },
                };
                (entry.order, quarantined)
            })
            .collect();
        drop(table);
        found.sort_unstable_by_key(|(order, _)| *order);
        changes.quarantined = found.into_iter().map(|(_, quarantined)| quarantined).collect();
        changes
    }
}

impl<V: Object, Q: Hash + Eq + Clone> Store<V, Q> {
    /// The objects of a namespace. Uses the index [`NAMESPACE_INDEX`]; a store without it is searched.
    #[doc(alias = "MetaNamespaceIndexFunc")]
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        match self.index(NAMESPACE_INDEX) {
            Some(index) => index.get(namespace),
            None => {
                let snapshot = self.list();
                let inside = snapshot
                    .iter()
                    .filter(|object| object.object_namespace() == Some(namespace));
                inside.cloned().collect()
            }
        }
    }
}

impl<K: Object> KnownObjects<K> for Store<K> {
    fn unchanged(&self, identity: &Identity<'_>) -> Option<Arc<K>> {
        let (Some(uid), Some(version)) = (&identity.uid, &identity.resource_version) else {
            return None;
        };
        let table = self.table();
        let (entry, object) = table.get(&KeyRef::new(identity.namespace.as_deref(), &identity.name))?;
        if entry.age.is_stale() {
            return None;
        }
        (object.object_uid() == Some(uid) && object.object_version() == Some(version)).then(|| object.clone())
    }
}

/// The changes of a quarantine since a position: [`Store::quarantine_since`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantineChanges<Q = ObjectKey> {
    /// The position for the next call.
    pub position: u64,
    /// Whether `quarantined` is the whole quarantine, and replaces what the reader knew: it read nothing before, or is
    /// thousands of changes behind.
    pub is_complete: bool,
    /// The keys that entered the quarantine or have another reason, oldest first. A key that left and entered again is in
    /// both lists.
    pub quarantined: Vec<Quarantined<Q>>,
    /// The keys that left the quarantine. Apply them before `quarantined`.
    pub released: Vec<Q>,
}

/// A key in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined<Q = ObjectKey> {
    /// The key.
    pub key: Q,
    /// The version that could not be used, and why.
    pub object: BadObject,
    /// What the store returns for this key.
    pub served: Served,
}

/// What the store returns for a quarantined key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// Nothing: there never was a readable version.
    Nothing,
    /// The last good version, marked stale.
    OlderVersion,
    /// This version. An index that was added later does not include it, because its function panicked.
    ThisVersion,
}

impl<V, Q> Clone for Store<V, Q> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            keep_alive: self.keep_alive.clone(),
        }
    }
}

/// Counts only: the objects may be Secrets.
impl<V, Q: Hash + Eq + Clone> fmt::Debug for Store<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .field("resource_versions", &self.resource_versions())
            .field("indexes", &self.index_names())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::store::DeltaWriter;

    #[test]
    fn a_handle_and_its_indexes_keep_the_guard_alive() {
        let guard = Arc::new(());

        let store = DeltaWriter::<Pod>::new().store().keeping(guard.clone());
        let index = store.index(NAMESPACE_INDEX);
        assert_eq!(Arc::strong_count(&guard), 3);
        drop(store);
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(index);

        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
