//! What an overlay remembers: the last write or deletion of each key, bounded in number and in time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::key::ObjectKey;
use crate::object::Object;

pub(super) struct OwnWrites<K> {
    capacity: usize,
    entries: HashMap<ObjectKey, Entry<K>, RandomState>,
    /// Keys by the number of their last use, oldest first.
    by_use: BTreeMap<u64, ObjectKey>,
    uses: u64,
}

struct Entry<K> {
    written: Written<K>,
    until: Duration,
    used: u64,
}

pub(super) enum Written<K> {
    Object(Arc<K>),
    /// Deleted: this UID, and everything up to this version.
    Deleted {
        uid: Option<String>,
        version: Option<String>,
    },
}

impl<K: Object> Written<K> {
    pub(super) fn uid(&self) -> Option<&str> {
        match self {
            Self::Object(object) => object.uid(),
            Self::Deleted { uid, .. } => uid.as_deref(),
        }
    }

    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::Object(object) => object.resource_version(),
            Self::Deleted { version, .. } => version.as_deref(),
        }
    }
}

impl<K> OwnWrites<K> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: HashMap::default(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What is remembered of a key; counts as a use.
    pub(super) fn get(&mut self, key: &ObjectKey, now: Duration) -> Option<Written<K>> {
        if self.entries.get(key)?.until < now {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.by_use.remove(&entry.used) {
            entry.used = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(entry.written.clone())
    }

    /// All objects, least recently used first; does not count as a use.
    pub(super) fn objects(&self, now: Duration) -> Vec<Arc<K>> {
        let entries = self.by_use.values().filter_map(|key| self.entries.get(key));
        let live = entries.filter(|entry| entry.until >= now);
        live.filter_map(|entry| match &entry.written {
            Written::Object(object) => Some(object.clone()),
            Written::Deleted { .. } => None,
        })
        .collect()
    }

    pub(super) fn put(&mut self, key: ObjectKey, written: Written<K>, until: Duration) {
        if self.capacity == 0 {
            return;
        }
        self.remove(&key);
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        let entry = Entry {
            written,
            until,
            used: self.uses,
        };
        self.entries.insert(key, entry);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
        }
    }

    /// Forgets a key unless something else was remembered of it meanwhile.
    pub(super) fn remove_if(&mut self, key: &ObjectKey, written: &Written<K>) {
        let present = self.entries.get(key).map(|entry| &entry.written);
        let same = match (present, written) {
            (Some(Written::Object(left)), Written::Object(right)) => Arc::ptr_eq(left, right),
            (Some(Written::Deleted { version: left, .. }), Written::Deleted { version: right, .. }) => {
                left == right
            }
            _ => false,
        };
        if same {
            self.remove(key);
        }
    }
}

impl<K> Clone for Written<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(object.clone()),
            Self::Deleted { uid, version } => Self::Deleted {
                uid: uid.clone(),
                version: version.clone(),
            },
        }
    }
}
