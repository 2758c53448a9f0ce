//! All collections with a common revision counter, like one etcd.
//! Independent of HTTP, selectors and time.

mod collection;
mod object;
pub(crate) mod page_counts;
pub(crate) mod replica;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

pub(crate) use collection::{Change, Collection, TooOld, View};
pub(crate) use object::{Stored, storage_key};

/// The scope of a change: the resource (`deployments.apps`) and the namespace. Watches are woken by it.
pub(crate) type Touched = (Arc<str>, Option<String>);

/// The location of an object: collection and key.
pub(crate) type Spot = (Arc<str>, Arc<str>);

/// A write that may have consequences: a completed or started deletion, new owner references, or, if the store reports them,
/// any other change.
#[derive(Debug)]
pub(crate) enum Event {
    /// The object was created, changed or removed. Only reported after [`Store::report_changes`].
    Changed {
        collection: Arc<str>,
        change: Arc<Change>,
    },
    /// The object was removed.
    Removed {
        collection: Arc<str>,
        object: Arc<Stored>,
    },
    /// The object was just marked for deletion.
    Marked {
        collection: Arc<str>,
        object: Arc<Stored>,
    },
    /// The object has new owner references. Only reported if objects are tracked by uid.
    Owned {
        collection: Arc<str>,
        object: Arc<Stored>,
    },
    /// The object was created or changed, and the server itself sets its status. Only reported by [`Store::report_written`].
    Written {
        collection: Arc<str>,
        object: Arc<Stored>,
    },
}

impl Event {
    fn spot(&self) -> (&str, &str) {
        match self {
            Event::Changed { collection, change } => (collection, change.key()),
            Event::Removed { collection, object }
            | Event::Marked { collection, object }
            | Event::Owned { collection, object }
            | Event::Written { collection, object } => (collection, &object.key),
        }
    }
}

/// The whole state of the server.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    window: usize,
    collections: HashMap<Arc<str>, Collection>,
    touched: Vec<Touched>,
    events: VecDeque<Event>,
    /// Events whose consequences the controllers perform.
    deferred: VecDeque<Event>,
    /// Whether every change is an event.
    reports_changes: bool,
    /// Owned objects, by the uid of their owner.
    dependents: HashMap<String, BTreeSet<Spot>>,
    /// The location of each object, by uid. Only kept with garbage collection.
    uids: Option<HashMap<String, Spot>>,
    /// Changes that replicas will miss: replica, collection, key.
    to_lose: Vec<(usize, String, String)>,
    /// Changes that replicas have missed.
    lost: Vec<(usize, Arc<str>, Arc<Change>)>,
}

/// Reading.
impl Store {
    /// An empty store whose collections keep `window` changes each. `first` is the revision before the first write; older
    /// ones are unknown to this store, as if they had been compacted. With `find_by_uid` objects are tracked by uid.
    pub(crate) fn new(window: usize, find_by_uid: bool, first: u64) -> Store {
        Store {
            revision: first,
            // As in etcd, where the first revision is 1.
            compacted: if first > 1 { first } else { 0 },
            window,
            collections: HashMap::new(),
            touched: Vec::new(),
            events: VecDeque::new(),
            deferred: VecDeque::new(),
            reports_changes: false,
            dependents: HashMap::new(),
            uids: find_by_uid.then(HashMap::new),
            to_lose: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// The revision of the latest write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The collection of a resource, if anything was ever written to it.
    pub(crate) fn collection(&self, resource: &str) -> Option<&Collection> {
        self.collections.get(resource)
    }

    /// All collections with their resource.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (&Arc<str>, &Collection)> {
        self.collections.iter()
    }

    /// The oldest revision at which `resource` can be listed or watched.
    pub(crate) fn floor(&self, resource: &str) -> u64 {
        self.collections
            .get(resource)
            .map_or(self.compacted, Collection::floor)
    }

    /// A collection at `revision`, as cached by a replica or, without one, as stored; `None` if nothing was ever
    /// written to it.
    pub(crate) fn view(
        &self,
        replica: Option<usize>,
        resource: &str,
        revision: u64,
    ) -> Result<Option<View<'_>>, TooOld> {
        let Some(collection) = self.collections.get(resource) else {
            return if revision < self.compacted {
                Err(TooOld {
                    oldest: self.compacted,
                })
            } else {
                Ok(None)
            };
        };
        let mut view = collection.view(revision)?;
        for (_, _, change) in self
            .lost
            .iter()
            .filter(|(at, place, _)| Some(*at) == replica && **place == *resource)
        {
            if change.revision > revision {
                continue;
            }
            // Only until the object's next change.
            let unchanged = match (&change.new, view.get(change.key())) {
                (Some(new), Some(now)) => new.revision == now.revision,
                (None, None) => true,
                _ => false,
            };
            if unchanged {
                view.overlay(change.key().clone(), change.old.clone());
            }
        }
        Ok(Some(view))
    }

