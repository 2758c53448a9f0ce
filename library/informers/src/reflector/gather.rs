//! The objects received so far of a list or watch-list.
//!
//! Memory is bounded by the number of distinct keys, whatever the server sends: a repeated key replaces its entry, the
//! place of a removed entry is used again, and of the items without a readable name only the first few are kept.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::delta::Replacement;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::shard::Shard;

/// The number of nameless items that are kept. The others are counted and represented by one item.
const NAMELESS_KEPT: usize = 16;

/// The objects of an incomplete collection.
pub(super) struct Gathered<K> {
    /// One entry per key, and empty entries.
    entries: Vec<KeyStates<K>>,
    /// The positions of the entries that are in use. The key is not stored: it is read from the entry.
    positions: HashTable<usize>,
    /// The positions of the empty entries.
    free: Vec<usize>,
    hasher: RandomState,
    nameless: Vec<BadObject>,
    nameless_count: usize,
}

/// The states of one key: the last readable one, and an unreadable one after it.
struct KeyStates<K> {
    object: Option<Arc<K>>,
    unreadable: Option<Box<BadObject>>,
}

type Key<'a> = (Option<&'a str>, &'a str);

impl<K: Object> KeyStates<K> {
    fn key(&self) -> Option<Key<'_>> {
        match (&self.object, &self.unreadable) {
            (Some(object), _) => Some(key_of(&**object)),
            (None, Some(bad)) => bad.key.as_ref().map(parts),
            (None, None) => None,
        }
    }
}

fn key_of<K: Object>(object: &K) -> Key<'_> {
    let namespace = object
        .object_namespace()
        .filter(|namespace| !namespace.is_empty());
    (namespace, object.object_name())
}

fn parts(key: &ObjectKey) -> Key<'_> {
    (key.namespace(), key.name())
}

