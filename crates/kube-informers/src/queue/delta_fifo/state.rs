//! The decisions of a `DeltaFifo`: no lock, no clock, no waiting.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::delta::{Delta, Replacement, Tombstone};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, doubt};
use crate::queue::KnownKeys;
use crate::queue::batch::Finished;
use crate::queue::gate::Contents;
use crate::queue::population::Population;
use crate::version::ResourceVersion;

/// What is queued, and what is in process.
pub(super) struct State<K> {
    /// Each has at least one delta, and its key is in `order` exactly once.
    entries: HashMap<ObjectKey, Entry<K>>,
    order: VecDeque<ObjectKey>,
    /// Reports of objects that have no key.
    nameless: Vec<Delta<K>>,
    /// How many deltas are queued.
    deltas: usize,
    in_process: InProcess<K>,
    population: Population,
    /// The newest version seen.
    version: Option<String>,
    /// Whether the consumer has yet to be told that `version` has been reached.
    untold: bool,
}

struct Entry<K> {
    deltas: Vec<Delta<K>>,
    /// Whether it is part of the initial population.
    initial: bool,
}

/// What has been popped and not finished.
///
/// The consumer may or may not have applied it yet, so `KnownKeys` says nothing about these keys: a deletion or
/// a list that comes now must be judged by what the keys will be when it is applied. client-go avoids the
/// question by processing under the queue's lock.
struct InProcess<K> {
    keys: BTreeMap<ObjectKey, Last<K>>,
    initial: bool,
}

/// What some deltas leave of their object.
enum Last<K> {
    /// This state.
    Object(Arc<K>),
    /// It is gone.
    Gone,
    /// It exists and could not be read: what the consumer held before still stands.
    Unread,
    /// It exists, could not be read, and there is no earlier state of it.
    NeverRead,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            nameless: Vec::new(),
            deltas: 0,
            in_process: InProcess {
                keys: BTreeMap::new(),
                initial: false,
            },
            population: Population::default(),
            version: None,
            untold: false,
        }
    }
}

impl<K> Contents for State<K> {
    fn len(&self) -> usize {
        self.deltas
    }

    fn has_synced(&self) -> bool {
        self.population.has_synced()
    }
}

/// Reading.
impl<K> State<K> {
    pub(super) fn deltas(&self) -> usize {
        self.deltas
    }

    pub(super) fn is_queued(&self, key: &ObjectKey) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn get(&self, key: &ObjectKey) -> &[Delta<K>] {
        self.entries.get(key).map_or(&[], |entry| &entry.deltas)
    }

    pub(super) fn list(&self) -> Vec<Delta<K>> {
        let keyed = self.order.iter().flat_map(|key| self.get(key));
        self.nameless.iter().chain(keyed).cloned().collect()
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.order.iter().cloned().collect()
    }
}

/// Putting in.
impl<K: Object> State<K> {
    pub(super) fn accept(&mut self, delta: Delta<K>, known: Option<&dyn KnownKeys<K>>) {
        // Everything that may ask `known`, which is user code and may panic, comes before the first change.
        let version = Version::of(&delta);
        match delta {
            Delta::ReplacedAll(list) => self.replace(list, known),
            Delta::SyncAll => self.resync(known),
            Delta::Bookmark { .. } => {}
            Delta::Sync(_) => self.push(delta),
            _ => {
                let told_already = delta.is_deletion()
                    && delta
                        .key()
                        .is_some_and(|key| !self.is_queued(&key) && !self.is_held(&key, known));
                self.population.changed();
                if !told_already {
                    self.push(delta);
                }
            }
        }
        self.see(version);
    }

    /// Whether the consumer will hold this object when it has applied what is in process.
    fn is_held(&self, key: &ObjectKey, known: Option<&dyn KnownKeys<K>>) -> bool {
        known.is_some_and(|known| match self.in_process.keys.get(key) {
            Some(last) => !matches!(last, Last::Gone),
            None => known.contains(key),
        })
    }

