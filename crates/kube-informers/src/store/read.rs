//! `Store`: the read side. Any thread, any time; never a guard in user hands.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::index::{DuplicateIndex, Index, UnknownIndex};
use super::rows::IndexDef;
use super::shared::Shared;
use super::snapshot::Snapshot;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::source::{Identity, KnownObjects};

/// The index by namespace that every informer's store has.
#[doc(alias = "NamespaceIndex")]
pub const NAMESPACE_INDEX: &str = "namespace";

/// A cache of objects by key, with indexes: the handle for reading.
///
/// Readers do not block one another and never see half a step: what a list or a batch of changes brings
/// appears at once, in the objects and in every index. Objects are shared and read-only; no lock is held
/// while your code runs. Cloning is cheap.
///
/// An informer fills its store itself; [`StoreWriter`](super::StoreWriter) makes one to be filled by hand,
/// with any type of value and your own key.
///
/// Cached objects cannot be changed by accident, which is what client-go's mutation detector looks for:
///
/// ```compile_fail,E0594
/// # use kube_informers::store::Store;
/// # fn label(store: &Store<k8s_openapi::api::core::v1::Pod>) {
/// if let Some(pod) = store.get_by(Some("shop"), "cart") {
///     pod.metadata.name = None;
/// }
/// # }
/// ```
#[doc(alias = "Indexer")]
#[doc(alias = "ThreadSafeStore")]
#[doc(alias = "CacheMutationDetector")]
pub struct Store<V, Q = ObjectKey> {
    shared: Arc<Shared<V, Q>>,
    /// Whatever must live as long as somebody reads.
    keep_alive: Option<Arc<dyn Any + Send + Sync>>,
}

