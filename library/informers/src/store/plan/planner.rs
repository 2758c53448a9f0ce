//! `Planner`: derives the plan, the events and the counts of a batch of deltas. Writes nothing.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::rules::{self, Delete, DeltaSource, Ident, Known, Put, Unreadable};
use super::{Age, BadVersion, KeyView, PlannedKey, PlannedObject, WritePlan};
use crate::delta::Delta;
use crate::event::{Cause, Event};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem, doubt};
use crate::shard::{Membership, membership_of_unreadable, shard_membership};
use crate::store::delta_writer::{Applied, Item, Prepared, PreparedDelta};
use crate::store::index_values::IndexRow;
use crate::store::lookup::KeyRef;
use crate::store::progress::WatchProgress;
use crate::store::shared_table::{NeedsValues, SharedTable, panicked};
use crate::store::table::Table;

/// What a batch did.
pub(in crate::store) struct Outcome<K> {
    pub(in crate::store) events: Vec<Event<K>>,
    pub(in crate::store) applied: Applied,
}

pub(in crate::store) struct Planner<'a, K> {
    shared: &'a SharedTable<K, ObjectKey>,
    table: &'a Table<K, ObjectKey>,
    batch: &'a Prepared<K>,
    member: u32,
    plan: WritePlan<K, ObjectKey>,
    events: Vec<Event<K>>,
    applied: Applied,
    /// The progress of the watch the batch is from.
    progress: WatchProgress,
}

impl<'a, K: Object> Planner<'a, K> {
    pub(in crate::store) fn new(
        shared: &'a SharedTable<K, ObjectKey>,
        table: &'a Table<K, ObjectKey>,
        batch: &'a Prepared<K>,
    ) -> Self {
        Self {
            shared,
            table,
            batch,
            member: u32::try_from(batch.origin.member).unwrap_or(u32::MAX),
            plan: WritePlan::new(),
            events: Vec::new(),
            applied: Applied::default(),
            progress: table.progress(batch.origin.member),
        }
    }

    pub(in crate::store) fn run(mut self) -> Result<(WritePlan<K, ObjectKey>, Outcome<K>), NeedsValues> {
        // Whether the batch adds or removes its watch.
        let mut watch = None;
        for step in &self.batch.steps {
            match step {
                PreparedDelta::Put(item) => {
                    self.put(item, DeltaSource::Watch)?;
                    self.advance(item.object.object_version());
                }
                PreparedDelta::ReplaceAll {
                    items,
                    unreadable,
                    resource_version,
                } => {
                    self.replace_all(items, unreadable)?;
                    self.progress.reset(resource_version.as_deref());
                }
                PreparedDelta::EvictOutside => self.evict_outside(),
                PreparedDelta::AddMember => watch = Some(true),
                PreparedDelta::EvictMember => {
                    self.evict_member();
                    watch = Some(false);
                }
                PreparedDelta::Other(delta) => self.other(delta),
            }
        }
        let member = self.batch.origin.member;
        if watch == Some(false) {
            self.plan.progress = Some((member, None));
        } else if watch.is_some() || self.progress != self.table.progress(member) {
            self.plan.progress = Some((member, Some(self.progress)));
        }
        let outcome = Outcome {
            events: self.events,
            applied: self.applied,
        };
        Ok((self.plan, outcome))
    }

