//! `View`: a store at one moment, with lookups by key.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::keyed_objects::KeyedObjects;
use super::lookup::Lookup;
use crate::key::ObjectKey;

/// A store at one moment: [`Store::view`](super::Store::view).
///
/// All lookups see the same state, whatever is written to the store meanwhile, and return references instead of counting
/// them: to look up many objects, or several that belong together, take a view first. It holds no lock.
///
/// Creating and cloning a view copies a few pointers, regardless of the size of the store. While it exists, a write to the
/// store copies the pointers, and for new and deleted objects the keys, around what it changes. A view keeps its objects
/// alive, so do not store it; it does not keep the informer running.
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kube_informers::Store;
///
/// /// The pods whose node does not exist.
/// fn orphans(pods: &Store<Pod>, nodes: &Store<Node>) -> usize {
///     let nodes = nodes.view();
///     let has_node = |pod: &Pod| match pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
///         Some(node) => nodes.contains((None, node)),
///         None => true,
///     };
///     pods.list().iter().filter(|pod| !has_node(pod)).count()
/// }
/// ```
pub struct View<V, Q = ObjectKey> {
    objects: KeyedObjects<V, Q>,
    version: Option<Arc<str>>,
}

impl<V, Q> View<V, Q> {
    pub(super) fn new(objects: KeyedObjects<V, Q>, version: Option<Arc<str>>) -> Self {
        Self { objects, version }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys and objects, in the order of [`Store::list`](super::Store::list).
    pub fn iter(&self) -> impl Iterator<Item = (&Q, &Arc<V>)> {
        self.objects.iter().map(|(_, entry, object)| (&entry.key, object))
    }

    /// The resource version of the store at that moment: see [`Store::resource_version`](super::Store::resource_version).
    pub fn resource_version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

impl<V, Q: Hash + Eq> View<V, Q> {
    /// The object with this key.
    #[doc(alias = "GetByKey")]
    pub fn get(&self, key: impl Lookup<Q>) -> Option<&Arc<V>> {
        self.objects.get(&key.into_key())
    }

    /// Whether there is an object with this key.
    pub fn contains(&self, key: impl Lookup<Q>) -> bool {
        self.objects.find(&key.into_key()).is_some()
    }
}

impl<V, Q> Clone for View<V, Q> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            version: self.version.clone(),
        }
    }
}

/// The number of objects only: they may be Secrets.
impl<V, Q> fmt::Debug for View<V, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} objects)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::store::StoreWriter;

    #[test]
    fn a_view_is_not_affected_by_later_writes() {
        let mut writer = StoreWriter::with_key(|(name, _): &(String, u32)| name.clone());
        for number in 0..3_000 {
            writer.insert((number.to_string(), 1)).unwrap();
        }
        let store = writer.store();
        let view = store.view();

        writer.insert(("7".to_owned(), 2)).unwrap();
        writer.insert(("new".to_owned(), 2)).unwrap();
        // So many that the table is compacted.
        for number in 100..3_000 {
            writer.remove(&number.to_string());
        }

        assert_eq!(store.len(), 101);
        assert_eq!(view.len(), 3_000);
        assert!(!view.contains("new"));
        assert_eq!(view.iter().count(), 3_000);
        for number in 0..3_000 {
            let name = number.to_string();
            let found = view
                .get(name.as_str())
                .map(|object| (object.0.as_str(), object.1));
            assert_eq!(found, Some((name.as_str(), 1)));
        }
        assert!(view.iter().all(|(key, object)| *key == object.0));
        assert_eq!(store.view().get("7").map(|object| object.1), Some(2));
    }

    #[test]
    fn a_lookup_in_a_view_does_not_count_the_reference() {
        let mut writer = StoreWriter::with_key(|name: &String| name.clone());
        writer.insert("a".to_owned()).unwrap();
        let view = writer.store().view();

        let object = view.get("a").unwrap();

        assert_eq!(std::sync::Arc::strong_count(object), 1);
    }
}
