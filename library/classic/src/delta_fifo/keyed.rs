//! The contents of a `DeltaFifo`: its decisions, without lock, clock or waiting.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube_informers::delta::{self, Replacement};
use kube_informers::quarantine::BadObject;
use kube_informers::{Object, ObjectKey, ResourceVersion};

use super::key_function::KeyFunction;
use crate::delta::{Delta, Tombstone};
use crate::gate::Contents;
use crate::known::KnownKeys;
use crate::may_be_missing;
use crate::population::Population;

/// The queued deltas by key, and the keys in process.
pub(crate) struct KeyedDeltas<K> {
    /// The objects the consumer holds.
    known: Option<Arc<dyn KnownKeys<K>>>,
    /// The user's key function.
    pub(crate) key: Option<KeyFunction<K>>,
    /// Whether the objects of a list become `Sync` instead of `Replaced`.
    pub(crate) lists_as_sync: bool,
    /// Each key has at least one delta and is in `order` exactly once.
    pub(crate) entries: HashMap<ObjectKey, KeyEntry<K>>,
    order: VecDeque<ObjectKey>,
    /// Deltas of unreadable objects without a key.
    nameless: Vec<Delta<K>>,
    /// The number of queued deltas.
    deltas: usize,
    pub(crate) in_process: InProcess<K>,
    population: Population,
    /// The version of the collection after all accepted deltas.
    version: Option<String>,
    /// Whether the consumer has not received a bookmark of `version` yet.
    bookmark_due: bool,
    /// The newest version of a list or delta. Unlike `version` it excludes bookmarks: if a server sends them too high,
    /// later events must not be taken for repetitions.
    newest_delta: Option<String>,
}

pub(crate) struct KeyEntry<K> {
    pub(crate) deltas: Vec<Delta<K>>,
    /// Whether the key belongs to the initial population.
    initial: bool,
}

/// The popped keys whose processing has not finished.
///
/// The consumer may or may not have applied their deltas, so `KnownKeys` is not reliable for them: a deletion or a list
/// must be compared with the state after they have been applied. client-go avoids this by processing under the queue's
/// lock.
pub(crate) struct InProcess<K> {
    pub(crate) keys: BTreeMap<ObjectKey, Outcome<K>>,
}

/// The state of an object after its deltas.
pub(crate) enum Outcome<K> {
    /// It exists in this state.
    Object(Arc<K>),
    /// It is deleted.
    Deleted,
    /// It exists and is unreadable. The state the consumer holds remains valid.
    Unreadable,
    /// It exists, is unreadable, and has no earlier state.
    NeverRead,
}

impl<K> Default for KeyedDeltas<K> {
    fn default() -> Self {
        Self {
            known: None,
            key: None,
            lists_as_sync: false,
            entries: HashMap::new(),
            order: VecDeque::new(),
            nameless: Vec::new(),
            deltas: 0,
            in_process: InProcess {
                keys: BTreeMap::new(),
            },
            population: Population::default(),
            version: None,
            bookmark_due: false,
            newest_delta: None,
        }
    }
}

impl<K> Contents for KeyedDeltas<K> {
    fn len(&self) -> usize {
        self.deltas
    }

    fn has_synced(&self) -> bool {
        self.population.has_synced()
    }
}

impl<K> KeyedDeltas<K> {
    pub(crate) fn set_known(&mut self, known: Arc<dyn KnownKeys<K>>) {
        self.known = Some(known);
    }

    pub(crate) fn is_queued(&self, key: &ObjectKey) -> bool {
        self.entries.contains_key(key)
    }

    fn queued(&self, key: &ObjectKey) -> &[Delta<K>] {
        self.entries.get(key).map_or(&[], |entry| &entry.deltas)
    }
}

impl<K: Object> KeyedDeltas<K> {
    pub(crate) fn get(&self, key: &ObjectKey) -> Vec<Delta<K>> {
        self.queued(key).to_vec()
    }