    fn other(&mut self, delta: &Delta<K>) {
        match delta {
            Delta::Deleted(object) => {
                let key = KeyRef::of(&**object);
                match self.membership(object) {
                    Membership::Outside => self.delete_outside(key, Ident::of(&**object)),
                    _ => self.delete(key, Ident::of(&**object), Some(object)),
                }
                self.advance(object.object_version());
            }
            Delta::DeletedUnreadable(bad) => {
                match &bad.key {
                    Some(key) if self.is_outside(bad) => {
                        self.delete_outside(KeyRef::from(key), Ident::of_bad(bad));
                    }
                    None if self.is_outside(bad) => self.applied.outside += 1,
                    Some(key) => self.delete(KeyRef::from(key), Ident::of_bad(bad), None),
                    None => self.nameless(bad.clone()),
                }
                self.advance(bad.resource_version.as_deref());
            }
            Delta::Unreadable(bad) => {
                match &bad.key {
                    Some(key) if self.is_outside(bad) => {
                        self.outside(KeyRef::from(key), Ident::of_bad(bad), DeltaSource::Watch);
                    }
                    None if self.is_outside(bad) => self.applied.outside += 1,
                    Some(_) => self.unreadable(bad.clone(), DeltaSource::Watch),
                    None => self.nameless(bad.clone()),
                }
                self.advance(bad.resource_version.as_deref());
            }
            Delta::Dropped {
                key,
                resource_version,
            } => {
                self.vanish(KeyRef::from(key), Cause::LeftScope);
                self.advance(resource_version.as_deref());
            }
            Delta::SyncAll => self.sync_all(),
            Delta::Bookmark { resource_version } => self.bookmark(resource_version),
            // Converted by `Prepared::new`.
            Delta::Added(_) | Delta::Updated(_) | Delta::ReplacedAll(_) => {}
        }
    }

    fn put(&mut self, item: &Item<K>, source: DeltaSource) -> Result<(), NeedsValues> {
        let object = &item.object;
        let key = KeyRef::of(&**object);
        if key.name().is_empty() {
            self.nameless(self.shared.describe(object, Problem::Nameless));
            return Ok(());
        }
        match self.membership(object) {
            Membership::Inside => {}
            Membership::Outside => {
                self.outside(key, Ident::of(&**object), source);
                return Ok(());
            }
            Membership::Unknown => {
                self.unreadable(self.shared.describe(object, Problem::NoUid), source);
                return Ok(());
            }
        }
        let view = self.view(key);
        let verdict = rules::put(known(&view, self.seen()), Ident::of(&**object), source);
        let another_member = view.held.as_ref().is_some_and(|held| held.member != self.member);
        match verdict {
            Put::Stale => {
                self.applied.stale_dropped += 1;
                return Ok(());
            }
            Put::Same | Put::Confirmed => {
                match source {
                    DeltaSource::Watch => self.applied.duplicates += 1,
                    DeltaSource::List => self.applied.unchanged += 1,
                }
                if another_member || verdict == Put::Confirmed {
                    self.confirm(key, verdict == Put::Confirmed);
                }
                return Ok(());
            }
            Put::Add | Put::Update | Put::Swap => {}
        }
        let row = match item.row {
            IndexRow::At(row) => row,
            IndexRow::Missing => return Err(NeedsValues),
            IndexRow::Panicked(column) => {
                let problem = panicked(self.batch.values.name(column));
                self.unreadable(self.shared.describe(object, problem), source);
                return Ok(());
            }
        };
        let held = PlannedObject {
            object: object.clone(),
            member: self.member,
            age: Age::Current,
            row: Some(row),
        };
        let planned = self.touch(key);
        let recovered = planned.bad.take().is_some();
        let old = planned.held.replace(held);
        self.applied.recovered += usize::from(recovered);
        match (verdict, old) {
            (Put::Update, Some(old)) => {
                self.applied.updated += 1;
                self.events.push(Event::Updated {
                    old: old.object,
                    new: object.clone(),
                    resync: false,
                });
            }
            (_, old) => {
                if let Some(old) = old {
                    self.deleted(old.object, Cause::Missed);
                }
                self.applied.added += 1;
                self.events.push(Event::Added {
                    object: object.clone(),
                    initial: self.batch.origin.initial,
                });
            }
        }
        Ok(())
    }

    /// Ignores an object outside the shard. An object inside that had the same name was deleted, whether it is held or in quarantine.
    fn outside(&mut self, key: KeyRef<'_>, state: Ident<'_>, source: DeltaSource) {
        self.applied.outside += 1;
        let verdict = rules::put(known(&self.view(key), self.seen()), state, source);
        if matches!(verdict, Put::Swap | Put::Add) || source == DeltaSource::List {
            self.vanish(key, Cause::Missed);
        }
    }

