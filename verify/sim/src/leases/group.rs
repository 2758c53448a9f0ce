//! A shard group: no slot has two owners.
//!
//! `G1` never two owners of one slot, as long as the rates of clocks differ by less than the documented bound. `G2` after the
//! faults every slot has an owner, and the members that are left own about the same number.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_leases::sim::shards::{
    Effect, Lane, Machine, MemberSeen, Request, Response, Rules, Snapshot, Step, TableSeen,
};
use tokio::time::Instant;

use super::{Agenda, Clock, Link, Model, Time, noise, play, up_to};
use crate::invariants::{Check, violated};
use crate::tape::{Kind, Op, Settings, Tape};
use crate::world::Outcome;

const SLOTS: usize = 16;
const LEASE: Duration = Duration::from_secs(30);
/// The longest delay of a message that a tape has.
pub(crate) const LONGEST_DELAY: u32 = 80_000;
/// How long it may take until the slots are owned evenly: what is under way arrives; a dead member is noticed after a lease duration
/// at most twice, since its eviction may have been lost; then slots move.
const HEAL: Duration = Duration::from_secs(LONGEST_DELAY as u64 / 1000 + 4 * 30 + 60);
/// The lists that a stale read can return.
const HISTORY: usize = 20;

/// Runs a tape.
pub fn run(tape: &Tape, with_journal: bool) -> Outcome {
    play(&mut Group::new(&tape.settings), tape, with_journal)
}

enum Event {
    /// The member, its life, and the number of the poll: only the last one planned counts.
    Poll(usize, u64, u64),
    Arrive(usize, u64, Lane, u64, Request, Sender),
    Response(usize, u64, Lane, u64, Response),
    Drained(usize, u64, usize, u64),
}

/// Who sent a request: a late one still bears the name of the life that sent it.
struct Sender {
    member: String,
    process: String,
}

struct Member {
    machine: Machine,
    clock: Clock,
    name: String,
    process: String,
    /// Which life this is; what belongs to an earlier one is void.
    life: u64,
    /// The number of the request in each lane; responses to earlier ones come too late.
    flights: [u64; 2],
    polls: u64,
    asleep_until: Time,
    alive: bool,
    leaving: bool,
}

struct Group {
    settings: Settings,
    rules: Rules,
    start: Instant,
    now: Time,
    agenda: Agenda<Event>,
    members: Vec<Member>,
    links: Vec<Link>,
    /// The Leases of the members, and that of the table.
    leases: BTreeMap<String, MemberSeen>,
    table: Option<TableSeen>,
    history: Vec<Snapshot>,
    versions: u64,
    owners: Vec<Option<usize>>,
    /// How often a slot got another owner than before.
    moves: u64,
}

impl Group {
    fn new(settings: &Settings) -> Self {
        let count = settings.processes.max(1) as usize;
        let mut group = Self {
            settings: settings.clone(),
            rules: Rules {
                slots: SLOTS,
                lease: LEASE,
                renew: Duration::from_secs(20),
                retry: Duration::from_secs(5),
            },
            start: Instant::now(),
            now: Time::ZERO,
            agenda: Agenda::new(),
            members: Vec::new(),
            links: vec![Link::default(); count],
            leases: BTreeMap::new(),
            table: None,
            history: Vec::new(),
            versions: 0,
            owners: vec![None; SLOTS],
            moves: 0,
        };
        for number in 0..count {
            let member = group.member(number, 0);
            group.members.push(member);
            let at = up_to(&mut noise(settings, number, 0), 30_000);
            group.agenda.add(at, Event::Poll(number, 0, 0));
        }
        group
    }