    pub(crate) fn list(&self) -> Vec<Delta<K>> {
        let keyed = self.order.iter().flat_map(|key| self.queued(key));
        self.nameless.iter().chain(keyed).cloned().collect()
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.order.iter().cloned().collect()
    }

    /// Adds what a reflector has delivered.
    pub(crate) fn accept(&mut self, change: delta::Delta<K>) {
        match change {
            delta::Delta::ReplacedAll(list) => {
                // `known` is user code and may panic, so all calls to it come before the first change.
                let known = self.known.clone();
                let version = Version::Exactly(list.resource_version.clone());
                self.replace(list, known.as_deref());
                self.advance(version);
            }
            delta::Delta::SyncAll => {
                let known = self.known.clone();
                self.resync(known.as_deref());
            }
            delta::Delta::Added(object) => self.add(Delta::Added(object)),
            delta::Delta::Updated(object) => self.add(Delta::Updated(object)),
            delta::Delta::Deleted(object) => self.add(Delta::Deleted(object)),
            delta::Delta::DeletedUnreadable(bad) => self.add(Delta::DeletedUnreadable(bad)),
            delta::Delta::Unreadable(bad) => self.add(Delta::Unreadable(bad)),
            delta::Delta::Dropped {
                key,
                resource_version,
            } => self.add(Delta::Dropped {
                key,
                resource_version,
            }),
            delta::Delta::Bookmark { resource_version } => self.add(Delta::Bookmark { resource_version }),
            _ => {}
        }
    }

    /// Adds a delta of one object.
    pub(crate) fn add(&mut self, delta: Delta<K>) {
        let known = self.known.clone();
        let known = known.as_deref();
        let version = Version::of(&delta);
        let delta = self.under_own_key(delta, known);
        match delta {
            Delta::Bookmark { .. } => {}
            Delta::Sync(_) => self.push(delta),
            _ => {
                let is_ignored = self.key_of(&delta).is_some_and(|key| match &delta {
                    Delta::Added(object) | Delta::Updated(object) => {
                        self.is_repetition(object.object_version()) && !self.exists(&key, known)
                    }
                    delta => delta.is_deletion() && !self.is_queued(&key) && !self.is_held(&key, known),
                });
                self.population.changed();
                if !is_ignored {
                    self.push(delta);
                }
            }
        }
        self.advance(version);
    }

    /// Takes whole keys from the front, with about `max` deltas.
    pub(crate) fn take(&mut self, max: usize) -> Option<(Vec<Delta<K>>, bool)> {
        if !self.nameless.is_empty() {
            let count = self.nameless.len().min(max.max(1));
            self.deltas = self.deltas.saturating_sub(count);
            return Some((self.nameless.drain(..count).collect(), false));
        }

        let mut batch = Vec::new();
        let mut initial = false;
        while let Some(key) = self.order.front() {
            let Some(entry) = self.entries.get(key) else {
                debug_assert!(false, "a queued key without deltas");
                self.order.pop_front();
                continue;
            };
            if batch.is_empty() {
                initial = entry.initial;
            } else if batch.len() + entry.deltas.len() > max || entry.initial != initial {
                break;
            }
            let (Some(entry), Some(key)) = (self.entries.remove(key), self.order.pop_front()) else {
                break;
            };
            self.deltas = self.deltas.saturating_sub(entry.deltas.len());
            self.in_process.keys.insert(key, Outcome::of(&entry.deltas));
            batch.extend(entry.deltas);
        }

        if self.order.is_empty()
            && (self.bookmark_due || !batch.is_empty())
            && let Some(version) = &self.version
        {
            batch.push(Delta::Bookmark {
                resource_version: version.clone(),
            });
            self.bookmark_due = false;
        }
        (!batch.is_empty()).then_some((batch, initial))
    }