    /// Ignores the deletion of an object outside the shard. An object inside that had the same name was deleted before: a requeue
    /// drops older changes, and with them that deletion and the creation outside.
    fn delete_outside(&mut self, key: KeyRef<'_>, state: Ident<'_>) {
        self.applied.outside += 1;
        let verdict = rules::delete(known(&self.view(key), self.seen()), state);
        if matches!(verdict, Delete::Missed | Delete::Absent) {
            self.vanish(key, Cause::Missed);
        }
    }

    /// The held state belongs to this watch, and may be known to be current.
    fn confirm(&mut self, key: KeyRef<'_>, is_current: bool) {
        let member = self.member;
        let planned = self.touch(key);
        if let Some(held) = &mut planned.held {
            held.member = member;
            if is_current {
                held.age = Age::Current;
            }
        }
        if is_current && planned.bad.take().is_some() {
            self.applied.recovered += 1;
        }
    }

    fn unreadable(&mut self, bad: BadObject, source: DeltaSource) {
        let Some(key) = bad.key.clone() else {
            return self.nameless(bad);
        };
        let key = KeyRef::from(&key);
        match rules::unreadable(known(&self.view(key), self.seen()), Ident::of_bad(&bad), source) {
            Unreadable::Stale => self.applied.stale_dropped += 1,
            Unreadable::Same => match source {
                DeltaSource::Watch => self.applied.duplicates += 1,
                DeltaSource::List => self.applied.unchanged += 1,
            },
            Unreadable::Confirmed => {
                self.applied.unchanged += 1;
                self.confirm(key, true);
            }
            Unreadable::Quarantine(age) => {
                let member = self.member;
                if let Some(held) = &mut self.quarantine(key, bad).held {
                    held.age = age;
                    held.member = member;
                }
            }
            Unreadable::QuarantineAndDrop => {
                if let Some(held) = self.quarantine(key, bad).held.take() {
                    self.deleted(held.object, Cause::Missed);
                }
            }
        }
    }

    fn quarantine(&mut self, key: KeyRef<'_>, bad: BadObject) -> &mut PlannedKey<K, ObjectKey> {
        self.applied.quarantined += 1;
        self.applied.problems.push(bad.clone());
        let member = self.member;
        let planned = self.touch(key);
        planned.bad = Some(BadVersion {
            object: Box::new(bad),
            member,
        });
        planned
    }

    /// Counted and reported only: the quarantine is by key.
    fn nameless(&mut self, bad: BadObject) {
        self.applied.quarantined += 1;
        self.applied.problems.push(bad);
    }

    fn delete(&mut self, key: KeyRef<'_>, state: Ident<'_>, last: Option<&Arc<K>>) {
        let view = self.view(key);
        // An object that moves from one watch to another leaves the first before or after it enters the second. Only the
        // watch that holds it can delete it.
        let another_member = view.held.as_ref().is_some_and(|held| held.member != self.member);
        let verdict = rules::delete(known(&view, self.seen()), state);
        match verdict {
            Delete::Stale => self.applied.stale_dropped += 1,
            _ if another_member => self.applied.stale_dropped += 1,
            Delete::Absent => {
                if view.bad.is_some_and(|bad| bad.member == self.member) {
                    self.touch(key).bad = None;
                }
            }
            Delete::Held | Delete::Missed => {
                let planned = self.touch(key);
                planned.bad = None;
                let Some(held) = planned.held.take() else { return };
                match verdict {
                    Delete::Missed => self.deleted(held.object, Cause::Missed),
                    _ => self.deleted(last.cloned().unwrap_or(held.object), Cause::Observed),
                }
            }
        }
    }

    /// Removes a key whose deletion was not in the watch.
    fn vanish(&mut self, key: KeyRef<'_>, cause: Cause) {
        let view = self.view(key);
        let held_by = view.held.as_ref().map(|held| held.member);
        if held_by.or(view.bad.map(|bad| bad.member)) == Some(self.member) {
            let planned = self.touch(key);
            planned.bad = None;
            if let Some(held) = planned.held.take() {
                self.deleted(held.object, cause);
            }
        }
    }

