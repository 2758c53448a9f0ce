//! The planner: goes through a batch of deltas and works out plan, events and counts. Writes nothing.

use std::sync::Arc;

use super::delta_writer::{Applied, Item, Prepared, PreparedDelta};
use super::listed::Listed;
use super::plan::{Age, Bad, Held, Plan, Touched, View};
use super::reached::Reached;
use super::read::At;
use super::rows::Row;
use super::rules::{self, Delete, Ident, Known, Put, Truth, Unreadable};
use super::shared::{NeedsValues, Shared, panicked};
use super::table::Table;
use crate::delta::Delta;
use crate::event::{Cause, Event};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem, doubt};
use crate::shard::{Membership, membership_of_unreadable, shard_membership};

/// What a batch has to say.
pub(super) struct Outcome<K> {
    pub(super) events: Vec<Event<K>>,
    pub(super) applied: Applied,
}

pub(super) struct Planner<'a, K> {
    shared: &'a Shared<K, ObjectKey>,
    table: &'a Table<K, ObjectKey>,
    batch: &'a Prepared<K>,
    member: u32,
    plan: Plan<K, ObjectKey>,
    events: Vec<Event<K>>,
    applied: Applied,
    /// The version of the member watch.
    reached: Reached,
}

impl<'a, K: Object> Planner<'a, K> {
    pub(super) fn new(
        shared: &'a Shared<K, ObjectKey>,
        table: &'a Table<K, ObjectKey>,
        batch: &'a Prepared<K>,
    ) -> Self {
        Self {
            shared,
            table,
            batch,
            member: u32::try_from(batch.origin.member).unwrap_or(u32::MAX),
            plan: Plan::new(),
            events: Vec::new(),
            applied: Applied::default(),
            reached: table.reached(batch.origin.member),
        }
    }