    /// Ends the processing of what [`take`](Self::take) returned, with its flag. `requeued` was not processed.
    pub(crate) fn finish(&mut self, initial: bool, requeued: Option<Vec<Delta<K>>>) {
        let popped = std::mem::take(&mut self.in_process.keys);
        let mut failed: Vec<(ObjectKey, Vec<Delta<K>>)> = Vec::new();
        if let Some(rest) = requeued {
            // The version has not been reached.
            self.bookmark_due = self.version.is_some();
            failed = self.group_by_key(rest);
        }
        if initial {
            self.population.settle(popped.len().saturating_sub(failed.len()));
        }
        for (key, deltas) in failed {
            self.put_back(key, deltas, initial);
        }
    }
}

/// Accepting deltas.
impl<K: Object> KeyedDeltas<K> {
    /// Whether a watch event of this version is older than the last list or delta: the server repeats it.
    fn is_repetition(&self, version: Option<&str>) -> bool {
        match (&self.newest_delta, version) {
            (Some(newest), Some(version)) => {
                ResourceVersion::compare(version, newest) == Some(Ordering::Less)
            }
            _ => false,
        }
    }

    /// Whether the object exists after all accepted deltas have been applied.
    fn exists(&self, key: &ObjectKey, known: Option<&dyn KnownKeys<K>>) -> bool {
        match self.queued(key) {
            [] => self.is_held(key, known),
            deltas => !matches!(Outcome::of(deltas), Outcome::Deleted),
        }
    }

    /// Whether the consumer holds this object after it has applied what is in process.
    fn is_held(&self, key: &ObjectKey, known: Option<&dyn KnownKeys<K>>) -> bool {
        known.is_some_and(|known| match self.in_process.keys.get(key) {
            Some(last) => !matches!(last, Outcome::Deleted),
            None => known.contains(key),
        })
    }

    fn replace(&mut self, list: Replacement<K>, known: Option<&dyn KnownKeys<K>>) {
        let objects: Vec<(ObjectKey, Arc<K>)> = list
            .objects
            .into_iter()
            .map(|object| (self.key_of_object(&object), object))
            .collect();
        let unreadable = list.unreadable.into_iter();
        let unreadable: Vec<BadObject> = unreadable
            .map(|bad| self.unreadable_under_own_key(bad, known))
            .collect();
        let bad_keys = unreadable.iter().filter_map(|bad| bad.key.as_ref());
        let listed: HashSet<&ObjectKey> = objects.iter().map(|(key, _)| key).chain(bad_keys).collect();
        let vanished = self.vanished(&listed, known).into_iter();
        let missing = vanished.map(|tombstone| {
            let uid = tombstone.last.as_ref().and_then(|last| last.object_uid());
            // An item without a name may be the missing object.
            match may_be_missing(&unreadable, uid) {
                None => Delta::Vanished(tombstone),
                Some(bad) => Delta::ReplacedUnreadable(BadObject {
                    key: Some(tombstone.key),
                    ..bad.clone()
                }),
            }
        });
        let missing: Vec<_> = missing.collect();

        for (key, object) in objects {
            let delta = match self.lists_as_sync {
                true => Delta::Sync(object),
                false => Delta::Replaced(object),
            };
            self.push_under(key, delta);
        }
        for bad in unreadable {
            self.push(Delta::ReplacedUnreadable(bad));
        }
        for delta in missing {
            self.push(delta);
        }
        if self.population.is_awaited() {
            for entry in self.entries.values_mut() {
                entry.initial = true;
            }
            self.population.begin(self.entries.len());
        }
    }

