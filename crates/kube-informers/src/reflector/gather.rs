//! The objects received so far of a list or watch-list.

use std::collections::HashMap;
use std::sync::Arc;

use crate::delta::Replacement;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::shard::Shard;

/// The objects of an incomplete collection.
pub(super) struct Gathered<K> {
    objects: Vec<Option<Arc<K>>>,
    unreadable: Vec<Option<BadObject>>,
    /// The places of each key. Built at the first removal, because most collections have none.
    places: Option<HashMap<ObjectKey, Vec<Place>>>,
}

/// An index into one of the two lists.
#[derive(Clone, Copy)]
enum Place {
    Object(usize),
    Unreadable(usize),
}

impl<K: Object> Gathered<K> {
    pub(super) fn new() -> Self {
        Self {
            objects: Vec::new(),
            unreadable: Vec::new(),
            places: None,
        }
    }

    /// Adds an object. An earlier state of it must have been removed.
    pub(super) fn put(&mut self, object: Arc<K>) {
        if let Some(places) = &mut self.places {
            let place = Place::Object(self.objects.len());
            places.entry(ObjectKey::of(&*object)).or_default().push(place);
        }
        self.objects.push(Some(object));
    }

    /// Adds an unreadable object. An earlier, readable state of it is kept.
    pub(super) fn put_unreadable(&mut self, bad: BadObject) {
        if let (Some(places), Some(key)) = (&mut self.places, &bad.key) {
            let place = Place::Unreadable(self.unreadable.len());
            places.entry(key.clone()).or_default().push(place);
        }
        self.unreadable.push(Some(bad));
    }

    /// Removes an object that was deleted, dropped or replaced by a later state.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let (objects, unreadable) = (&self.objects, &self.unreadable);
        let places = self.places.get_or_insert_with(|| places(objects, unreadable));
        for place in places.remove(key).into_iter().flatten() {
            match place {
                Place::Object(at) => take_at(&mut self.objects, at),
                Place::Unreadable(at) => take_at(&mut self.unreadable, at),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    pub(super) fn take(&mut self, resource_version: Option<String>, shard: Option<Shard>) -> Replacement<K> {
        let gathered = std::mem::replace(self, Self::new());
        Replacement {
            objects: gathered.objects.into_iter().flatten().collect(),
            unreadable: gathered.unreadable.into_iter().flatten().collect(),
            resource_version,
            shard,
        }
    }
}

fn places<K: Object>(
    objects: &[Option<Arc<K>>],
    unreadable: &[Option<BadObject>],
) -> HashMap<ObjectKey, Vec<Place>> {
    let mut places: HashMap<ObjectKey, Vec<Place>> = HashMap::new();
    for (at, object) in objects.iter().enumerate() {
        if let Some(object) = object {
            let key = ObjectKey::of(&**object);
            places.entry(key).or_default().push(Place::Object(at));
        }
    }
    for (at, bad) in unreadable.iter().enumerate() {
        if let Some(key) = bad.as_ref().and_then(|bad| bad.key.clone()) {
            places.entry(key).or_default().push(Place::Unreadable(at));
        }
    }
    places
}

fn take_at<T>(slots: &mut [Option<T>], at: usize) {
    if let Some(slot) = slots.get_mut(at) {
        *slot = None;
    }
}