impl<K: Object> Gathered<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            positions: HashTable::new(),
            free: Vec::new(),
            hasher: RandomState::default(),
            nameless: Vec::new(),
            nameless_count: 0,
        }
    }

    /// The number of distinct keys.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The number of items without a readable name.
    pub(super) fn nameless(&self) -> usize {
        self.nameless_count
    }

    /// The first item without a readable name.
    pub(super) fn first_nameless(&self) -> Option<&BadObject> {
        self.nameless.first()
    }

    /// Adds an object, or replaces an earlier state of it. Returns whether the key is new.
    pub(super) fn put(&mut self, object: Arc<K>) -> bool {
        let key = key_of(&*object);
        let hash = self.hasher.hash_one(key);
        if let Some(position) = self.find(hash, key) {
            self.set(position, Some(object), None);
            return false;
        }
        self.insert(hash, Some(object), None);
        true
    }

    /// Adds an unreadable object. An earlier, readable state of it is kept. Returns whether it needs memory of its own.
    pub(super) fn put_unreadable(&mut self, bad: BadObject) -> bool {
        let Some(key) = &bad.key else {
            self.nameless_count = self.nameless_count.saturating_add(1);
            let is_kept = self.nameless.len() < NAMELESS_KEPT;
            if is_kept {
                self.nameless.push(bad);
            }
            return is_kept;
        };
        let hash = self.hasher.hash_one(parts(key));
        match self.find(hash, parts(key)) {
            Some(position) => {
                if let Some(entry) = self.entries.get_mut(position) {
                    entry.unreadable = Some(Box::new(bad));
                }
                false
            }
            None => {
                self.insert(hash, None, Some(Box::new(bad)));
                true
            }
        }
    }

    /// Removes an object that was deleted or dropped.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let key = parts(key);
        let hash = self.hasher.hash_one(key);
        let entries = &self.entries;
        let found = self.positions.find_entry(hash, |position| {
            entries.get(*position).and_then(KeyStates::key) == Some(key)
        });
        if let Ok(found) = found {
            let (position, _) = found.remove();
            self.set(position, None, None);
            self.free.push(position);
        }
    }

    fn find(&self, hash: u64, key: Key<'_>) -> Option<usize> {
        self.positions
            .find(hash, |position| {
                self.entries.get(*position).and_then(KeyStates::key) == Some(key)
            })
            .copied()
    }

    fn insert(&mut self, hash: u64, object: Option<Arc<K>>, unreadable: Option<Box<BadObject>>) {
        let position = match self.free.pop() {
            Some(position) => {
                self.set(position, object, unreadable);
                position
            }
            None => {
                self.entries.push(KeyStates { object, unreadable });
                self.entries.len() - 1
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.positions.insert_unique(hash, position, |position| {
            hasher.hash_one(
                entries
                    .get(*position)
                    .and_then(KeyStates::key)
                    .unwrap_or_default(),
            )
        });
    }

    fn set(&mut self, position: usize, object: Option<Arc<K>>, unreadable: Option<Box<BadObject>>) {
        if let Some(entry) = self.entries.get_mut(position) {
            *entry = KeyStates { object, unreadable };
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    pub(super) fn take(&mut self, resource_version: Option<String>, shard: Option<Shard>) -> Replacement<K> {
        let gathered = std::mem::replace(self, Self::new());
        drop(gathered.positions);
        let mut unreadable = gathered.nameless;
        let others = gathered.nameless_count - unreadable.len();
        if others > 0 {
            // Without a UID, so that any object that is missing from the list may be one of them.
            unreadable.push(BadObject {
                key: None,
                uid: None,
                resource_version: None,
                problem: Problem::Decode(format!("{others} more items of the list have no readable name")),
                size: 0,
            });
        }
        let mut objects = Vec::with_capacity(gathered.entries.len());
        for entry in gathered.entries {
            objects.extend(entry.object);
            unreadable.extend(entry.unreadable.map(|bad| *bad));
        }
        Replacement {
            objects,
            unreadable,
            resource_version,
            shard,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::ObjectMeta;

    use super::*;

    fn pod(name: &str, version: &str) -> Arc<Pod> {
        Arc::new(Pod {
            metadata: ObjectMeta {
                namespace: Some("shop".to_owned()),
                name: Some(name.to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            ..Pod::default()
        })
    }

    fn bad(name: Option<&str>) -> BadObject {
        BadObject {
            key: name.map(|name| ObjectKey::namespaced("shop", name)),
            uid: None,
            resource_version: None,
            problem: Problem::Nameless,
            size: 1,
        }
    }

    fn names(replacement: &Replacement<Pod>) -> Vec<String> {
        let text = |pod: &Arc<Pod>| format!("{}@{}", pod.object_name(), pod.object_version().unwrap_or("-"));
        replacement.objects.iter().map(text).collect()
    }

    #[test]
    fn a_key_that_is_repeated_or_removed_and_added_again_needs_one_entry() {
        let mut gathered = Gathered::new();
        for version in 0..1000 {
            gathered.put(pod("a", &version.to_string()));
            gathered.put(pod("b", "1"));
            gathered.put_unreadable(bad(Some("c")));
            gathered.remove(&ObjectKey::namespaced("shop", "b"));
        }

        assert_eq!(gathered.len(), 2);
        assert!(gathered.entries.len() <= 3 && gathered.free.len() <= 1);
        let replacement = gathered.take(None, None);
        assert_eq!(names(&replacement), ["a@999"]);
        assert_eq!(replacement.unreadable.len(), 1);
    }

    #[test]
    fn an_unreadable_state_keeps_the_readable_one_before_it_and_yields_to_one_after_it() {
        let mut gathered = Gathered::new();
        gathered.put(pod("a", "1"));
        assert!(!gathered.put_unreadable(bad(Some("a"))));
        gathered.put_unreadable(bad(Some("b")));
        assert!(!gathered.put(pod("b", "2")));

        let replacement = gathered.take(None, None);
        assert_eq!(names(&replacement), ["a@1", "b@2"]);
        let keys = replacement.unreadable.iter().filter_map(|bad| bad.key.as_ref());
        assert_eq!(keys.map(ToString::to_string).collect::<Vec<_>>(), ["shop/a"]);
    }

    #[test]
    fn nameless_items_are_counted_and_only_the_first_are_kept() {
        let mut gathered = Gathered::<Pod>::new();
        for _ in 0..5000 {
            gathered.put_unreadable(bad(None));
        }

        assert_eq!((gathered.len(), gathered.nameless()), (0, 5000));
        let replacement = gathered.take(None, None);
        assert_eq!(replacement.unreadable.len(), NAMELESS_KEPT + 1);
        let last = replacement.unreadable.last().unwrap();
        assert_eq!(
            last.problem.to_string(),
            "cannot be decoded: 4984 more items of the list have no readable name"
        );
    }
}
