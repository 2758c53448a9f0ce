//! The rules of a shard group as a state machine: answers in, requests and changes of ownership out.
//!
//! No I/O, no clock, no randomness: local time and dice are passed in. There are two lanes of requests with at most one
//! in each: renewing the own membership must not wait for anything else. The argument why no slot has two owners is
//! in the documentation of the module above.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::plan::{Holder, Plan, plan};
use super::table::{Owner, Table};

/// The timings and the number of slots.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) slots: usize,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
}

/// The two kinds of requests that go on beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// About the own Lease.
    Membership,
    /// About everybody's Leases and the table.
    Table,
}

/// A request about Leases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// Create the own Lease.
    Join,
    /// Renew it, if it is in this version.
    Renew { version: String, leaving: bool },
    /// Read it.
    LookAtSelf,
    /// Delete it.
    Leave { uid: String, version: String },
    /// Read the table and all members, as of one moment.
    List,
    /// Delete the Lease of another, if it is in this version.
    Evict {
        name: String,
        uid: String,
        version: String,
    },
    /// Write the table; with a version only if it is in that one, without only if there is none.
    WriteTable { table: Table, version: Option<String> },
}

/// A member's Lease as the server has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberSeen {
    pub(crate) name: String,
    pub(crate) member: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// Which process made it.
    pub(crate) process: String,
    pub(crate) leaving: bool,
    pub(crate) lease: Option<Duration>,
}

/// The table as the server has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableSeen {
    pub(crate) table: Table,
    /// Of the Lease it is in. Another one means another table, whatever the number in it says.
    pub(crate) uid: String,
    pub(crate) version: String,
}

/// Everything about the group, as of one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) table: Option<TableSeen>,
    pub(crate) members: Vec<MemberSeen>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Member(MemberSeen),
    Snapshot(Snapshot),
    TableWritten {
        uid: String,
        version: String,
    },
    Deleted,
    Missing,
    Conflict,
    /// Refused, and nothing was done.
    Refused,
    /// Nobody knows whether it was done, or will be.
    Unknown,
}

/// What the replica is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// These are ours.
    Gained(Vec<usize>),
    /// These shall be given up: say [`Machine::drained`] with this number when nothing runs in one of them.
    Giving(Vec<usize>, u64),
    /// These are not ours any more, at once.
    Revoked(Vec<usize>),
}

/// What to do now.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) effects: Vec<Effect>,
    pub(crate) requests: Vec<(Lane, Request, Instant)>,
    /// When to be asked again, if nothing comes before; `None` when it is over.
    pub(crate) wake: Option<Instant>,
}

/// What this replica does in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Idle,
    Owned,
    /// Work in it is ending.
    Giving(u64),
    /// Nothing runs in it, and a write that frees it may be under way. It is not begun again before it was seen to be
    /// free: a release that is late must never hit a slot in use.
    Drained,
}

/// The own Lease.
struct Membership {
    uid: String,
    version: String,
    /// When the last renewal known to have succeeded was sent.
    renewed: Option<Instant>,
    /// The version is old: read before writing.
    look: bool,
}

/// Another's Lease, and since when it has been like that.
struct Observed {
    seen: MemberSeen,
    since: Instant,
}

#[derive(Debug)]
struct InFlight {
    sent: Instant,
    request: Request,
}

/// One replica.
pub(crate) struct Machine {
    rules: Rules,
    member: String,
    process: String,
    membership: Option<Membership>,
    table: Option<TableSeen>,
    observed: BTreeMap<String, Observed>,
    /// Owners in the table without a Lease, and since when they were seen so.
    absent: BTreeMap<String, Instant>,
    /// Members whose Lease this replica has ended.
    evicted: BTreeSet<String>,
    slots: Vec<Slot>,
    drains: u64,
    lanes: [Option<InFlight>; 2],
    due: [Instant; 2],
    /// A moment that is always past.
    start: Instant,
    /// A list has come and was not acted on yet.
    fresh: bool,
    leaving: bool,
    /// Set when there is nothing more to wait for but the server.
    leave_by: Option<Instant>,
    over: bool,
    effects: Vec<Effect>,
}

impl Machine {
    /// `member` is the name others see, `process` tells two processes of one name apart.
    pub(crate) fn new(rules: Rules, member: String, process: String, now: Instant) -> Self {
        Self {
            slots: vec![Slot::Idle; rules.slots],
            rules,
            member,
            process,
            membership: None,
            table: None,
            observed: BTreeMap::new(),
            absent: BTreeMap::new(),
            evicted: BTreeSet::new(),
            drains: 0,
            lanes: [None, None],
            due: [now, now],
            start: now,
            fresh: false,
            leaving: false,
            leave_by: None,
            over: false,
            effects: Vec::new(),
        }
    }