    /// The objects that exist and are not in the list: first those that are queued, then those in process, then the
    /// known ones.
    fn vanished(&self, listed: &HashSet<&ObjectKey>, known: Option<&dyn KnownKeys<K>>) -> Vec<Tombstone<K>> {
        let before = |key: &ObjectKey| known.and_then(|known| known.get(key));
        let tombstone = |key: &ObjectKey, last: &Outcome<K>| {
            let last = match last {
                Outcome::Deleted => return None,
                Outcome::Object(object) => Some(object.clone()),
                Outcome::Unreadable => before(key),
                Outcome::NeverRead => None,
            };
            Some(Tombstone {
                key: key.clone(),
                last,
            })
        };

        let queued = (self.order.iter()).filter(|key| !listed.contains(*key));
        let mut vanished: Vec<Tombstone<K>> = queued
            .filter_map(|key| tombstone(key, &Outcome::of(self.queued(key))))
            .collect();
        let Some(known) = known else { return vanished };

        let unlisted = |key: &ObjectKey| !listed.contains(key) && !self.is_queued(key);
        let in_process = self.in_process.keys.iter().filter(|(key, _)| unlisted(key));
        vanished.extend(in_process.filter_map(|(key, last)| tombstone(key, last)));
        for key in known.keys() {
            if unlisted(&key) && !self.in_process.keys.contains_key(&key) {
                let last = known.get(&key);
                vanished.push(Tombstone { key, last });
            }
        }
        vanished
    }

    fn resync(&mut self, known: Option<&dyn KnownKeys<K>>) {
        let Some(known) = known else { return };
        // Objects that are queued or in process are newer than the known ones: a sync with the known state would
        // revert them.
        let idle = |key: &ObjectKey| !self.is_queued(key) && !self.in_process.keys.contains_key(key);
        let keys = known.keys().into_iter().filter(idle);
        let objects: Vec<Arc<K>> = keys.filter_map(|key| known.get(&key)).collect();
        for object in objects {
            self.push(Delta::Sync(object));
        }
    }

    fn push(&mut self, delta: Delta<K>) {
        match self.key_of(&delta) {
            Some(key) => self.push_under(key, delta),
            None => {
                self.nameless.push(delta);
                self.deltas += 1;
            }
        }
    }

    fn push_under(&mut self, key: ObjectKey, delta: Delta<K>) {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            self.order.push_back(key);
            KeyEntry {
                deltas: Vec::with_capacity(1),
                initial: false,
            }
        });
        match entry.deltas.last_mut() {
            Some(last) if last.is_deletion() && delta.is_deletion() => {
                if is_more_informative(&delta, last) {
                    *last = delta;
                }
            }
            _ => {
                entry.deltas.push(delta);
                self.deltas += 1;
            }
        }
    }

    /// Records the version of an accepted delta.
    fn advance(&mut self, version: Version) {
        match version {
            Version::Exactly(version) => {
                self.newest_delta.clone_from(&version);
                self.bookmark_due = version.is_some();
                self.version = version;
            }
            Version::AtLeast { version, is_bookmark } => {
                if !is_bookmark && !self.is_repetition(Some(&version)) {
                    self.newest_delta = Some(version.clone());
                }
                let newest = self.version.as_deref();
                let older = newest
                    .is_some_and(|newest| ResourceVersion::compare(&version, newest) == Some(Ordering::Less));
                if !older && newest != Some(&version) {
                    self.version = Some(version);
                    self.bookmark_due = true;
                }
            }
            Version::Unchanged => {}
        }
    }
}

/// Requeuing.
impl<K: Object> KeyedDeltas<K> {
    /// Requeues deltas that could not be processed. Those of a watch give way to a newer state of their object in the queue.
    ///
    /// The key stays part of the initial population: the queue is synced when the key has been processed.
    fn put_back(&mut self, key: ObjectKey, mut failed: Vec<Delta<K>>, initial: bool) {
        let Some(newer) = self.entries.get_mut(&key) else {
            self.deltas += failed.len();
            let entry = KeyEntry {
                deltas: failed,
                initial,
            };
            self.entries.insert(key.clone(), entry);
            self.order.push_back(key);
            return;
        };
        // An unreadable object is not a newer state: the failed deltas are still the last readable ones.
        let is_unreadable =
            |delta: &Delta<K>| matches!(delta, Delta::Unreadable(_) | Delta::ReplacedUnreadable(_));
        if !newer.deltas.iter().all(is_unreadable) {
            // What a list says holds whatever the versions are, because the server may have been restored. Without it, the newer
            // deltas could be taken for older ones.
            let is_superseded = newer.deltas.iter().any(is_listed);
            let is_deleted = newer.deltas.first().is_some_and(Delta::is_deletion);
            let listed = failed.into_iter().rfind(is_listed);
            failed = listed
                .filter(|delta| !(is_superseded || is_deleted && delta.is_deletion()))
                .into_iter()
                .collect();
        }
        self.deltas += failed.len();
        failed.append(&mut newer.deltas);
        newer.deltas = failed;
        if newer.initial {
            self.population.settle(usize::from(initial));
        } else {
            newer.initial = initial;
        }
    }

