//! The rules of a shard group as a state machine: responses in, requests and changes of ownership out.
//!
//! No I/O, no clock, no randomness: local time and jitter are passed in. There are two lanes of requests with at most one
//! in each: renewing the own membership must not wait for anything else. The argument why no slot has two owners is
//! in the documentation of the module above. The rules about the own Lease are in `membership.rs`, those about the table in
//! `sharing.rs`.

mod membership;
mod protocol;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

#[cfg(any(test, feature = "sim"))]
use super::table::Table;
pub use protocol::{Effect, Lane, MemberSeen, Request, Response, Rules, Snapshot, Step, TableSeen};

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
    /// How many renewals were sent.
    renewals: u64,
    /// Renewals whose fate is unknown, by their number, and when they were sent.
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
    /// Since when the server shows an older table than this.
    set_back: Option<Instant>,
    observed: BTreeMap<String, ObservedMember>,
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
    pub fn new(rules: Rules, member: String, process: String, now: Instant) -> Self {
        Self {
            slots: vec![Slot::Idle; rules.slots],
            rules,
            member,
            process,
            membership: None,
            table: None,
            set_back: None,
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
    pub fn valid_until(&self) -> Option<Instant> {
        Some(self.membership.as_ref()?.renewed? + self.rules.renew)
    }

    /// Whether work may run in a slot, or be about to end.
    #[cfg(any(test, feature = "sim"))]
    pub fn owns(&self, slot: usize, now: Instant) -> bool {
        self.is_valid(now) && matches!(self.slots[slot], Slot::Owned | Slot::Giving(_))
    }

    /// The table as last seen.
    #[cfg(any(test, feature = "sim"))]
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref().map(|seen| &seen.table)
    }

    /// Nothing runs in this slot any more; `drain` is the number that came with the wish to give it up.
    pub fn drained(&mut self, slot: usize, drain: u64) {
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
                // Others do the same at the same time; let them not do it in step.
                self.due[Lane::Table as usize] = now + self.rules.retry.mul_f64(0.8 + 0.4 * jitter);
                step.requests.push(self.send(Lane::Table, Request::List, now));
            }
        }
        step.effects = std::mem::take(&mut self.effects);
        step.wake = self.wake(now);
        step
    }

    /// What came of the request in a lane.
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