    /// Until when this replica owns what it owns, if it hears nothing more.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        Some(self.membership.as_ref()?.renewed? + self.rules.renew)
    }

    /// Whether work may run in a slot, or be about to end.
    #[cfg(test)]
    pub(crate) fn owns(&self, slot: usize, now: Instant) -> bool {
        self.is_valid(now) && matches!(self.slots[slot], Slot::Owned | Slot::Giving(_))
    }

    /// The table as last seen.
    #[cfg(test)]
    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.as_ref().map(|seen| &seen.table)
    }

    /// Nothing runs in this slot any more; `drain` is the number that came with the wish to give it up.
    pub(crate) fn drained(&mut self, slot: usize, drain: u64) {
        // An old number is about an earlier time of owning the slot.
        if let Some(state) = self
            .slots
            .get_mut(slot)
            .filter(|state| **state == Slot::Giving(drain))
        {
            *state = Slot::Drained;
            // The table is known, so it can be written without reading it again.
            self.fresh = true;
        }
    }

    /// Begins to leave: every slot is given up, then the own Lease.
    pub(crate) fn leave(&mut self) {
        if self.leaving {
            return;
        }
        self.leaving = true;
        self.hurry();
        let owned = self.which(|slot| slot == Slot::Owned);
        self.give(owned);
    }

    /// What to do at `now`.
    pub(crate) fn poll(&mut self, now: Instant, dice: f64) -> Step {
        if !self.is_valid(now) {
            self.revoke(|slot| matches!(slot, Slot::Owned | Slot::Giving(_)));
        }
        let mut step = Step::default();
        self.check_leave(now);
        if !self.over {
            if self.fresh && self.lane(Lane::Table).is_none() {
                self.fresh = false;
                if let Some(request) = self.decide(now) {
                    step.requests.push(self.send(Lane::Table, request, now));
                }
            }
            if self.lane(Lane::Membership).is_none()
                && now >= self.due[Lane::Membership as usize]
                && let Some(request) = self.membership_request()
            {
                step.requests.push(self.send(Lane::Membership, request, now));
            }
            if self.lane(Lane::Table).is_none() && now >= self.due[Lane::Table as usize] {
                // Others do the same at the same time; let them not do it in step.
                self.due[Lane::Table as usize] = now + self.rules.retry.mul_f64(0.8 + 0.4 * dice);
                step.requests.push(self.send(Lane::Table, Request::List, now));
            }
        }
        step.effects = std::mem::take(&mut self.effects);
        step.wake = self.wake(now);
        step
    }

    /// What came of the request in a lane.
    pub(crate) fn answer(&mut self, now: Instant, lane: Lane, answer: Answer) {
        let Some(flight) = self.lanes[lane as usize].take() else {
            return;
        };
        match lane {
            Lane::Membership => self.hear_membership(now, flight, answer),
            Lane::Table => self.hear_table(now, flight, answer),
        }
    }

    fn hear_membership(&mut self, now: Instant, flight: InFlight, answer: Answer) {
        self.due[Lane::Membership as usize] = now + self.rules.retry;
        match (flight.request, answer) {
            // Creating it counts as a renewal; reading it does not.
            (Request::Join, Answer::Member(seen)) => {
                self.adopt(seen, Some(flight.sent));
                self.hurry();
            }
            (Request::LookAtSelf, Answer::Member(seen)) => {
                self.adopt(seen, None);
                self.due[Lane::Membership as usize] = now;
            }
            (Request::Renew { .. }, Answer::Member(seen)) => {
                if let Some(membership) = self.membership.as_mut().filter(|own| own.uid == seen.uid) {
                    membership.version = seen.version;
                    membership.renewed = Some(flight.sent);
                    membership.look = false;
                }
            }
            (Request::Renew { .. } | Request::Leave { .. }, Answer::Conflict) => {
                if let Some(membership) = &mut self.membership {
                    membership.look = true;
                }
                self.due[Lane::Membership as usize] = now;
            }
            (Request::Leave { .. }, Answer::Deleted | Answer::Missing) => {
                self.membership = None;
                self.over = true;
            }
            (Request::Renew { .. } | Request::LookAtSelf, Answer::Missing) => self.lose_membership(),
            // A Lease of our name is there; the list shows whose.
            (Request::Join, Answer::Conflict) => self.hurry(),
            _ => {}
        }
    }

    /// A Lease with our name: ours if this process made it.
    fn adopt(&mut self, seen: MemberSeen, renewed: Option<Instant>) {
        if seen.process != self.process {
            self.lose_membership();
            return;
        }
        match &mut self.membership {
            Some(own) if own.uid == seen.uid => {
                own.version = seen.version;
                own.look = false;
            }
            _ => {
                self.lose_membership();
                self.membership = Some(Membership {
                    uid: seen.uid,
                    version: seen.version,
                    renewed,
                    look: false,
                });
            }
        }
    }

    /// The own Lease is gone or another's: what was owned under it is not ours any more.
    fn lose_membership(&mut self) {
        self.membership = None;
        self.revoke(|slot| slot != Slot::Idle);
    }

    fn hear_table(&mut self, now: Instant, flight: InFlight, answer: Answer) {
        match (flight.request, answer) {
            (Request::List, Answer::Snapshot(snapshot)) => {
                self.observe(now, snapshot);
                self.fresh = true;
            }
            (Request::WriteTable { table, .. }, Answer::TableWritten { uid, version }) => {
                self.take_table(Some(TableSeen { table, uid, version }));
                self.reconcile(now);
                if self.leaving {
                    self.due[Lane::Membership as usize] = self.start;
                }
                // What was made possible by this write, a claim after a release for example, need not wait.
                self.fresh = true;
            }
            (Request::Evict { uid, .. }, Answer::Deleted) => {
                self.observed.remove(&uid);
                self.evicted.insert(uid);
                self.fresh = true;
            }
            // Somebody else was faster: look again.
            (Request::WriteTable { .. }, Answer::Conflict | Answer::Missing) => self.hurry(),
            // It lives, or somebody else has evicted it; the next list shows.
            (Request::Evict { uid, .. }, Answer::Conflict | Answer::Missing) => {
                self.observed.remove(&uid);
            }
            _ => {}
        }
    }

    fn observe(&mut self, now: Instant, snapshot: Snapshot) {
        let mut before = std::mem::take(&mut self.observed);
        for seen in snapshot.members {
            let is_own = self.membership.as_ref().is_some_and(|own| own.uid == seen.uid);
            if is_own {
                continue;
            }
            if seen.member == self.member && seen.process == self.process && self.membership.is_none() {
                // The answer to our joining was lost.
                self.adopt(seen, None);
                self.due[Lane::Membership as usize] = now;
                continue;
            }
            let since = match before.remove(&seen.uid) {
                Some(old) if old.seen.version == seen.version => old.since,
                _ => now,
            };
            self.observed.insert(seen.uid.clone(), Observed { seen, since });
        }
        self.take_table(snapshot.table);
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
        self.reconcile(now);
    }

    /// Takes a table unless it is older than the one we know: an answer may be late.
    fn take_table(&mut self, seen: Option<TableSeen>) {
        match (&self.table, &seen) {
            (Some(known), Some(seen)) if known.uid == seen.uid => {
                if seen.table.version < known.table.version {
                    return;
                }
            }
            // The table was deleted by hand, and nobody knows any more who owns what.
            (Some(_), _) => self.revoke(|slot| slot != Slot::Idle),
            (None, _) => {}
        }
        self.table = seen;
    }

    /// Makes what we do in each slot agree with the table, except for beginning and giving up, which follow the plan.
    fn reconcile(&mut self, now: Instant) {
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
        if !self.is_valid(now) {
            return;
        }
        // Ours by the table, and idle: begin, or free it if it is too much.
        let idle: Vec<usize> = (0..self.slots.len())
            .filter(|slot| mine[*slot] && self.slots[*slot] == Slot::Idle)
            .collect();
        for slot in &idle {
            self.slots[*slot] = Slot::Owned;
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
    fn decide(&mut self, now: Instant) -> Option<Request> {
        if let Some(dead) = self
            .observed
            .values()
            .find(|other| now >= other.since + other.seen.lease.unwrap_or(self.rules.lease))
        {
            return Some(Request::Evict {
                name: dead.seen.name.clone(),
                uid: dead.seen.uid.clone(),
                version: dead.seen.version.clone(),
            });
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
        table.version += 1;
        Some(Request::WriteTable { table, version })
    }

    /// Whether a slot that has an owner may be freed: by us, because nothing runs in it, or because its owner is dead.
    fn is_freed(&self, table: &Table, slot: usize, now: Instant) -> bool {
        let Some(owner) = table.owner(slot) else {
            return false;
        };
        if self.membership.as_ref().is_some_and(|own| own.uid == owner.uid) {
            return self.slots.get(slot) == Some(&Slot::Drained);
        }
        let gone = self.absent.get(&owner.uid).copied();
        self.evicted.contains(&owner.uid) || gone.is_some_and(|since| now >= since + self.rules.lease)
    }

    /// The plan, with these slots counted as free; `None` if we are no member.
    fn plan(&self, now: Instant, freed: &[usize]) -> Option<Plan> {
        let own = self.membership.as_ref()?;
        let mut members: Vec<(&str, &str)> = self
            .observed
            .values()
            .filter(|other| !other.seen.leaving)
            .filter(|other| now < other.since + other.seen.lease.unwrap_or(self.rules.lease))
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

    fn membership_request(&self) -> Option<Request> {
        let Some(own) = &self.membership else {
            // A Lease of our name that is not ours must be gone first.
            let taken = self
                .observed
                .values()
                .any(|other| other.seen.member == self.member);
            return (!taken && !self.leaving).then_some(Request::Join);
        };
        if own.look {
            return Some(Request::LookAtSelf);
        }
        if self.leaving && self.has_nothing() {
            return Some(Request::Leave {
                uid: own.uid.clone(),
                version: own.version.clone(),
            });
        }
        Some(Request::Renew {
            version: own.version.clone(),
            leaving: self.leaving,
        })
    }

    /// Whether no slot is ours, in the table or in our hands, nor can become so by a write under way.
    fn has_nothing(&self) -> bool {
        let Some(own) = &self.membership else { return true };
        let in_table = self
            .table
            .as_ref()
            .is_some_and(|seen| (0..self.slots.len()).any(|slot| seen.table.is_owned_by(slot, &own.uid)));
        let writing = matches!(self.lane(Lane::Table), Some(flight) if matches!(flight.request, Request::WriteTable { .. }));
        !in_table && !writing && self.slots.iter().all(|slot| *slot == Slot::Idle)
    }

    /// Leaving ends when the Lease is deleted; or, when nothing runs any more and the server cannot be reached, after
    /// a renew deadline.
    fn check_leave(&mut self, now: Instant) {
        if !self.leaving {
            return;
        }
        let running = self
            .slots
            .iter()
            .any(|slot| matches!(slot, Slot::Owned | Slot::Giving(_)));
        if running {
            return;
        }
        let idle = self.membership.is_none() && self.lane(Lane::Membership).is_none();
        let leave_by = *self.leave_by.get_or_insert(now + self.rules.renew);
        self.over |= idle || now >= leave_by;
    }

    fn is_valid(&self, now: Instant) -> bool {
        self.valid_until().is_some_and(|until| now < until)
    }

    fn give(&mut self, slots: Vec<usize>) {
        if slots.is_empty() {
            return;
        }
        self.drains += 1;
        for slot in &slots {
            self.slots[*slot] = Slot::Giving(self.drains);
        }
        self.effects.push(Effect::Giving(slots, self.drains));
    }

    /// Ends work in the slots at once. Those that are drained stay so while the membership lasts.
    fn revoke(&mut self, which: impl Fn(Slot) -> bool) {
        let slots = self.which(which);
        let told: Vec<usize> = slots
            .iter()
            .copied()
            .filter(|slot| self.slots[*slot] != Slot::Drained)
            .collect();
        for slot in slots {
            self.slots[slot] = Slot::Idle;
        }
        if !told.is_empty() {
            self.effects.push(Effect::Revoked(told));
        }
    }

    fn which(&self, is: impl Fn(Slot) -> bool) -> Vec<usize> {
        (0..self.slots.len())
            .filter(|slot| is(self.slots[*slot]))
            .collect()
    }

    fn lane(&self, lane: Lane) -> &Option<InFlight> {
        &self.lanes[lane as usize]
    }

    /// The table lane goes on as soon as it is free, and so does a leave that waits for it.
    fn hurry(&mut self) {
        self.due[Lane::Table as usize] = self.start;
        if self.leaving {
            self.due[Lane::Membership as usize] = self.start;
        }
    }

    fn send(&mut self, lane: Lane, request: Request, now: Instant) -> (Lane, Request, Instant) {
        self.lanes[lane as usize] = Some(InFlight {
            sent: now,
            request: request.clone(),
        });
        // Half of the time there is to renew, so that one request that hangs can be followed by one that does not.
        (lane, request, now + self.rules.renew / 2)
    }

    fn wake(&self, now: Instant) -> Option<Instant> {
        if self.over {
            return None;
        }
        let lanes = [Lane::Membership, Lane::Table].into_iter();
        let due = lanes
            .filter(|lane| self.lane(*lane).is_none())
            .map(|lane| self.due[lane as usize]);
        due.chain(self.valid_until())
            .chain(self.leave_by)
            .filter(|at| *at > now)
            .min()
            .or(Some(now + self.rules.retry))
    }
}