impl<V, Q> Store<V, Q> {
    pub(super) fn new(shared: Arc<Shared<V, Q>>) -> Self {
        Self {
            shared,
            keep_alive: None,
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared<V, Q>> {
        &self.shared
    }

    /// The same store in a handle that keeps `guard` alive, as do its clones and the indexes got from them.
    pub fn keeping(mut self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep_alive = Some(guard);
        self
    }
}

impl<V, Q: Hash + Eq + Clone> Store<V, Q> {
    /// The object under a key.
    #[doc(alias = "GetByKey")]
    pub fn get<B>(&self, key: &B) -> Option<Arc<V>>
    where
        Q: Borrow<B>,
        B: Hash + Eq + ?Sized,
    {
        self.find(self.shared.hash(key), |other| other.borrow() == key)
    }

    /// Whether there is an object under a key.
    pub fn contains<B>(&self, key: &B) -> bool
    where
        Q: Borrow<B>,
        B: Hash + Eq + ?Sized,
    {
        let hash = self.shared.hash(key);
        let table = self.shared.read();
        table.find(hash, |other| other.borrow() == key).is_some()
    }

    /// Whether the object under a key is known to be outdated: a newer version of it exists that could not be
    /// read. [`quarantine`](Self::quarantine) says why.
    pub fn is_stale<B>(&self, key: &B) -> bool
    where
        Q: Borrow<B>,
        B: Hash + Eq + ?Sized,
    {
        let hash = self.shared.hash(key);
        let table = self.shared.read();
        let slot = table.find(hash, |other| other.borrow() == key);
        slot.and_then(|slot| table.entry(slot))
            .is_some_and(|entry| entry.age.is_stale())
    }

    /// How many objects.
    pub fn len(&self) -> usize {
        self.shared.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything, as it is now. Costs the same whatever the size of the store.
    #[doc(alias = "List")]
    pub fn list(&self) -> Snapshot<V> {
        let table = self.shared.read();
        Snapshot::new(table.slots().clone(), table.len())
    }

    /// All keys, in the order of [`list`](Self::list). Copies each of them.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<Q> {
        let table = self.shared.read();
        let mut keys = Vec::with_capacity(table.len());
        keys.extend(table.iter().map(|(_, entry, _)| entry.key.clone()));
        keys
    }

    /// All keys the store knows of: those of its objects, and those that are in quarantine without one.
    pub fn known_keys(&self) -> Vec<Q> {
        self.known_keys_where(|_| true)
    }

    /// The same for the objects of one member watch.
    pub(crate) fn known_keys_of(&self, member: usize) -> Vec<Q> {
        self.known_keys_where(|held_by| usize::try_from(held_by) == Ok(member))
    }

    /// Whether a key is among the [known ones](Self::known_keys).
    pub(crate) fn knows(&self, key: &Q) -> bool {
        let hash = self.shared.hash(key);
        let table = self.shared.read();
        table.find(hash, |other| other == key).is_some() || table.bad(hash, |other| other == key).is_some()
    }

    fn known_keys_where(&self, is_wanted: impl Fn(u32) -> bool) -> Vec<Q> {
        let table = self.shared.read();
        let wanted = table.iter().filter(|(_, entry, _)| is_wanted(entry.member));
        let mut keys: Vec<Q> = wanted.map(|(_, entry, _)| entry.key.clone()).collect();
        for entry in table.quarantine().filter(|entry| is_wanted(entry.bad.member)) {
            let hash = self.shared.hash(&entry.key);
            if table.find(hash, |key| *key == entry.key).is_none() {
                keys.push(entry.key.clone());
            }
        }
        keys
    }

    /// The resource version the store has reached: it holds exactly what the server held at this version.
    ///
    /// `None` before the first list, while changes are being applied out of order, and for a store without
    /// versions. An informer over several watches has one version [each](Self::resource_versions) and none for
    /// all: the same.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> Option<String> {
        let table = self.shared.read();
        let mut versions = table.versions();
        let only = versions.next()?.map(|version| version.to_string());
        only.filter(|_| versions.next().is_none())
    }

    /// The resource version of each member watch, in their order.
    pub fn resource_versions(&self) -> Vec<Option<String>> {
        let table = self.shared.read();
        let versions = table.versions();
        versions
            .map(|version| version.map(|version| version.to_string()))
            .collect()
    }

    /// Adds an index: a name, and a function that gives the values of an object (an `Option<String>`, a
    /// `Vec<String>`, …).
    ///
    /// Objects that are there already are indexed before this returns; meanwhile others read and write. The
    /// function runs once per version of an object, outside all locks. If it panics, that object goes into
    /// [quarantine](Self::quarantine): a new version is not taken and the last good one stays, and an object
    /// that was there before the index has no values in it.
    ///
    /// # Errors
    ///
    /// If there is an index of this name.
    #[doc(alias = "AddIndexers")]
    pub fn add_index<I>(
        &self,
        name: &str,
        values: impl Fn(&V) -> I + Send + Sync + 'static,
    ) -> Result<Index<V, Q>, DuplicateIndex>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let column = self.shared.add_index(IndexDef::new(name, values))?;
        Ok(Index::new(self.clone(), name.into(), column))
    }

    /// The index of this name.
    pub fn index(&self, name: &str) -> Option<Index<V, Q>> {
        let table = self.shared.read();
        let mut indexes = table.indexes().iter().enumerate();
        let (column, index) = indexes.find(|(_, index)| index.ready && *index.def.name == *name)?;
        Some(Index::new(self.clone(), index.def.name.clone(), column))
    }

