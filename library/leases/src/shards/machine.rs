//! The rules of a shard group as a state machine: responses in, requests and changes of ownership out.
//!
//! No I/O, no clock, no randomness: local time and jitter are passed in. There are two lanes with at most one request in
//! flight each, because renewing the membership must not wait for anything else. The parent module documents why no slot
//! has two owners. The rules about the member's own Lease are in `membership.rs`, those about the table in `sharing.rs`.

mod membership;
mod protocol;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

#[cfg(feature = "sim")]
use super::table::Table;
use crate::election::fraction;
pub use protocol::{Effect, Lane, MemberSeen, Request, Response, Rules, Snapshot, Step, TableSeen};

/// The state of a slot in this replica.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Idle,
    Owned,
    /// Being given up; its work is ending.
    Giving(u64),
    /// No work runs in it, and a write that frees it may be in flight. It is not used again before it was seen free: a
    /// late release must never hit a slot in use.
    Drained,
}

/// The Lease of this member.
struct Membership {
    uid: String,
    version: String,
    /// When the last renewal known to have succeeded was sent.
    renewed: Option<Instant>,
    /// The version is stale: read before writing.
    look: bool,
    /// How many renewals were sent.
    renewals: u64,
    /// Renewals of unknown outcome, by number, and when they were sent.
    unsure: Vec<(u64, Instant)>,
}

/// The Lease of another member, and since when it has been unchanged.
struct ObservedMember {
    seen: MemberSeen,
    since: Instant,
}

impl ObservedMember {
    /// When the member may be evicted. A Lease that states a shorter duration than our own setting is not trusted: it
    /// may have been shortened by hand while its member still owns slots.
    fn expires_at(&self, rules: &Rules) -> Instant {
        self.since + self.seen.lease.unwrap_or_default().max(rules.lease)
    }
}

#[derive(Debug)]
struct InFlight {
    sent: Instant,
    request: Request,
}

/// One replica.
pub struct Machine {
    rules: Rules,
    member: String,
    process: String,
    membership: Option<Membership>,
    table: Option<TableSeen>,
    /// Since when the server returns an older table than this.
    set_back: Option<Instant>,
    /// The version of the newest table that was known when an older one was accepted, until the accepted one is proven to be
    /// current.
    doubted: Option<u64>,
    observed: BTreeMap<String, ObservedMember>,
    /// Owners in the table without a Lease, and since when.
    absent: BTreeMap<String, Instant>,
    /// Members whose Lease this replica has deleted.
    evicted: BTreeSet<String>,
    slots: Vec<Slot>,
    drains: u64,
    lanes: [Option<InFlight>; 2],
    due: [Instant; 2],
    /// A time that is always in the past.
    start: Instant,
    /// A list has arrived and was not processed yet.
    fresh: bool,
    leaving: bool,
    /// The deadline for leaving, once no work runs any more.
    leave_by: Option<Instant>,
    over: bool,
    effects: Vec<Effect>,
}

impl Machine {
    /// `member` is the visible name; `process` distinguishes two processes of one name.
    pub fn new(rules: Rules, member: String, process: String, now: Instant) -> Self {
        Self {
            slots: vec![Slot::Idle; rules.slots],
            rules,
            member,
            process,
            membership: None,
            table: None,
            set_back: None,
            doubted: None,
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

    /// Until when this replica owns its slots if no further renewal succeeds.
    pub fn valid_until(&self) -> Option<Instant> {
        Some(self.membership.as_ref()?.renewed? + self.rules.renew)
    }

    /// Whether work may run in a slot.
    #[cfg(any(test, feature = "sim"))]
    pub fn owns(&self, slot: usize, now: Instant) -> bool {
        self.is_valid(now) && matches!(self.slots[slot], Slot::Owned | Slot::Giving(_))
    }

    /// The table as last read.
    #[cfg(feature = "sim")]
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref().map(|seen| &seen.table)
    }

    /// No work runs in this slot any more; `drain` is the number from [`Effect::Giving`].
    pub fn drained(&mut self, slot: usize, drain: u64) {
        // An old number belongs to an earlier ownership of the slot.
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

    /// Starts leaving: every slot is given up, then the Lease is deleted.
    pub fn leave(&mut self) {
        if self.leaving {
            return;
        }
        self.leaving = true;
        self.hurry();
        let owned = self.which(|slot| slot == Slot::Owned);
        self.give(owned);
    }

    /// What to do at `now`.
    pub fn poll(&mut self, now: Instant, jitter: f64) -> Step {
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
                // Jitter, so that replicas do not list at the same time.
                self.due[Lane::Table as usize] = now + self.rules.retry.mul_f64(0.8 + 0.4 * fraction(jitter));
                step.requests.push(self.send(Lane::Table, Request::List, now));
            }
        }
        step.effects = std::mem::take(&mut self.effects);
        step.wake = self.wake(now);
        step
    }

    /// Processes the response to the request in a lane.
    pub fn response(&mut self, now: Instant, lane: Lane, response: Response) {
        let Some(flight) = self.lanes[lane as usize].take() else {
            return;
        };
        match lane {
            Lane::Membership => self.on_membership_response(now, flight, response),
            Lane::Table => self.on_table_response(now, flight, response),
        }
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

    /// Revokes slots. Drained ones have no work to stop.
    fn revoke(&mut self, which: impl Fn(Slot) -> bool) {
        let slots = self.which(which);
        let revoked: Vec<usize> = slots
            .iter()
            .copied()
            .filter(|slot| self.slots[*slot] != Slot::Drained)
            .collect();
        for slot in slots {
            self.slots[slot] = Slot::Idle;
        }
        if !revoked.is_empty() {
            self.effects.push(Effect::Revoked(revoked));
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

    /// Makes the table lane due at once, and a pending leave as well.
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
        // Half of the renew deadline, so that a request that hangs leaves time for another.
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
