//! Rules about the table: which members are alive, which slots are ours, which to give up, free and claim.

use tokio::time::Instant;

use super::{Effect, InFlight, Lane, Machine, ObservedMember, Request, Response, Slot, Snapshot, TableSeen};
use crate::shards::plan::{Holder, SlotPlan, plan};
use crate::shards::table::{Owner, Table};

impl Machine {
    pub(super) fn on_table_response(&mut self, now: Instant, flight: InFlight, response: Response) {
        match (flight.request, response) {
            (Request::List, Response::Snapshot(snapshot)) => {
                self.observe(now, snapshot);
                self.fresh = true;
            }
            (Request::WriteTable { table, .. }, Response::TableWritten { uid, version }) => {
                self.take_table(now, Some(TableSeen { table, uid, version }));
                // The write was conditional on the table before it.
                self.doubted = None;
                self.reconcile(now);
                if self.leaving {
                    self.due[Lane::Membership as usize] = self.start;
                }
                // Follow-up writes, a claim after a release for example, need not wait.
                self.fresh = true;
            }
            (Request::Evict { uid, .. }, Response::Deleted) => {
                self.observed.remove(&uid);
                self.evicted.insert(uid);
                self.fresh = true;
            }
            // Another replica was faster: list again soon. Not at once, because a write that can never succeed, over a
            // foreign Lease of that name for example, would be retried without pause.
            (Request::WriteTable { .. }, Response::Conflict | Response::Missing) => {
                self.due[Lane::Table as usize] = now + self.rules.retry / 10;
            }
            // It is alive, or another member has evicted it; the next list shows which.
            (Request::Evict { uid, .. }, Response::Conflict | Response::Missing) => {
                self.observed.remove(&uid);
            }
            _ => {}
        }
    }

    pub(super) fn observe(&mut self, now: Instant, snapshot: Snapshot) {
        let mut before = std::mem::take(&mut self.observed);
        for seen in snapshot.members {
            let is_own = self.membership.as_ref().is_some_and(|own| own.uid == seen.uid);
            if is_own {
                continue;
            }
            if seen.member == self.member && seen.process == self.process && self.membership.is_none() {
                // The response to our join was lost.
                self.adopt(seen, None);
                self.due[Lane::Membership as usize] = now;
                continue;
            }
            let since = match before.remove(&seen.uid) {
                Some(old) if old.seen.version == seen.version => old.since,
                _ => now,
            };
            self.observed
                .insert(seen.uid.clone(), ObservedMember { seen, since });
        }
        self.take_table(now, snapshot.table);
        // In a list that is older than the table, the Lease of an owner may be absent because it did not exist yet.
        if self.set_back.is_none() {
            self.note_absent_owners(now);
        }
        self.reconcile(now);
    }

    fn note_absent_owners(&mut self, now: Instant) {
        let own = self.membership.as_ref().map(|own| own.uid.as_str());
        let absent = std::mem::take(&mut self.absent);
        for owner in self
            .table
            .iter()
            .flat_map(|seen| seen.table.slots.iter().flatten())
        {
            if !self.observed.contains_key(&owner.uid) && own != Some(owner.uid.as_str()) {
                let since = absent.get(&owner.uid).copied().unwrap_or(now);
                self.absent.insert(owner.uid.clone(), since);
            }
        }
        self.evicted.retain(|uid| self.absent.contains_key(uid));
    }

    /// Accepts a table unless it is older than the known one.
    ///
    /// An older table is a stale read, or a server that was restored from a backup. These cannot be distinguished, so nothing
    /// is owned until a newer table arrives, or until lists have returned old ones for a lease duration, after which every
    /// replica that knew the newer one has done the same. Even then it may be a stale read: one list at the beginning and one at
    /// the end of that time look the same as a restored server. So an old table is accepted, but nothing is owned by it until a
    /// write that is conditional on it has succeeded.
    pub(super) fn take_table(&mut self, now: Instant, seen: Option<TableSeen>) {
        match (&self.table, &seen) {
            (Some(known), Some(seen)) if known.uid == seen.uid => {
                let newest = known.table.version.max(self.doubted.unwrap_or_default());
                if seen.table.version > newest {
                    self.doubted = None;
                }
                if seen.table.version < known.table.version {
                    self.revoke(|slot| matches!(slot, Slot::Owned | Slot::Giving(_)));
                    let since = *self.set_back.get_or_insert(now);
                    if now < since + self.rules.lease {
                        return;
                    }
                    self.revoke(|slot| slot != Slot::Idle);
                    self.doubted = Some(newest);
                }
            }
            // The table was deleted by hand, and ownership is unknown.
            (Some(_), _) => {
                self.revoke(|slot| slot != Slot::Idle);
                self.doubted = None;
            }
            (None, _) => {}
        }
        self.set_back = None;
        self.table = seen;
    }