    pub(super) fn run(mut self) -> Result<(Plan<K, ObjectKey>, Outcome<K>), NeedsValues> {
        for step in &self.batch.steps {
            match step {
                PreparedDelta::Put(item) => {
                    self.put(item, Truth::Watch)?;
                    self.reach(item.object.resource_version());
                }
                PreparedDelta::PutListed(item) => {
                    self.put(item, Truth::List)?;
                    self.reach(None);
                }
                PreparedDelta::ReplaceAll {
                    items,
                    unreadable,
                    resource_version,
                } => {
                    self.replace_all(items, unreadable)?;
                    self.reached.reset(resource_version.as_deref());
                }
                PreparedDelta::LeaveScope => {
                    self.leave_scope();
                    self.reached.reset(None);
                }
                PreparedDelta::EvictOutside => self.evict_outside(),
                PreparedDelta::Other(delta) => self.other(delta),
            }
        }
        let member = self.batch.origin.member;
        if self.reached != self.table.reached(member) {
            self.plan.reached = Some((member, self.reached));
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
                let at = at(&**object);
                if self.membership(object) == Membership::Outside {
                    self.applied.outside += 1;
                } else {
                    self.delete(at, Ident::of(&**object), Some(object));
                }
                self.reach(object.resource_version());
            }
            Delta::DeletedUnreadable(bad) => {
                match &bad.key {
                    _ if self.is_outside(bad) => self.applied.outside += 1,
                    Some(key) => self.delete(at_key(key), Ident::of_bad(bad), None),
                    None => self.nameless(bad.clone()),
                }
                self.reach(bad.resource_version.as_deref());
            }
            Delta::Unreadable(bad) => {
                match &bad.key {
                    _ if self.is_outside(bad) => self.applied.outside += 1,
                    Some(_) => self.unreadable(bad.clone(), Truth::Watch),
                    None => self.nameless(bad.clone()),
                }
                self.reach(bad.resource_version.as_deref());
            }
            Delta::Vanished(tombstone) => {
                self.vanish(at_key(&tombstone.key), Cause::Missed);
                self.reach(None);
            }
            Delta::Dropped {
                key,
                resource_version,
            } => {
                self.vanish(at_key(key), Cause::LeftScope);
                self.reached.reach(resource_version.as_deref());
            }
            Delta::Sync(object) => self.sync(at(&**object)),
            Delta::SyncAll => self.sync_all(),
            Delta::Bookmark { resource_version } => self.bookmark(resource_version),
            // Taken apart by `Prepared::new`.
            Delta::Added(_) | Delta::Updated(_) | Delta::Replaced(_) | Delta::ReplacedAll(_) => {}
        }
    }

    fn put(&mut self, item: &Item<K>, truth: Truth) -> Result<(), NeedsValues> {
        let object = &item.object;
        let at = at(&**object);
        if at.name.is_empty() {
            self.nameless(self.shared.describe(object, Problem::Nameless));
            return Ok(());
        }
        match self.membership(object) {
            Membership::Inside => {}
            Membership::Outside => {
                self.applied.outside += 1;
                return Ok(());
            }
            Membership::Unknown => {
                self.unreadable(self.shared.describe(object, Problem::NoUid), truth);
                return Ok(());
            }
        }
        let view = self.view(at);
        let verdict = rules::put(known(&view, self.told()), Ident::of(&**object), truth);
        let another_member = view.held.as_ref().is_some_and(|held| held.member != self.member);
        match verdict {
            Put::Stale => {
                self.applied.stale_dropped += 1;
                return Ok(());
            }
            Put::Same | Put::Confirmed => {
                match truth {
                    Truth::Watch => self.applied.duplicates += 1,
                    Truth::List => self.applied.unchanged += 1,
                }
                if another_member || verdict == Put::Confirmed {
                    self.confirm(at, verdict == Put::Confirmed);
                }
                return Ok(());
            }
            Put::Add | Put::Update | Put::Swap => {}
        }
        let row = match item.row {
            Row::At(row) => row,
            Row::Missing => return Err(NeedsValues),
            Row::Panicked(column) => {
                let problem = panicked(self.batch.rows.name(column));
                self.unreadable(self.shared.describe(object, problem), truth);
                return Ok(());
            }
        };
        let held = Held {
            object: object.clone(),
            member: self.member,
            age: Age::Current,
            row: Some(row),
        };
        let touched = self.touch(at);
        let recovered = touched.bad.take().is_some();
        let old = touched.held.replace(held);
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

    /// The held state is what this member watch says it is.
    fn confirm(&mut self, at: At<'_>, is_current: bool) {
        let member = self.member;
        let touched = self.touch(at);
        if let Some(held) = &mut touched.held {
            held.member = member;
            if is_current {
                held.age = Age::Current;
            }
        }
        if is_current && touched.bad.take().is_some() {
            self.applied.recovered += 1;
        }
    }

    fn unreadable(&mut self, bad: BadObject, truth: Truth) {
        let Some(key) = bad.key.clone() else {
            return self.nameless(bad);
        };
        let at = at_key(&key);
        match rules::unreadable(known(&self.view(at), self.told()), Ident::of_bad(&bad), truth) {
            Unreadable::Stale => self.applied.stale_dropped += 1,
            Unreadable::Same => match truth {
                Truth::Watch => self.applied.duplicates += 1,
                Truth::List => self.applied.unchanged += 1,
            },
            Unreadable::Confirmed => {
                self.applied.unchanged += 1;
                self.confirm(at, true);
            }
            Unreadable::Quarantine(age) => {
                let member = self.member;
                if let Some(held) = &mut self.quarantine(at, bad).held {
                    held.age = age;
                    held.member = member;
                }
            }
            Unreadable::QuarantineAndDrop => {
                if let Some(held) = self.quarantine(at, bad).held.take() {
                    self.deleted(held.object, Cause::Missed);
                }
            }
        }
    }

    fn quarantine(&mut self, at: At<'_>, bad: BadObject) -> &mut Touched<K, ObjectKey> {
        self.applied.quarantined += 1;
        self.applied.problems.push(bad.clone());
        let member = self.member;
        let touched = self.touch(at);
        touched.bad = Some(Bad {
            object: Box::new(bad),
            member,
        });
        touched
    }

    /// It cannot be kept in quarantine, which is by key.
    fn nameless(&mut self, bad: BadObject) {
        self.applied.quarantined += 1;
        self.applied.problems.push(bad);
    }

    fn delete(&mut self, at: At<'_>, said: Ident<'_>, last: Option<&Arc<K>>) {
        let view = self.view(at);
        // An object that moved from one member watch to another leaves the first one, sooner or later than it
        // enters the second; only the one that holds it can take it away.
        let another_member = view.held.as_ref().is_some_and(|held| held.member != self.member);
        let verdict = rules::delete(known(&view, self.told()), said);
        match verdict {
            Delete::Stale => self.applied.stale_dropped += 1,
            _ if another_member => self.applied.stale_dropped += 1,
            Delete::Absent => {
                if view.bad.is_some_and(|bad| bad.member == self.member) {
                    self.touch(at).bad = None;
                }
            }
            Delete::Held | Delete::Missed => {
                let touched = self.touch(at);
                touched.bad = None;
                let Some(held) = touched.held.take() else { return };
                match verdict {
                    Delete::Missed => self.deleted(held.object, Cause::Missed),
                    _ => self.deleted(last.cloned().unwrap_or(held.object), Cause::Observed),
                }
            }
        }
    }

    /// Takes away what is there, without word from the watch.
    fn vanish(&mut self, at: At<'_>, cause: Cause) {
        let view = self.view(at);
        let held_by = view.held.as_ref().map(|held| held.member);
        if held_by.or(view.bad.map(|bad| bad.member)) == Some(self.member) {
            let touched = self.touch(at);
            touched.bad = None;
            if let Some(held) = touched.held.take() {
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
        let mut listed = Listed::new(self.table);
        // What is outside the shard is not there; an object inside may have had its name before.
        let inside: Vec<&BadObject> = unreadable.iter().filter(|bad| !self.is_outside(bad)).collect();
        self.applied.outside += unreadable.len() - inside.len();
        // Backwards: of several items with one key the last one counts.
        let mut counts = vec![true; items.len()];
        for (item, counts) in items.iter().zip(&mut counts).rev() {
            let at = at(&*item.object);
            *counts = at.name.is_empty()
                || self.membership(&item.object) == Membership::Outside
                || listed.mark(self.shared, at);
        }
        let mut unreadable_only = Vec::new();
        for bad in inside {
            match &bad.key {
                None => self.nameless(bad.clone()),
                Some(key) if listed.mark(self.shared, at_key(key)) => unreadable_only.push(bad),
                Some(_) => self.applied.duplicates += 1,
            }
        }

        let table = self.table;
        for (slot, entry, _) in table.iter() {
            if !listed.has_slot(slot) {
                self.missing(&entry.key, unreadable);
            }
        }
        let quarantined = table.quarantine().map(|entry| entry.key.clone());
        let others: Vec<ObjectKey> = quarantined.chain(self.keys_only_planned()).collect();
        for key in &others {
            if !listed.contains(self.shared, at_key(key)) {
                self.missing(key, unreadable);
            }
        }
        for bad in unreadable_only {
            self.unreadable(bad.clone(), Truth::List);
        }
        for (item, counts) in items.iter().zip(counts) {
            if counts {
                self.put(item, Truth::List)?;
            } else {
                self.applied.duplicates += 1;
            }
        }
        Ok(())
    }

    /// A list lacks this key: the object is gone, unless an item without a name may be it. Otherwise a list of items
    /// nobody can read would empty the cache.
    fn missing(&mut self, key: &ObjectKey, unreadable: &[BadObject]) {
        let view = self.view(at_key(key));
        let (uid, member) = match (&view.held, view.bad) {
            (Some(held), _) => (held.object.uid(), held.member),
            (None, Some(bad)) => (bad.object.uid.as_deref(), bad.member),
            (None, None) => return,
        };
        match doubt(unreadable, uid) {
            None => self.vanish(at_key(key), Cause::Missed),
            Some(bad) if member == self.member => {
                let bad = BadObject {
                    key: Some(key.clone()),
                    ..bad.clone()
                };
                self.unreadable(bad, Truth::List);
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
        let quarantined = (table.quarantine()).filter(|entry| self.is_outside(&entry.bad.object));
        let mut keys: Vec<ObjectKey> = held.map(|(_, entry, _)| entry.key.clone()).collect();
        keys.extend(quarantined.map(|entry| entry.key.clone()));
        for key in &keys {
            let touched = self.touch(at_key(key));
            touched.bad = None;
            if let Some(held) = touched.held.take() {
                self.deleted(held.object, Cause::LeftScope);
            }
        }
    }

    fn leave_scope(&mut self) {
        let table = self.table;
        for (_, entry, _) in table.iter() {
            self.vanish(at_key(&entry.key), Cause::LeftScope);
        }
        for entry in table.quarantine() {
            self.vanish(at_key(&entry.key), Cause::LeftScope);
        }
        for key in self.keys_only_planned() {
            self.vanish(at_key(&key), Cause::LeftScope);
        }
    }

    fn sync_all(&mut self) {
        let table = self.table;
        for (_, entry, _) in table.iter() {
            self.sync(at_key(&entry.key));
        }
        for key in self.keys_only_planned() {
            self.sync(at_key(&key));
        }
    }

    fn sync(&mut self, at: At<'_>) {
        let held = self.view(at).held;
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

    /// Keys that came in with this very batch.
    fn keys_only_planned(&self) -> Vec<ObjectKey> {
        let touched = self.plan.touched.iter();
        let new = touched.filter(|touched| touched.slot.is_none());
        new.map(|touched| touched.key.clone()).collect()
    }

    /// Out of order, an older version is nothing unusual.
    fn told(&self) -> Option<&str> {
        self.reached.told().filter(|_| self.batch.origin.in_order)
    }

    /// A delta of this version was dealt with.
    fn reach(&mut self, version: Option<&str>) {
        if self.batch.origin.in_order {
            self.reached.reach(version);
        } else {
            self.reached.forget();
        }
    }

    fn bookmark(&mut self, version: &str) {
        if !self.batch.origin.in_order {
            self.reached.reset(Some(version));
        } else if !self.reached.bookmark(version) {
            self.applied.stale_dropped += 1;
        }
    }

    fn view(&self, at: At<'_>) -> View<'_, K> {
        let hash = self.shared.hash(&at.hashed());
        self.plan.view(self.table, hash, |key| at.is(key))
    }

    fn touch(&mut self, at: At<'_>) -> &mut Touched<K, ObjectKey> {
        let hash = self.shared.hash(&at.hashed());
        let key = || ObjectKey::new(at.namespace, at.name);
        self.plan.touch(self.table, hash, |key| at.is(key), key)
    }
}

fn at<K: Object>(object: &K) -> At<'_> {
    At::new(object.namespace(), object.name())
}

fn at_key(key: &ObjectKey) -> At<'_> {
    At::new(key.namespace(), key.name())
}

fn known<'a, K: Object>(view: &View<'a, K>, told: Option<&'a str>) -> Known<'a> {
    Known {
        held: view.held.as_ref().map(|held| Ident::of(&**held.object)),
        age: view.held.as_ref().map(|held| held.age).unwrap_or_default(),
        bad: view.bad.map(|bad| Ident::of_bad(&bad.object)),
        told,
    }
}