    /// Whether a replica has missed a change.
    pub(crate) fn is_lost(&self, replica: usize, change: &Change) -> bool {
        self.lost
            .iter()
            .any(|(at, _, lost)| *at == replica && lost.revision == change.revision)
    }

    /// The locations of the objects owned by this uid.
    pub(crate) fn dependents(&self, owner: &str) -> Vec<Spot> {
        let spots = self.dependents.get(owner);
        spots
            .map(|spots| spots.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The location of the object with this uid.
    pub(crate) fn place_of(&self, uid: &str) -> Option<Spot> {
        self.uids.as_ref()?.get(uid).cloned()
    }
}

/// Writing.
impl Store {
    /// Writes one object; `build` receives its revision.
    pub(crate) fn put(&mut self, resource: &Arc<str>, build: impl FnOnce(u64) -> Stored) -> Arc<Stored> {
        self.revision += 1;
        let object = Arc::new(build(self.revision));
        self.touched
            .push((resource.clone(), object.meta.namespace.clone()));
        let change = self.collection_mut(resource).put(object.clone());
        self.lose(resource, &change);
        self.report(resource, &change);
        if let Some(old) = &change.old {
            self.unlink(resource, old);
        }
        self.link(resource, &object);
        if object.meta.deleting && change.old.as_ref().is_none_or(|old| !old.meta.deleting) {
            self.events.push_back(Event::Marked {
                collection: resource.clone(),
                object: object.clone(),
            });
        }
        let owners = change.old.as_ref().map(|old| &old.meta.owners);
        if self.uids.is_some() && !object.meta.owners.is_empty() && owners != Some(&object.meta.owners) {
            self.events.push_back(Event::Owned {
                collection: resource.clone(),
                object: object.clone(),
            });
        }
        object
    }

    /// Adds an object of another store, without a change: it is part of the initial state.
    pub(crate) fn adopt(&mut self, resource: &Arc<str>, object: Arc<Stored>) {
        self.link(resource, &object);
        self.collection_mut(resource).adopt(object);
    }

    /// Removes one object and returns its last state, at the revision of its removal.
    pub(crate) fn remove(&mut self, resource: &Arc<str>, key: &str) -> Option<Arc<Stored>> {
        let revision = self.revision + 1;
        let change = self.collections.get_mut(resource)?.remove(key, revision)?;
        self.revision = revision;
        self.lose(resource, &change);
        self.report(resource, &change);
        let object = change.last_known()?.clone();
        self.touched
            .push((resource.clone(), object.meta.namespace.clone()));
        self.unlink(resource, &object);
        self.events.push_back(Event::Removed {
            collection: resource.clone(),
            object: object.clone(),
        });
        Some(object)
    }

    /// Drops every change up to and including `revision`, in all collections.
    pub(crate) fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        self.compacted = self.compacted.max(revision);
        for collection in self.collections.values_mut() {
            collection.compact(revision);
        }
    }

    /// Sets the number of changes that a collection keeps.
    pub(crate) fn set_window(&mut self, resource: &Arc<str>, window: usize) {
        self.collection_mut(resource).set_window(window);
    }

    /// Restores everything at `revision`, like a restored backup. Fails without changing anything if the history of a
    /// collection does not reach that far.
    pub(crate) fn rewind(&mut self, revision: u64) -> Result<(), TooOld> {
        let floors = self.collections.values().map(Collection::floor);
        let oldest = floors.fold(self.compacted, u64::max);
        if revision < oldest {
            return Err(TooOld { oldest });
        }
        for collection in self.collections.values_mut() {
            collection.rewind(revision)?;
        }
        self.revision = self.revision.min(revision.max(1));
        self.lost.retain(|(_, _, change)| change.revision <= revision);
        self.relink();
        Ok(())
    }

    /// Raises the revision without a write, as writes to unwatched resources would.
    pub(crate) fn skip_revisions(&mut self, count: u64) {
        self.revision = self.revision.saturating_add(count);
    }

    /// Whether a collection has changed since the last call of [`take_touched`](Self::take_touched).
    pub(crate) fn has_touched(&self, resource: &str) -> bool {
        self.touched.iter().any(|(touched, _)| &**touched == resource)
    }

    /// The scopes changed since the last call.
    pub(crate) fn take_touched(&mut self) -> Vec<Touched> {
        std::mem::take(&mut self.touched)
    }

    /// The next consequence to process.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Makes every change an event from now on, for controllers that act on more than deletions.
    pub(crate) fn report_changes(&mut self) {
        self.reports_changes = true;
    }

    /// Makes the last write of an object an event.
    pub(crate) fn report_written(&mut self, resource: &Arc<str>, object: Arc<Stored>) {
        self.events.push_back(Event::Written {
            collection: resource.clone(),
            object,
        });
    }

    fn report(&mut self, resource: &Arc<str>, change: &Arc<Change>) {
        if self.reports_changes {
            self.events.push_back(Event::Changed {
                collection: resource.clone(),
                change: change.clone(),
            });
        }
    }

    /// Leaves the consequences of an event to the controllers.
    pub(crate) fn defer(&mut self, event: Event) {
        self.deferred.push_back(event);
    }

    /// The next event for the controllers.
    pub(crate) fn next_deferred(&mut self) -> Option<Event> {
        self.deferred.pop_front()
    }

    /// The number of events that wait for the controllers.
    pub(crate) fn count_deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Defers an event for every object that may have consequences, as if it had just been written: for a server that starts
    /// with the objects of another one.
    pub(crate) fn defer_all(&mut self) {
        let mut events = Vec::new();
        for (collection, objects) in &self.collections {
            for object in objects.objects() {
                let (collection, object) = (collection.clone(), object.clone());
                if self.reports_changes {
                    let (collection, change) = (collection.clone(), Change::created(object.clone()));
                    events.push(Event::Changed { collection, change });
                }
                if object.meta.deleting {
                    events.push(Event::Marked { collection, object });
                } else if !object.meta.owners.is_empty() {
                    events.push(Event::Owned { collection, object });
                }
            }
        }
        // Sorted, because the collections are in a hash map and the order of events should be deterministic.
        events.sort_by(|one, other| one.spot().cmp(&other.spot()));
        self.deferred.extend(events);
    }

    /// Makes a replica miss the next change of an object.
    pub(crate) fn lose_next(&mut self, replica: usize, resource: &str, key: &str) {
        self.to_lose.push((replica, resource.to_owned(), key.to_owned()));
    }

    fn lose(&mut self, resource: &Arc<str>, change: &Arc<Change>) {
        let lost = &mut self.lost;
        self.to_lose.retain(|(replica, collection, key)| {
            let hit = *collection == **resource && **key == **change.key();
            if hit {
                lost.push((*replica, resource.clone(), change.clone()));
            }
            !hit
        });
    }

    fn collection_mut(&mut self, resource: &Arc<str>) -> &mut Collection {
        let (compacted, window) = (self.compacted, self.window);
        self.collections
            .entry(resource.clone())
            .or_insert_with(|| Collection::new(compacted, window))
    }

    fn link(&mut self, resource: &Arc<str>, object: &Stored) {
        let spot = (resource.clone(), object.key.clone());
        for owner in &object.meta.owners {
            let spots = self.dependents.entry(owner.uid.clone()).or_default();
            spots.insert(spot.clone());
        }
        if let Some(uids) = &mut self.uids {
            uids.insert(object.meta.uid.clone(), spot);
        }
    }

    fn unlink(&mut self, resource: &Arc<str>, object: &Stored) {
        let spot = (resource.clone(), object.key.clone());
        for owner in &object.meta.owners {
            if let Some(spots) = self.dependents.get_mut(&owner.uid) {
                spots.remove(&spot);
                if spots.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        if let Some(uids) = &mut self.uids {
            uids.remove(&object.meta.uid);
        }
    }

    fn relink(&mut self) {
        self.dependents.clear();
        if let Some(uids) = &mut self.uids {
            uids.clear();
        }
        let mut all = Vec::new();
        for (resource, objects) in &self.collections {
            all.extend(objects.objects().map(|object| (resource.clone(), object.clone())));
        }
        for (resource, object) in all {
            self.link(&resource, &object);
        }
    }
}
