//! The true history of the collection: what a correct cache must equal.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::{Key, Thing};

/// One object on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Never used twice.
    pub uid: u64,
    /// The version of its last change.
    pub version: u64,
    /// What selectors and indexes are about.
    pub label: u32,
    /// It cannot be decoded.
    pub poisoned: bool,
}

impl Stored {
    /// Whether the client holds exactly this state. Without decoding it, which takes most of the time of a run.
    pub fn is(&self, object: &Thing) -> bool {
        (self.uid, self.version, self.label) == (object.uid(), object.revision, object.label)
    }

    /// As the client decodes it.
    pub fn thing(&self, key: Key) -> Thing {
        Thing::new(key, self.uid, self.version, self.label)
    }
}

/// A collection at one version.
pub type CollectionState = BTreeMap<Key, Stored>;

/// How an object changed, as a watch reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It entered the selected collection.
    Added,
    /// It changed.
    Modified,
    /// It left the selected collection.
    Deleted,
}

/// One change of the selected collection.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The version after the change.
    pub version: u64,
    /// The changed key.
    pub key: Key,
    /// How it changed.
    pub kind: ChangeKind,
    /// The new state, or the last one with the version of the deletion.
    pub object: Stored,
}

/// The first version, so that versions of one and of two digits compare as numbers early in a run.
const START: u64 = 8;

/// One line of versions. A restored backup starts another one.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// The selected collection after each of its changes.
    states: BTreeMap<u64, Arc<CollectionState>>,
    /// Its changes, oldest first.
    pub changes: Vec<Change>,
    /// The newest version, of any collection.
    pub head: u64,
    /// Everything in the collection, selected or not.
    all: CollectionState,
}

impl Epoch {
    pub(super) fn new() -> Self {
        Self {
            states: BTreeMap::from([(START, Arc::default())]),
            changes: Vec::new(),
            head: START,
            all: CollectionState::new(),
        }
    }

    /// The version of the empty collection.
    pub(super) fn start(&self) -> u64 {
        START
    }

    /// The selected collection at a version.
    pub fn at(&self, version: u64) -> Arc<CollectionState> {
        let state = self.states.range(..=version).next_back();
        state.map(|(_, state)| state.clone()).unwrap_or_default()
    }

    /// Whether an object ever was in this state.
    pub fn had(&self, key: Key, object: &Thing) -> bool {
        self.at(object.revision)
            .get(&key)
            .is_some_and(|stored| stored.is(object))
    }

    /// Whether an object was written at this version.
    pub(super) fn has_version(&self, key: Key, version: u64) -> bool {
        self.at(version)
            .get(&key)
            .is_some_and(|stored| stored.version == version)
    }

    pub(super) fn get(&self, key: Key) -> Option<&Stored> {
        self.all.get(&key)
    }

    /// Writes a state, or removes the object.
    pub(super) fn write(&mut self, key: Key, object: Option<Stored>, selects: impl Fn(&Stored) -> bool) {
        self.head += 1;
        let version = self.head;
        let object = object.map(|object| Stored { version, ..object });
        let before = match object {
            Some(object) => self.all.insert(key, object),
            None => self.all.remove(&key),
        };
        let was = before.filter(&selects);
        let is = object.filter(&selects);
        let (kind, object) = match (was, is) {
            (None, Some(object)) => (ChangeKind::Added, object),
            (Some(_), Some(object)) => (ChangeKind::Modified, object),
            // A DELETED event has the last state that was in the collection, with the version of the deletion.
            (Some(last), None) => (ChangeKind::Deleted, Stored { version, ..last }),
            (None, None) => return,
        };
        let mut state = CollectionState::clone(&self.at(version));
        match kind {
            ChangeKind::Deleted => state.remove(&key),
            _ => state.insert(key, object),
        };
        self.states.insert(version, Arc::new(state));
        self.changes.push(Change {
            version,
            key,
            kind,
            object,
        });
    }

    /// The history of a backup taken at an earlier version.
    pub(super) fn restored(&self, version: u64, all: CollectionState) -> Self {
        let mut states = self.states.clone();
        states.retain(|at, _| *at <= version);
        let mut changes = self.changes.clone();
        changes.retain(|change| change.version <= version);
        Self {
            states,
            changes,
            head: version,
            all,
        }
    }
}
