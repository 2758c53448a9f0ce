//! Stores as targets of a reflector.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::warn;

use super::writer::{StoreWriter, Transaction};
use crate::delta::{Delta, Replacement};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem, doubt};
use crate::target::{ReflectorStore, Target, TargetError, store_delta};
use crate::version::is_step_back;

/// The key function is user code. A panic costs one object.
fn key_of<V: Object, Q>(key: &dyn Fn(&V) -> Q, object: &V) -> Result<Q, Box<BadObject>> {
    let bad = || BadObject {
        key: Some(ObjectKey::of(object)),
        uid: object.object_uid().map(str::to_owned),
        resource_version: object.object_version().map(str::to_owned),
        problem: Problem::Index("the key function panicked".to_owned()),
        size: 0,
    };
    catch_unwind(AssertUnwindSafe(|| key(object))).map_err(|_| Box::new(bad()))
}

/// A list with the keys of its objects.
struct Keyed<V, Q> {
    objects: Vec<(Q, Arc<V>)>,
    unreadable: Unreadable,
}

/// The objects of a list that could not be read or have no key.
struct Unreadable {
    named: HashMap<ObjectKey, BadObject>,
    nameless: Vec<BadObject>,
}

impl<V: Object, Q> Keyed<V, Q> {
    fn new(key: &dyn Fn(&V) -> Q, list: Replacement<V>) -> Self {
        let (mut named, mut nameless) = (HashMap::new(), Vec::new());
        let mut objects = Vec::with_capacity(list.objects.len());
        let mut unreadable = list.unreadable;
        for object in list.objects {
            match key_of(key, &object) {
                Ok(key) => objects.push((key, object)),
                Err(bad) => unreadable.push(*bad),
            }
        }
        if let Some(first) = unreadable.first() {
            warn!("{} objects of a list cannot be stored: {first}", unreadable.len());
        }
        for bad in unreadable {
            match bad.key.clone() {
                Some(name) => drop(named.insert(name, bad)),
                None => nameless.push(bad),
            }
        }
        Self {
            objects,
            unreadable: Unreadable { named, nameless },
        }
    }
}

impl Unreadable {
    /// The reason why an object that is not in the list may exist nevertheless.
    fn find<V: Object>(&self, object: &V) -> Option<&BadObject> {
        if self.named.is_empty() && self.nameless.is_empty() {
            return None;
        }
        let named = self.named.get(&ObjectKey::of(object));
        named.or_else(|| doubt(&self.nameless, object.object_uid()))
    }
}

impl<V: Object, Q: Hash + Eq + Clone> StoreWriter<V, Q> {
    /// The keys of the objects with this name. Searches the whole store, unless names are the keys.
    fn keys_of_name(&self, name: &ObjectKey) -> Vec<Q> {
        if let Some(key_of_name) = self.key_of_name {
            return vec![key_of_name(name)];
        }
        let table = self.shared.read();
        let named = table.iter().filter(|(_, _, object)| name.is_of(&***object));
        named.map(|(_, entry, _)| entry.key.clone()).collect()
    }

    /// The version of the store after a change of this version: a server may repeat an old event.
    fn advance(&self, transaction: &mut Transaction<'_, V, Q>, version: Option<&str>) {
        let Some(version) = version.filter(|version| !version.is_empty()) else {
            return;
        };
        let reached = self.store().resource_version();
        if !reached.is_some_and(|reached| is_step_back(&reached, version)) {
            transaction.version = Some(Some(version.to_owned()));
        }
    }
}

impl<V, Q> ReflectorStore<V> for StoreWriter<V, Q>
where
    V: Object,
    Q: Hash + Eq + Clone + Send + Sync + 'static,
{
    fn put(&self, object: Arc<V>) -> Result<(), TargetError> {
        let key = match key_of(&*self.key, &object) {
            Ok(key) => key,
            Err(bad) => {
                let error = bad.to_string();
                self.unreadable(*bad)?;
                return Err(error.into());
            }
        };
        let mut transaction = self.begin();
        self.advance(&mut transaction, object.object_version());
        transaction.insert_under(key, object);
        Ok(transaction.commit()?)
    }

    fn delete(&self, name: &ObjectKey, last: Option<&Arc<V>>) -> Result<(), TargetError> {
        let key = last.and_then(|last| key_of(&*self.key, last).ok());
        let keys = key.map_or_else(|| self.keys_of_name(name), |key| vec![key]);
        let mut transaction = self.begin();
        for key in keys {
            transaction.remove(key);
        }
        self.advance(&mut transaction, last.and_then(|last| last.object_version()));
        Ok(transaction.commit()?)
    }

    fn replace_all(&self, list: Replacement<V>) -> Result<(), TargetError> {
        let mut transaction = self.begin();
        transaction.version = Some(list.resource_version.clone());
        transaction.replaces_all = true;
        let Keyed { objects, unreadable } = Keyed::new(&*self.key, list);
        {
            // What exists and could not be read stays, marked stale.
            let table = self.shared.read();
            for (_, entry, object) in table.iter() {
                if let Some(bad) = unreadable.find(&**object) {
                    transaction.quarantine(entry.key.clone(), bad.clone());
                }
            }
        }
        if let Some(key_of_name) = self.key_of_name {
            for (name, bad) in &unreadable.named {
                transaction.quarantine(key_of_name(name), bad.clone());
            }
        }
        for (key, object) in objects {
            transaction.insert_under(key, object);
        }
        // An object on which an index function panics is quarantined. Rejecting the list would only repeat it.
        if let Err(error) = transaction.commit() {
            warn!(%error, "some objects of a list are not stored; their previous states stay");
        }
        Ok(())
    }

    fn unreadable(&self, object: BadObject) -> Result<(), TargetError> {
        let Some(name) = &object.key else {
            return Err(object.to_string().into());
        };
        let mut transaction = self.begin();
        for key in self.keys_of_name(name) {
            transaction.quarantine(key, object.clone());
        }
        self.advance(&mut transaction, object.resource_version.as_deref());
        Ok(transaction.commit()?)
    }

    fn bookmark(&self, resource_version: &str) {
        let mut transaction = self.begin();
        self.advance(&mut transaction, Some(resource_version));
        // Without writes nothing can fail.
        let _ = transaction.commit();
    }
}

impl<V, Q> Target<V> for StoreWriter<V, Q>
where
    V: Object,
    Q: Hash + Eq + Clone + Send + Sync + 'static,
{
    fn accept(&self, delta: Delta<V>) -> Result<(), TargetError> {
        store_delta(self, delta)
    }
}
