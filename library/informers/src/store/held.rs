//! The identities of the objects in a store, for an audit.

use super::read::Store;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::source::ObjectIdentity;

/// The number of slots read under one lock.
const CHUNK: u32 = 4096;

/// What a store holds under a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Object(ObjectIdentity),
    /// An object that is known to be stale, or none, because the current one could not be read.
    Quarantined,
    Nothing,
}

impl<K: Object> Store<K> {
    /// What it holds under a key.
    pub(crate) fn held(&self, key: &ObjectKey) -> Held {
        let table = self.table();
        if table.bad(key).is_some() {
            return Held::Quarantined;
        }
        match table.get(key) {
            Some((_, object)) => Held::Object(ObjectIdentity::of(&**object)),
            None => Held::Nothing,
        }
    }

    /// The keys of one watch that satisfy a condition, and the number of its objects.
    ///
    /// Not atomic: an object that is written meanwhile may be missing or counted twice.
    pub(crate) fn keys_of_member(
        &self,
        member: usize,
        is_wanted: impl Fn(&ObjectKey) -> bool,
    ) -> (Vec<ObjectKey>, usize) {
        let (mut keys, mut count) = (Vec::new(), 0);
        self.each_of_member(member, |key, _| {
            count += 1;
            if is_wanted(key) {
                keys.push(key.clone());
            }
        });
        (keys, count)
    }

    /// The object of one watch that changed last, by its version. Not atomic.
    pub(crate) fn newest_of_member(
        &self,
        member: usize,
        is_newer: impl Fn(&str, &str) -> bool,
    ) -> Option<ObjectKey> {
        let mut newest: Option<(ObjectKey, String)> = None;
        self.each_of_member(member, |key, object| {
            let Some(version) = object.object_version() else {
                return;
            };
            if newest
                .as_ref()
                .is_none_or(|(_, present)| is_newer(version, present))
            {
                newest = Some((key.clone(), version.to_owned()));
            }
        });
        newest.map(|(key, _)| key)
    }

    /// Visits the objects of one watch in chunks, so that a writer does not wait for all of them.
    fn each_of_member(&self, member: usize, mut visit: impl FnMut(&ObjectKey, &K)) {
        let mut from = 0;
        loop {
            let table = self.table();
            let end = u32::try_from(table.capacity()).unwrap_or(u32::MAX);
            let to = end.min(from + CHUNK);
            for (entry, object) in (from..to).filter_map(|slot| table.at(slot)) {
                if usize::try_from(entry.member) == Ok(member) {
                    visit(&entry.key, object);
                }
            }
            if to >= end {
                return;
            }
            from = to;
        }
    }
}