    /// Groups requeued deltas by key, in the order of first appearance. Deltas without a key are requeued immediately.
    fn group_by_key(&mut self, rest: Vec<Delta<K>>) -> Vec<(ObjectKey, Vec<Delta<K>>)> {
        let mut groups: Vec<(ObjectKey, Vec<Delta<K>>)> = Vec::new();
        let mut places: HashMap<ObjectKey, usize> = HashMap::new();
        for delta in rest {
            match self.key_of(&delta) {
                Some(key) => {
                    let place = *places.entry(key.clone()).or_insert(groups.len());
                    match groups.get_mut(place) {
                        Some((_, deltas)) => deltas.push(delta),
                        None => groups.push((key, vec![delta])),
                    }
                }
                None if matches!(
                    delta,
                    Delta::Unreadable(_) | Delta::ReplacedUnreadable(_) | Delta::DeletedUnreadable(_)
                ) =>
                {
                    self.push(delta);
                }
                // The bookmark added by `take`, which adds another one later.
                None => {}
            }
        }
        groups
    }
}

/// Whether a delta comes from a list.
fn is_listed<K>(delta: &Delta<K>) -> bool {
    matches!(
        delta,
        Delta::Replaced(_) | Delta::ReplacedUnreadable(_) | Delta::Vanished(_)
    )
}

/// How a delta changes the version of the collection.
enum Version {
    /// Sets it, to the version of a list.
    Exactly(Option<String>),
    /// Raises it. The objects of some sources arrive without order.
    AtLeast { version: String, is_bookmark: bool },
    /// Does not change it: the delta does not come from the source.
    Unchanged,
}

impl Version {
    fn of<K: Object>(delta: &Delta<K>) -> Self {
        let version = match delta {
            Delta::Sync(_) | Delta::Vanished(_) | Delta::ReplacedUnreadable(_) => None,
            Delta::Bookmark { resource_version } => Some(resource_version.as_str()),
            Delta::Dropped { resource_version, .. } => resource_version.as_deref(),
            Delta::Unreadable(bad) | Delta::DeletedUnreadable(bad) => bad.resource_version.as_deref(),
            other => other.object().and_then(|object| object.object_version()),
        };
        match version {
            Some(version) if !version.is_empty() => Self::AtLeast {
                version: version.to_owned(),
                is_bookmark: matches!(delta, Delta::Bookmark { .. }),
            },
            _ => Self::Unchanged,
        }
    }
}

impl<K> Outcome<K> {
    fn of(deltas: &[Delta<K>]) -> Self {
        let mut newest_first = deltas.iter().rev();
        if deltas.last().is_some_and(Delta::is_deletion) {
            return Self::Deleted;
        }
        match newest_first.find(|delta| delta.is_deletion() || delta.object().is_some()) {
            Some(delta) if delta.is_deletion() => Self::NeverRead,
            Some(delta) => delta.object().cloned().map_or(Self::NeverRead, Self::Object),
            None => Self::Unreadable,
        }
    }
}

/// Whether the newer of two consecutive deletions is more informative. An observed deletion is preferred to an inferred
/// one, and a readable one to an unreadable one.
fn is_more_informative<K>(newer: &Delta<K>, older: &Delta<K>) -> bool {
    match older {
        Delta::Vanished(_) => true,
        Delta::DeletedUnreadable(_) => matches!(newer, Delta::Deleted(_)),
        _ => false,
    }
}