    fn replace(&mut self, list: Replacement<K>, known: Option<&dyn KnownKeys<K>>) {
        let objects: Vec<(ObjectKey, Arc<K>)> = list
            .objects
            .into_iter()
            .map(|object| (ObjectKey::of(&*object), object))
            .collect();
        let unreadable = list.unreadable.iter().filter_map(|bad| bad.key.as_ref());
        let listed: HashSet<&ObjectKey> = objects.iter().map(|(key, _)| key).chain(unreadable).collect();
        let vanished = self.vanished(&listed, known).into_iter();
        let missing = vanished.map(|tombstone| {
            let uid = tombstone.last.as_ref().and_then(|last| last.object_uid());
            // An item without a name may be what seems to be missing.
            match doubt(&list.unreadable, uid) {
                None => Delta::Vanished(tombstone),
                Some(bad) => Delta::Unreadable(BadObject {
                    key: Some(tombstone.key),
                    ..bad.clone()
                }),
            }
        });
        let missing: Vec<_> = missing.collect();

        for (key, object) in objects {
            self.push_under(key, Delta::Replaced(object));
        }
        for bad in list.unreadable {
            self.push(Delta::Unreadable(bad));
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

    /// What exists, as far as queue and consumer know, and is not listed: first what is queued, then what is in
    /// process, then what is known.
    fn vanished(&self, listed: &HashSet<&ObjectKey>, known: Option<&dyn KnownKeys<K>>) -> Vec<Tombstone<K>> {
        let before = |key: &ObjectKey| known.and_then(|known| known.get(key));
        let tombstone = |key: &ObjectKey, last: &Last<K>| {
            let last = match last {
                Last::Gone => return None,
                Last::Object(object) => Some(object.clone()),
                Last::Unread => before(key),
                Last::NeverRead => None,
            };
            Some(Tombstone {
                key: key.clone(),
                last,
            })
        };

        let queued = self.order.iter().filter(|key| !listed.contains(*key));
        let mut vanished: Vec<Tombstone<K>> = queued
            .filter_map(|key| tombstone(key, &Last::of(self.get(key))))
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
        // Whatever is queued or in process is about to be told anyway, and is newer than what is known: a sync
        // with the known state would take the object back.
        let idle = |key: &ObjectKey| !self.is_queued(key) && !self.in_process.keys.contains_key(key);
        let keys = known.keys().into_iter().filter(idle);
        let objects: Vec<Arc<K>> = keys.filter_map(|key| known.get(&key)).collect();
        for object in objects {
            self.push(Delta::Sync(object));
        }
    }

    fn push(&mut self, delta: Delta<K>) {
        match delta.key() {
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
            Entry {
                deltas: Vec::with_capacity(1),
                initial: false,
            }
        });
        match entry.deltas.last_mut() {
            Some(last) if last.is_deletion() && delta.is_deletion() => {
                if tells_more(&delta, last) {
                    *last = delta;
                }
            }
            _ => {
                entry.deltas.push(delta);
                self.deltas += 1;
            }
        }
    }

    /// Remembers the newest version.
    fn see(&mut self, version: Version) {
        match version {
            Version::Exactly(version) => {
                self.untold = version.is_some();
                self.version = version;
            }
            Version::AtLeast(version) => {
                let newest = self.version.as_deref();
                let older = newest
                    .is_some_and(|newest| ResourceVersion::compare(&version, newest) == Some(Ordering::Less));
                if !older && newest != Some(&version) {
                    self.version = Some(version);
                    self.untold = true;
                }
            }
            Version::Unchanged => {}
        }
    }
}

/// Taking out.
impl<K: Object> State<K> {
    /// Whole keys from the front, about `max` deltas, and whether they are of the initial population.
    pub(super) fn take(&mut self, max: usize) -> Option<(Vec<Delta<K>>, bool)> {
        if !self.nameless.is_empty() {
            let count = self.nameless.len().min(max.max(1));
            self.deltas = self.deltas.saturating_sub(count);
            return Some((self.nameless.drain(..count).collect(), false));
        }

        let mut batch = Vec::new();
        let mut initial = false;
        while let Some(key) = self.order.front() {
            let Some(entry) = self.entries.get(key) else {
                debug_assert!(false, "a key in line without deltas");
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
            self.in_process.keys.insert(key, Last::of(&entry.deltas));
            batch.extend(entry.deltas);
        }
        self.in_process.initial = initial;

        if self.order.is_empty()
            && (self.untold || !batch.is_empty())
            && let Some(version) = &self.version
        {
            batch.push(Delta::Bookmark {
                resource_version: version.clone(),
            });
            self.untold = false;
        }
        (!batch.is_empty()).then_some((batch, initial))
    }

    /// Ends what [`take`](Self::take) began.
    pub(super) fn finish(&mut self, finished: Finished<K>) {
        let initial = std::mem::take(&mut self.in_process.initial);
        let popped = std::mem::take(&mut self.in_process.keys);
        let mut failed: Vec<(ObjectKey, Vec<Delta<K>>)> = Vec::new();
        if let Finished::Requeued(rest) = finished {
            // The version has not been reached after all.
            self.untold = self.version.is_some();
            failed = self.sort_out(rest);
        }
        if initial {
            self.population.settle(popped.len().saturating_sub(failed.len()));
        }
        for (key, deltas) in failed {
            self.put_back(key, deltas, initial);
        }
    }

    /// Puts deltas back that could not be processed. They yield to a newer state of their object.
    ///
    /// Their part in the initial population goes with the key: sync is reached when the key has been processed.
    fn put_back(&mut self, key: ObjectKey, mut failed: Vec<Delta<K>>, initial: bool) {
        let Some(newer) = self.entries.get_mut(&key) else {
            self.deltas += failed.len();
            let entry = Entry {
                deltas: failed,
                initial,
            };
            self.entries.insert(key.clone(), entry);
            self.order.push_back(key);
            return;
        };
        // An unreadable object is no newer state: what failed is still the last readable one.
        if newer
            .deltas
            .iter()
            .all(|delta| matches!(delta, Delta::Unreadable(_)))
        {
            self.deltas += failed.len();
            failed.append(&mut newer.deltas);
            newer.deltas = failed;
        }
        if newer.initial {
            self.population.settle(usize::from(initial));
        } else {
            newer.initial = initial;
        }
    }

    /// Returned deltas by key, in the order of the keys' first appearance; those without a key go back at once.
    fn sort_out(&mut self, rest: Vec<Delta<K>>) -> Vec<(ObjectKey, Vec<Delta<K>>)> {
        let mut sorted: Vec<(ObjectKey, Vec<Delta<K>>)> = Vec::new();
        let mut places: HashMap<ObjectKey, usize> = HashMap::new();
        for delta in rest {
            match delta.key() {
                Some(key) => {
                    let place = *places.entry(key.clone()).or_insert(sorted.len());
                    match sorted.get_mut(place) {
                        Some((_, deltas)) => deltas.push(delta),
                        None => sorted.push((key, vec![delta])),
                    }
                }
                None if matches!(delta, Delta::Unreadable(_) | Delta::DeletedUnreadable(_)) => {
                    self.push(delta);
                }
                // The bookmark this queue made itself; it makes another one in time.
                None => {}
            }
        }
        sorted
    }
}

/// What a delta says about the version of the collection.
enum Version {
    /// A list sets it, whatever it was before.
    Exactly(Option<String>),
    /// Everything else can only raise it: the objects of some sources come without order.
    AtLeast(String),
    /// What was made here, and not by the source, says nothing.
    Unchanged,
}

impl Version {
    fn of<K: Object>(delta: &Delta<K>) -> Self {
        let version = match delta {
            Delta::ReplacedAll(list) => return Self::Exactly(list.resource_version.clone()),
            Delta::Sync(_) | Delta::SyncAll | Delta::Vanished(_) => None,
            Delta::Bookmark { resource_version } => Some(resource_version.as_str()),
            Delta::Dropped { resource_version, .. } => resource_version.as_deref(),
            Delta::Unreadable(bad) | Delta::DeletedUnreadable(bad) => bad.resource_version.as_deref(),
            other => other.object().and_then(|object| object.object_version()),
        };
        match version {
            Some(version) if !version.is_empty() => Self::AtLeast(version.to_owned()),
            _ => Self::Unchanged,
        }
    }
}

impl<K> Last<K> {
    fn of(deltas: &[Delta<K>]) -> Self {
        let mut newest_first = deltas.iter().rev();
        if deltas.last().is_some_and(Delta::is_deletion) {
            return Self::Gone;
        }
        match newest_first.find(|delta| delta.is_deletion() || delta.object().is_some()) {
            Some(delta) if delta.is_deletion() => Self::NeverRead,
            Some(delta) => delta.object().cloned().map_or(Self::NeverRead, Self::Object),
            None => Self::Unread,
        }
    }
}

/// Of two deletions in a row: whether the newer one tells more. What was seen beats what was inferred, and what
/// could be read beats what could not.
fn tells_more<K>(newer: &Delta<K>, older: &Delta<K>) -> bool {
    match older {
        Delta::Vanished(_) => true,
        Delta::DeletedUnreadable(_) => matches!(newer, Delta::Deleted(_)),
        _ => false,
    }
}