    fn member(&mut self, number: usize, life: u64) -> Member {
        let mut rng = noise(&self.settings, number, u64::MAX - life);
        let clock = Clock::new(self.start, &self.settings, &mut rng);
        // Some come back under their old name, some under another.
        let name = format!("member-{number}-{}", rng.u8(0..3) / 2);
        let process = format!("process-{number}-{life}");
        Member {
            machine: Machine::new(
                self.rules.clone(),
                name.clone(),
                process.clone(),
                clock.local(self.now),
            ),
            clock,
            name,
            process,
            life,
            flights: [0, 0],
            polls: 0,
            asleep_until: self.now,
            alive: true,
            leaving: false,
        }
    }

    /// Dies without a word, and another life begins later.
    fn replace(&mut self, number: usize, after: Duration) {
        let life = self.members[number].life + 1;
        let mut member = self.member(number, life);
        member.asleep_until = self.now + after;
        self.agenda.add(member.asleep_until, Event::Poll(number, life, 0));
        self.members[number] = member;
    }

    fn run_until(&mut self, end: Time) -> Check {
        while let Some((at, event)) = self.agenda.next(end) {
            self.now = at;
            self.handle(event);
            self.g1_no_slot_has_two_owners()?;
        }
        self.now = end;
        self.g1_no_slot_has_two_owners()
    }