    /// Makes the state of each slot agree with the table. Starting and giving up follow the plan.
    pub(super) fn reconcile(&mut self, now: Instant) {
        let Some(TableSeen { table, .. }) = &self.table else {
            return;
        };
        let uid = self.membership.as_ref().map(|own| own.uid.as_str());
        let mine: Vec<bool> = (0..self.slots.len())
            .map(|slot| uid.is_some_and(|uid| table.is_owned_by(slot, uid)))
            .collect();
        let mut lost = Vec::new();
        for (slot, state) in self.slots.iter_mut().enumerate() {
            if !mine[slot] {
                if matches!(state, Slot::Owned | Slot::Giving(_)) {
                    lost.push(slot);
                }
                *state = Slot::Idle;
            }
        }
        if !lost.is_empty() {
            self.effects.push(Effect::Revoked(lost));
        }
        if !self.is_valid(now) || self.set_back.is_some() {
            return;
        }
        // Ours by the table, and idle: start it, or free it if the share is too large.
        let idle: Vec<usize> = (0..self.slots.len())
            .filter(|slot| mine[*slot] && self.slots[*slot] == Slot::Idle)
            .collect();
        let start = match self.doubted {
            // Freeing it proves that the table is current; then it can be claimed again.
            Some(_) => Slot::Drained,
            None => Slot::Owned,
        };
        for slot in &idle {
            self.slots[*slot] = start;
        }
        let too_much: Vec<usize> = match self.leaving {
            true => self.which(|slot| slot == Slot::Owned),
            false => self.plan(now, &[]).map(|plan| plan.give).unwrap_or_default(),
        };
        let (unused, used): (Vec<usize>, Vec<usize>) = too_much.iter().partition(|slot| idle.contains(slot));
        for slot in unused {
            self.slots[slot] = Slot::Drained;
        }
        let gained: Vec<usize> = idle
            .into_iter()
            .filter(|slot| self.slots[*slot] == Slot::Owned)
            .collect();
        if !gained.is_empty() {
            self.effects.push(Effect::Gained(gained));
        }
        self.give(used);
    }

    /// The next request of the table lane after a list, if any.
    pub(super) fn decide(&mut self, now: Instant) -> Option<Request> {
        if let Some(dead) = self
            .observed
            .values()
            .find(|other| now >= other.expires_at(&self.rules))
        {
            return Some(Request::Evict {
                name: dead.seen.name.clone(),
                uid: dead.seen.uid.clone(),
                version: dead.seen.version.clone(),
            });
        }
        if self.set_back.is_some() {
            return None;
        }
        let (mut table, version) = match &self.table {
            Some(seen) => (seen.table.clone(), Some(seen.version.clone())),
            None => (Table::new(self.rules.slots), None),
        };
        let mut changed = version.is_none() && self.is_valid(now);
        let mut freed = Vec::new();
        for slot in 0..self.slots.len() {
            if self.is_freed(&table, slot, now) {
                if let Some(owner) = table.slots.get_mut(slot) {
                    *owner = None;
                }
                freed.push(slot);
            }
        }
        changed |= !freed.is_empty();
        let own = self.membership.as_ref().map(|own| own.uid.clone());
        if let Some(uid) = own.filter(|_| self.is_valid(now) && !self.leaving) {
            let mut drained = self.which(|slot| slot == Slot::Drained);
            drained.retain(|slot| freed.contains(slot));
            let freed: Vec<usize> = freed.into_iter().filter(|slot| !drained.contains(slot)).collect();
            for slot in self.plan(now, &freed).map(|plan| plan.claim).unwrap_or_default() {
                if let Some(owner) = table.slots.get_mut(slot).filter(|owner| owner.is_none()) {
                    *owner = Some(Owner {
                        member: self.member.clone(),
                        uid: uid.clone(),
                    });
                    changed = true;
                }
            }
        }
        if !changed {
            return None;
        }
        table.version = table.version.saturating_add(1);
        Some(Request::WriteTable { table, version })
    }

    /// Whether an owned slot may be freed: it is ours and drained, or its owner is dead.
    pub(super) fn is_freed(&self, table: &Table, slot: usize, now: Instant) -> bool {
        let Some(owner) = table.owner(slot) else {
            return false;
        };
        if self.membership.as_ref().is_some_and(|own| own.uid == owner.uid) {
            return self.slots.get(slot) == Some(&Slot::Drained);
        }
        let gone = self.absent.get(&owner.uid).copied();
        self.evicted.contains(&owner.uid) || gone.is_some_and(|since| now >= since + self.rules.lease)
    }

    /// The plan, with these slots counted as free; `None` without a membership.
    pub(super) fn plan(&self, now: Instant, freed: &[usize]) -> Option<SlotPlan> {
        let own = self.membership.as_ref()?;
        let mut members: Vec<(&str, &str)> = self
            .observed
            .values()
            .filter(|other| !other.seen.leaving)
            .filter(|other| now < other.expires_at(&self.rules))
            .map(|other| (other.seen.member.as_str(), other.seen.uid.as_str()))
            .collect();
        members.push((&self.member, &own.uid));
        members.sort_unstable();
        let place = |uid: &str| members.iter().position(|(_, member)| *member == uid);
        let holders: Vec<Holder> = (0..self.slots.len())
            .map(|slot| {
                let owner = self.table.as_ref().and_then(|seen| seen.table.owner(slot));
                match owner {
                    _ if freed.contains(&slot) => Holder::Free,
                    None => Holder::Free,
                    Some(owner) if owner.uid == own.uid => match self.slots[slot] {
                        Slot::Owned | Slot::Idle => Holder::Mine,
                        Slot::Giving(_) | Slot::Drained => Holder::Going,
                    },
                    Some(owner) => place(&owner.uid).map_or(Holder::Other, Holder::Member),
                }
            })
            .collect();
        Some(plan(&holders, place(&own.uid)?, members.len()))
    }
}