    /// The index of this name, which is added with this function if there is none.
    ///
    /// While somebody else is adding an index of this name, this waits until theirs covers every object.
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
        let table = self.shared.read();
        let ready = table.indexes().iter().filter(|index| index.ready);
        ready.map(|index| index.def.name.to_string()).collect()
    }

    /// The objects with a value in an index. [`Index::get`] does the same without looking up the name.
    ///
    /// # Errors
    ///
    /// If there is no index of this name.
    #[doc(alias = "ByIndex")]
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<V>>, UnknownIndex> {
        match self.index(name) {
            Some(index) => Ok(index.get(value)),
            None => Err(UnknownIndex {
                name: name.to_owned(),
                known: self.index_names(),
            }),
        }
    }

    /// The keys whose present version could not be decoded, transformed or indexed, in the order in which
    /// they came in.
    pub fn quarantine(&self) -> Vec<Quarantined<Q>> {
        let mut found = {
            let table = self.shared.read();
            let entries = table.quarantine();
            let found = entries.map(|entry| {
                let slot = table.find(self.shared.hash(&entry.key), |key| *key == entry.key);
                let stale = slot
                    .and_then(|slot| table.entry(slot))
                    .map(|held| held.age.is_stale());
                (
                    entry.order,
                    Quarantined {
                        key: entry.key.clone(),
                        object: (*entry.bad.object).clone(),
                        served: match stale {
                            None => Served::Nothing,
                            Some(true) => Served::OlderVersion,
                            Some(false) => Served::ThisVersion,
                        },
                    },
                )
            });
            found.collect::<Vec<_>>()
        };
        found.sort_unstable_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, quarantined)| quarantined).collect()
    }

    fn find(&self, hash: u64, is: impl Fn(&Q) -> bool) -> Option<Arc<V>> {
        let table = self.shared.read();
        let slot = table.find(hash, is)?;
        table.slots().get(slot).cloned()
    }
}

impl<V> Store<V> {
    /// The object of this namespace and name, found without making a key. An empty namespace means none.
    pub fn get_by(&self, namespace: Option<&str>, name: &str) -> Option<Arc<V>> {
        let at = At::new(namespace, name);
        self.find(self.shared.hash(&at.hashed()), |key| at.is(key))
    }
}

impl<V: Object, Q: Hash + Eq + Clone> Store<V, Q> {
    /// The objects of a namespace. Uses the index [`NAMESPACE_INDEX`], and looks at every object where a store
    /// made by hand has none.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        match self.index(NAMESPACE_INDEX) {
            Some(index) => index.get(namespace),
            None => {
                let snapshot = self.list();
                let inside = snapshot
                    .iter()
                    .filter(|object| object.namespace() == Some(namespace));
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
        let at = At::new(identity.namespace.as_deref(), &identity.name);
        let hash = self.shared.hash(&at.hashed());
        let table = self.shared.read();
        let slot = table.find(hash, |key| at.is(key))?;
        if table.entry(slot)?.age.is_stale() {
            return None;
        }
        let object = table.slots().get(slot)?;
        (object.uid() == Some(uid) && object.resource_version() == Some(version)).then(|| object.clone())
    }
}

/// A key in borrowed parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct At<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
}

impl<'a> At<'a> {
    pub(super) fn new(namespace: Option<&'a str>, name: &'a str) -> Self {
        Self {
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            name,
        }
    }

    /// What hashes as an `ObjectKey` does.
    pub(super) fn hashed(&self) -> (Option<&'a str>, &'a str) {
        (self.namespace, self.name)
    }

    pub(super) fn is(&self, key: &ObjectKey) -> bool {
        self.name == key.name() && self.namespace == key.namespace()
    }
}

/// A key in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined<Q = ObjectKey> {
    /// Which.
    pub key: Q,
    /// What could not be used, and why.
    pub object: BadObject,
    /// What the store has under this key.
    pub served: Served,
}

/// What the store has under a quarantined key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// Nothing: there never was a good version.
    Nothing,
    /// The last good version, marked stale.
    OlderVersion,
    /// This very version, but an index that was added later could not digest it and lacks it.
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

/// Numbers only: the objects may be Secrets.
impl<V, Q: Hash + Eq + Clone> fmt::Debug for Store<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .field("resource_versions", &self.resource_versions())
            .field("indexes", &self.index_names())
            .finish_non_exhaustive()
    }
}