    fn g1_no_slot_has_two_owners(&mut self) -> Check {
        let now = self.now;
        let mut owners = [None; SLOTS];
        for (number, member) in self.members.iter().enumerate().filter(|(_, member)| member.alive) {
            let local = member.clock.local(now);
            for (slot, owner) in owners.iter_mut().enumerate() {
                if member.machine.owns(slot, local)
                    && let Some(first) = owner.replace(number)
                {
                    let detail = format!("at {now:?} slot {slot} is owned by {first} and {number}");
                    return violated("G1", detail);
                }
            }
        }
        for (before, owner) in self.owners.iter_mut().zip(owners) {
            if owner.is_some() && *before != owner {
                *before = owner;
                self.moves += 1;
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        let (number, life) = match &event {
            Event::Poll(number, life, _)
            | Event::Response(number, life, ..)
            | Event::Drained(number, life, ..) => (*number, *life),
            Event::Arrive(..) => return self.arrive(event),
        };
        let member = &mut self.members[number];
        if !member.alive || member.life != life {
            return;
        }
        if member.asleep_until > self.now {
            return self.agenda.add(member.asleep_until, event);
        }
        match event {
            Event::Poll(_, _, poll) if member.polls != poll => return,
            Event::Response(_, _, lane, flight, response) => {
                if member.flights[lane as usize] != flight {
                    return;
                }
                member.flights[lane as usize] += 1;
                let local = member.clock.local(self.now);
                member.machine.response(local, lane, response);
            }
            Event::Drained(_, _, slot, drain) => member.machine.drained(slot, drain),
            _ => {}
        }
        self.poll(number);
    }

    fn arrive(&mut self, event: Event) {
        let Event::Arrive(number, life, lane, flight, request, sender) = event else {
            return;
        };
        let response = match self.links[number].is_refused() {
            true => Response::Refused,
            false => self.serve(number, request, sender),
        };
        if let Some(delay) = self.links[number].sends(&self.settings, number) {
            let response = Event::Response(number, life, lane, flight, response);
            self.agenda.add(self.now + delay, response);
        }
    }

    fn poll(&mut self, number: usize) {
        let now = self.now;
        let member = &mut self.members[number];
        let life = member.life;
        member.polls += 1;
        let mut rng = noise(&self.settings, number, life << 48 | member.polls << 16);
        let Step {
            effects,
            requests,
            wake,
        } = member.machine.poll(member.clock.local(now), rng.f64());
        match wake {
            Some(wake) => {
                let at = member.clock.when(wake, now);
                self.agenda.add(at, Event::Poll(number, life, member.polls));
            }
            None => member.alive = false,
        }
        for effect in effects {
            if let Effect::Giving(slots, drain) = effect {
                for slot in slots {
                    let at = now + up_to(&mut rng, 8000);
                    self.agenda.add(at, Event::Drained(number, life, slot, drain));
                }
            }
        }
        for (lane, request, deadline) in requests {
            member.flights[lane as usize] += 1;
            let flight = member.flights[lane as usize];
            let timeout = member.clock.when(deadline, now);
            let unknown = Event::Response(number, life, lane, flight, Response::Unknown);
            self.agenda.add(timeout, unknown);
            if let Some(delay) = self.links[number].sends(&self.settings, number) {
                let sender = Sender {
                    member: member.name.clone(),
                    process: member.process.clone(),
                };
                let arrive = Event::Arrive(number, life, lane, flight, request, sender);
                self.agenda.add(now + delay, arrive);
            }
        }
    }

    fn serve(&mut self, number: usize, request: Request, sender: Sender) -> Response {
        self.versions += 1;
        let version = self.versions.to_string();
        let Sender { member, process } = sender;
        match request {
            Request::Join => {
                if self.leases.contains_key(&member) {
                    return Response::Conflict;
                }
                let seen = MemberSeen {
                    name: member.clone(),
                    member: member.clone(),
                    uid: format!("uid-{version}"),
                    version,
                    process,
                    leaving: false,
                    renewals: 0,
                    lease: Some(self.rules.lease),
                    malformed: None,
                };
                self.leases.insert(member, seen.clone());
                Response::Member(seen)
            }
            Request::Renew {
                version: old,
                leaving,
                number,
            } => match self.leases.get_mut(&member) {
                Some(seen) if seen.version == old => {
                    seen.version = version;
                    seen.leaving = leaving;
                    seen.renewals = number;
                    Response::Member(seen.clone())
                }
                Some(_) => Response::Conflict,
                None => Response::Missing,
            },
            Request::LookAtSelf => match self.leases.get(&member) {
                Some(seen) => Response::Member(seen.clone()),
                None => Response::Missing,
            },
            Request::Leave { uid, version } => self.delete(&member, &uid, &version),
            Request::Evict { name, uid, version } => self.delete(&name, &uid, &version),
            Request::List => self.list(number),
            Request::WriteTable { table, version: old } => {
                let uid = match (&self.table, old) {
                    (Some(seen), Some(old)) if seen.version == old => seen.uid.clone(),
                    (None, None) => format!("uid-{version}"),
                    (Some(_), _) => return Response::Conflict,
                    (None, Some(_)) => return Response::Missing,
                };
                self.table = Some(TableSeen {
                    table,
                    uid: uid.clone(),
                    version: version.clone(),
                });
                Response::TableWritten { uid, version }
            }
        }
    }

    fn list(&mut self, number: usize) -> Response {
        if self.history.len() == HISTORY {
            self.history.remove(0);
        }
        self.history.push(Snapshot {
            table: self.table.clone(),
            members: self.leases.values().cloned().collect(),
        });
        let back = self.links[number].stale.take().unwrap_or(0) as usize;
        let at = self.history.len().saturating_sub(1 + back);
        Response::Snapshot(self.history[at].clone())
    }

    fn delete(&mut self, name: &str, uid: &str, version: &str) -> Response {
        match self.leases.get(name) {
            Some(seen) if seen.uid == uid && seen.version == version => {
                self.leases.remove(name);
                Response::Deleted
            }
            Some(_) => Response::Conflict,
            None => Response::Missing,
        }
    }

    fn g2_all_slots_are_owned_evenly(&self) -> Check {
        let left = |member: &Member| member.alive && !member.leaving;
        let mut counts: BTreeMap<usize, usize> = (self.members.iter().enumerate())
            .filter(|(_, member)| left(member))
            .map(|(number, _)| (number, 0))
            .collect();
        if counts.is_empty() {
            return Ok(());
        }
        for slot in 0..SLOTS {
            let owns =
                |member: &Member| member.alive && member.machine.owns(slot, member.clock.local(self.now));
            let owner = self.members.iter().position(owns);
            match owner.and_then(|owner| counts.get_mut(&owner)) {
                Some(count) => *count += 1,
                None => {
                    return violated(
                        "G2",
                        format!("slot {slot} belongs to {owner:?} {HEAL:?} after the faults"),
                    );
                }
            }
        }
        let most = counts.values().max();
        let least = counts.values().min();
        if most > least.map(|least| least + 1).as_ref() {
            return violated(
                "G2",
                format!("unevenly owned {HEAL:?} after the faults: {counts:?}"),
            );
        }
        Ok(())
    }
}

impl Model for Group {
    fn perform(&mut self, op: Op) {
        let number = op.a as usize % self.members.len();
        let after = Duration::from_millis(op.b.into());
        match op.kind {
            Kind::Pause => self.members[number].asleep_until = self.now + after,
            Kind::Kill => self.replace(number, after),
            Kind::Retire => {
                let member = &mut self.members[number];
                if member.alive && member.asleep_until <= self.now {
                    member.leaving = true;
                    member.machine.leave();
                    self.poll(number);
                }
            }
            // Versions change, and nothing else.
            Kind::EditLease => {
                self.versions += 1;
                let version = self.versions.to_string();
                if let Some(table) = &mut self.table {
                    table.version.clone_from(&version);
                }
                let count = self.leases.len().max(1);
                if let Some(lease) = self.leases.values_mut().nth(op.a as usize % count) {
                    lease.version = version;
                }
            }
            // Perhaps of one that is well.
            Kind::DeleteLease => {
                let count = self.leases.len().max(1);
                if let Some(name) = self.leases.keys().nth(op.a as usize % count).cloned() {
                    self.leases.remove(&name);
                }
            }
            _ => {
                self.links[number].fault(op);
            }
        }
    }

    fn advance(&mut self, by: Duration) -> Check {
        self.run_until(self.now + by)
    }

    fn heal(&mut self) -> Check {
        self.links.iter_mut().for_each(Link::heal);
        for member in &mut self.members {
            member.asleep_until = member.asleep_until.min(self.now);
        }
        self.run_until(self.now + HEAL)?;
        self.g2_all_slots_are_owned_evenly()
    }

    fn observed(&self) -> (Time, u64) {
        (self.now, self.versions * 4096 + self.moves)
    }

    fn describe(&self) -> String {
        let alive = self.members.iter().filter(|member| member.alive).count();
        let (leases, moves) = (self.leases.len(), self.moves);
        format!(
            "{alive} members, {leases} leases, {moves} moves, {} requests",
            self.versions
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Profile;
    use crate::leases::tests::played;

    fn moves(seed: u64, clocks: Option<u32>) -> Result<u64, &'static str> {
        played(Group::new, Profile::Group, seed, clocks).map(|group| group.moves)
    }

    #[test]
    fn slots_move_or_nothing_was_tested() {
        let moves: Vec<u64> = (0..30)
            .map(|seed| moves(seed, None).expect("no violation"))
            .collect();
        let sum: u64 = moves.iter().sum();
        assert!(sum > 30 * 2 * SLOTS as u64, "{sum} moves in 30 groups");
    }

    /// With clocks beyond the documented bound the promise breaks, and the simulator notices.
    #[test]
    fn clocks_beyond_the_bound_give_a_slot_two_owners() {
        assert!((0..300).any(|seed| moves(seed, Some(2)) == Err("G1")));
    }

    /// The numbers in the documentation: one renewal and one list per member and retry period, whatever the slots.
    #[test]
    fn a_calm_group_costs_two_requests_per_member_and_retry_period() {
        let mut group = Group::new(&Settings {
            processes: 3,
            ..Settings::default()
        });
        group.advance(Duration::from_secs(200)).expect("no violation");
        let before = group.versions;

        group.advance(Duration::from_secs(1000)).expect("no violation");

        let (requests, expected) = (group.versions - before, 3 * 2 * 1000 / 5);
        assert!(
            requests.abs_diff(expected) < expected / 20,
            "{requests} requests, {expected} expected"
        );
    }
}