    fn deleted(&mut self, object: Arc<K>, cause: Cause) {
        self.applied.deleted += 1;
        self.applied.vanished += usize::from(cause == Cause::Missed);
        self.events.push(Event::Deleted { object, cause });
    }

    fn replace_all(&mut self, items: &[Item<K>], unreadable: &[BadObject]) -> Result<(), NeedsValues> {
        let mut listed = ListedKeys::new(self.table);
        // Objects outside the shard are treated as absent: an object inside may have had the same name before.
        let inside: Vec<&BadObject> = unreadable.iter().filter(|bad| !self.is_outside(bad)).collect();
        self.applied.outside += unreadable.len() - inside.len();
        // In reverse, because the last of several items with one key counts.
        let mut counts = vec![true; items.len()];
        for (item, counts) in items.iter().zip(&mut counts).rev() {
            let key = KeyRef::of(&*item.object);
            *counts = key.name().is_empty()
                || self.membership(&item.object) == Membership::Outside
                || listed.insert(key);
        }
        let mut unreadable_only = Vec::new();
        for bad in inside {
            match &bad.key {
                None => self.nameless(bad.clone()),
                Some(key) if listed.insert(KeyRef::from(key)) => unreadable_only.push(bad),
                Some(_) => self.applied.duplicates += 1,
            }
        }

        let table = self.table;
        for (slot, entry, _) in table.iter() {
            if !listed.contains_slot(slot) {
                self.missing(&entry.key, unreadable);
            }
        }
        let quarantined = table.quarantine().iter().map(|entry| entry.key.clone());
        let others: Vec<ObjectKey> = quarantined.chain(self.keys_only_planned()).collect();
        for key in &others {
            if !listed.contains(KeyRef::from(key)) {
                self.missing(key, unreadable);
            }
        }
        for bad in unreadable_only {
            self.unreadable(bad.clone(), DeltaSource::List);
        }
        for (item, counts) in items.iter().zip(counts) {
            if counts {
                self.put(item, DeltaSource::List)?;
            } else {
                self.applied.duplicates += 1;
            }
        }
        Ok(())
    }

    /// The key is not in a list. The object was deleted, unless it may be an item whose name could not be read: a list of
    /// unreadable items must not empty the cache.
    fn missing(&mut self, key: &ObjectKey, unreadable: &[BadObject]) {
        let view = self.view(KeyRef::from(key));
        let (uid, member) = match (&view.held, view.bad) {
            (Some(held), _) => (held.object.object_uid(), held.member),
            (None, Some(bad)) => (bad.object.uid.as_deref(), bad.member),
            (None, None) => return,
        };
        match doubt(unreadable, uid) {
            None => self.vanish(KeyRef::from(key), Cause::Missed),
            Some(bad) if member == self.member => {
                let bad = BadObject {
                    key: Some(key.clone()),
                    ..bad.clone()
                };
                self.unreadable(bad, DeltaSource::List);
            }
            Some(_) => {}
        }
    }

    /// Whether an object belongs to the shard this batch is restricted to.
    fn membership(&self, object: &K) -> Membership {
        let shard = self.batch.shard.as_ref();
        shard.map_or(Membership::Inside, |shard| shard_membership(shard, object))
    }

    /// Whether an unreadable object is known to be outside the shard.
    fn is_outside(&self, bad: &BadObject) -> bool {
        let shard = self.batch.shard.as_ref();
        shard.is_some_and(|shard| membership_of_unreadable(shard, bad) == Membership::Outside)
    }

    /// Removes every object that is not known to belong to the shard.
    fn evict_outside(&mut self) {
        let table = self.table;
        let held = (table.iter()).filter(|(_, _, object)| self.membership(object) != Membership::Inside);
        let quarantined = (table.quarantine().iter()).filter(|entry| self.is_outside(&entry.bad.object));
        let held = held.map(|(_, entry, _)| entry.key.clone());
        self.evict(held.chain(quarantined.map(|entry| entry.key.clone())).collect());
    }

