//! Keys of the user's own: the key function, and the keys of deltas without an object.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_informers::quarantine::BadObject;
use kube_informers::{Object, ObjectKey};

use super::keyed::{KeyedDeltas, Outcome};
use crate::delta::{Delta, Tombstone};
use crate::known::KnownKeys;

/// The key of an object, chosen by the user.
pub(super) type KeyFunction<K> = Box<dyn Fn(&K) -> ObjectKey + Send + Sync>;

impl<K: Object> KeyedDeltas<K> {
    pub(super) fn key_of_object(&self, object: &K) -> ObjectKey {
        let name = || ObjectKey::of(object);
        let Some(key) = &self.key else { return name() };
        catch_unwind(AssertUnwindSafe(|| key(object))).unwrap_or_else(|_| {
            tracing::warn!(key = %name(), "the key function panicked; the object is queued by namespace and name");
            name()
        })
    }

    /// The key under which a delta is queued; `None` for a bookmark and for an object without a name.
    pub(super) fn key_of(&self, delta: &Delta<K>) -> Option<ObjectKey> {
        match (delta, delta.object()) {
            (Delta::Vanished(tombstone), _) => Some(tombstone.key.clone()),
            (_, Some(object)) => Some(self.key_of_object(object)),
            (_, None) => delta.key(),
        }
    }

    /// Translates the names in deltas without an object into the keys of the objects with these names.
    ///
    /// Only names are known of an object that could not be read. Such deltas are rare, so all objects are searched.
    pub(super) fn under_own_key(&self, delta: Delta<K>, known: Option<&dyn KnownKeys<K>>) -> Delta<K> {
        if self.key.is_none() {
            return delta;
        }
        let own = |bad| self.unreadable_under_own_key(bad, known);
        match delta {
            Delta::Unreadable(bad) => Delta::Unreadable(own(bad)),
            Delta::ReplacedUnreadable(bad) => Delta::ReplacedUnreadable(own(bad)),
            Delta::Dropped {
                key,
                resource_version,
            } => Delta::Dropped {
                key: self.named(&key, known).map_or(key, |(own, _)| own),
                resource_version,
            },
            Delta::DeletedUnreadable(bad) => {
                match bad.key.as_ref().and_then(|name| self.named(name, known)) {
                    Some((key, last)) => Delta::Vanished(Tombstone {
                        key,
                        last: Some(last),
                    }),
                    None => Delta::DeletedUnreadable(bad),
                }
            }
            other => other,
        }
    }

    pub(super) fn unreadable_under_own_key(
        &self,
        bad: BadObject,
        known: Option<&dyn KnownKeys<K>>,
    ) -> BadObject {
        if self.key.is_none() {
            return bad;
        }
        let named = bad.key.as_ref().and_then(|name| self.named(name, known));
        match named {
            Some((key, _)) => BadObject {
                key: Some(key),
                ..bad
            },
            None => bad,
        }
    }

    /// The object with this name, in its last queued, processed or known state, and its key.
    fn named(&self, name: &ObjectKey, known: Option<&dyn KnownKeys<K>>) -> Option<(ObjectKey, Arc<K>)> {
        let is_named = |object: &&Arc<K>| *name == ObjectKey::of(&***object);
        let queued = self.entries.iter().find_map(|(key, entry)| {
            let object = entry.deltas.iter().rev().find_map(Delta::object);
            object.filter(is_named).map(|object| (key, object))
        });
        let in_process = || {
            self.in_process.keys.iter().find_map(|(key, last)| match last {
                Outcome::Object(object) if is_named(&object) => Some((key, object)),
                _ => None,
            })
        };
        if let Some((key, object)) = queued.or_else(in_process) {
            return Some((key.clone(), object.clone()));
        }
        let known = known?;
        known.keys().into_iter().find_map(|key| {
            let object = known.get(&key)?;
            is_named(&&object).then_some((key, object))
        })
    }
}