    /// Removes every object of this watch.
    fn evict_member(&mut self) {
        let table = self.table;
        let held = (table.iter()).filter(|(_, entry, _)| entry.member == self.member);
        let quarantined = (table.quarantine().iter()).filter(|entry| entry.bad.member == self.member);
        let held = held.map(|(_, entry, _)| entry.key.clone());
        self.evict(held.chain(quarantined.map(|entry| entry.key.clone())).collect());
    }

    fn evict(&mut self, keys: Vec<ObjectKey>) {
        for key in &keys {
            let planned = self.touch(KeyRef::from(key));
            planned.bad = None;
            if let Some(held) = planned.held.take() {
                self.deleted(held.object, Cause::LeftScope);
            }
        }
    }

    fn sync_all(&mut self) {
        let table = self.table;
        for (_, entry, _) in table.iter() {
            self.sync(KeyRef::from(&entry.key));
        }
        for key in self.keys_only_planned() {
            self.sync(KeyRef::from(&key));
        }
    }

    fn sync(&mut self, key: KeyRef<'_>) {
        let held = self.view(key).held;
        let held = held.filter(|held| held.member == self.member);
        let Some(current) = held.map(|held| held.object.clone()) else {
            return;
        };
        self.applied.resynced += 1;
        self.events.push(Event::Updated {
            old: current.clone(),
            new: current,
            resync: true,
        });
    }

    /// Keys that are new in this batch.
    fn keys_only_planned(&self) -> Vec<ObjectKey> {
        let planned = self.plan.keys.iter();
        let new = planned.filter(|planned| planned.slot.is_none());
        new.map(|planned| planned.key.clone()).collect()
    }

    /// The highest version seen.
    fn seen(&self) -> Option<&str> {
        self.progress.seen()
    }

    /// A delta of this version was processed.
    fn advance(&mut self, version: Option<&str>) {
        self.progress.advance(version);
    }

    fn bookmark(&mut self, version: &str) {
        if !self.progress.bookmark(version) {
            self.applied.stale_dropped += 1;
        }
    }

    fn view(&self, key: KeyRef<'_>) -> KeyView<'_, K> {
        self.plan.view(self.table, &key)
    }

    fn touch(&mut self, key: KeyRef<'_>) -> &mut PlannedKey<K, ObjectKey> {
        self.plan.touch(self.table, &key, || key.to_key())
    }
}

/// The keys in a list, to find the known keys that it lacks.
struct ListedKeys<'a, K> {
    table: &'a Table<K, ObjectKey>,
    /// Keys in the table, by slot.
    slots: Vec<bool>,
    new: HashSet<KeyRef<'a>, RandomState>,
}

impl<'a, K> ListedKeys<'a, K> {
    fn new(table: &'a Table<K, ObjectKey>) -> Self {
        Self {
            table,
            slots: vec![false; table.capacity()],
            new: HashSet::default(),
        }
    }

    /// Adds a key; returns whether it was not there yet.
    fn insert(&mut self, key: KeyRef<'a>) -> bool {
        match self.table.find(&key) {
            Some(slot) => !std::mem::replace(&mut self.slots[slot as usize], true),
            None => self.new.insert(key),
        }
    }

    fn contains_slot(&self, slot: u32) -> bool {
        self.slots[slot as usize]
    }

    fn contains(&self, key: KeyRef<'_>) -> bool {
        match self.table.find(&key) {
            Some(slot) => self.contains_slot(slot),
            None => self.new.contains(&key),
        }
    }
}

fn known<'a, K: Object>(view: &KeyView<'a, K>, seen: Option<&'a str>) -> Known<'a> {
    Known {
        held: view.held.as_ref().map(|held| Ident::of(&**held.object)),
        age: view.held.as_ref().map(|held| held.age).unwrap_or_default(),
        bad: view.bad.map(|bad| Ident::of_bad(&bad.object)),
        seen,
    }
}
