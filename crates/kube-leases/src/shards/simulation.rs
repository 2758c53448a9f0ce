//! Groups with clocks that differ, messages that are lost and late, replicas that join, leave, pause and die.
//! After every event it is checked that no slot has two owners; after calm, that all are owned and evenly so.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::machine::{
    Effect, Lane, Machine, MemberSeen, Request, Response, Rules, Snapshot, Step, TableSeen,
};
use crate::simulator::{Agenda, Clock, Time, up_to};

const SLOTS: usize = 16;

enum Event {
    /// The node, its life, and the number of the poll: only the last one planned counts.
    Poll(usize, u64, u64),
    Arrive(usize, u64, Lane, u64, Request, Sender),
    Response(usize, u64, Lane, u64, Response),
    Drained(usize, u64, usize, u64),
    Trouble,
}

/// Who sent a request: a late one still bears the name of the life that sent it.
struct Sender {
    member: String,
    process: String,
}

struct Node {
    machine: Machine,
    clock: Clock,
    member: String,
    process: String,
    /// Which life of the node this is; what belongs to an earlier one is void.
    life: u64,
    /// The number of the request in each lane; responses to earlier ones come too late.
    flights: [u64; 2],
    polls: u64,
    asleep_until: Time,
    alive: bool,
    leaving: bool,
}

struct World {
    rng: fastrand::Rng,
    agenda: Agenda<Event>,
    nodes: Vec<Node>,
    members: BTreeMap<String, MemberSeen>,
    table: Option<TableSeen>,
    history: Vec<Snapshot>,
    counter: u64,
    rules: Rules,
    origin: Instant,
    rates: (f64, f64),
    trouble: bool,
    /// How often a slot got another owner than before.
    moves: usize,
    owners: Vec<Option<usize>>,
    requests: usize,
}

impl World {
    fn new(seed: u64, rates: (f64, f64)) -> World {
        let mut world = World {
            rng: fastrand::Rng::with_seed(seed),
            agenda: Agenda::new(),
            nodes: Vec::new(),
            members: BTreeMap::new(),
            table: None,
            history: Vec::new(),
            counter: 0,
            rules: Rules {
                slots: SLOTS,
                lease: Duration::from_secs(30),
                renew: Duration::from_secs(20),
                retry: Duration::from_secs(5),
            },
            origin: Instant::now(),
            rates,
            trouble: true,
            moves: 0,
            owners: vec![None; SLOTS],
            requests: 0,
        };
        let count = world.rng.usize(2..=5);
        for number in 0..count {
            let node = world.node(number, 0);
            world.nodes.push(node);
            let at = up_to(&mut world.rng, 60_000);
            world.agenda.add(at, Event::Poll(number, 0, 0));
        }
        world.agenda.add(Duration::from_secs(20), Event::Trouble);
        world
    }

    fn node(&mut self, number: usize, life: u64) -> Node {
        let offset = Duration::from_secs(self.rng.u64(0..100_000));
        let rate = self.rates.0 + self.rng.f64() * (self.rates.1 - self.rates.0);
        let clock = Clock::new(self.origin, offset, rate);
        // Some come back under their old name, some under another.
        let member = format!("node-{number}-{}", self.rng.u8(0..3) / 2);
        self.counter += 1;
        let process = format!("process-{}", self.counter);
        Node {
            machine: Machine::new(
                self.rules.clone(),
                member.clone(),
                process.clone(),
                clock.local(Duration::ZERO),
            ),
            clock,
            member,
            process,
            life,
            flights: [0, 0],
            polls: 0,
            asleep_until: Duration::ZERO,
            alive: true,
            leaving: false,
        }
    }

    fn run(&mut self, end: Time) -> Result<(), String> {
        while let Some((now, event)) = self.agenda.next() {
            if now > end {
                self.agenda.add(now, event);
                return Ok(());
            }
            self.handle(now, event);
            self.check(now)?;
        }
        Ok(())
    }

    fn owners_of(&self, slot: usize, now: Time) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|number| {
                let node = &self.nodes[*number];
                node.alive && node.machine.owns(slot, node.clock.local(now))
            })
            .collect()
    }

    fn check(&mut self, now: Time) -> Result<(), String> {
        let clocks: Vec<Instant> = self.nodes.iter().map(|node| node.clock.local(now)).collect();
        for slot in 0..SLOTS {
            let mut owner = None;
            for (number, node) in self.nodes.iter().enumerate() {
                if node.alive && node.machine.owns(slot, clocks[number]) {
                    if let Some(first) = owner {
                        return Err(format!("at {now:?} slot {slot} is owned by {first} and {number}"));
                    }
                    owner = Some(number);
                }
            }
            if owner.is_some() && self.owners[slot] != owner {
                self.owners[slot] = owner;
                self.moves += 1;
            }
        }
        Ok(())
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Poll(number, life, poll) => {
                if self.is_due(number, life, now, || Event::Poll(number, life, poll))
                    && self.nodes[number].polls == poll
                {
                    self.poll(number, now);
                }
            }
            Event::Arrive(number, life, lane, flight, request, sender) => {
                self.requests += 1;
                let response = self.serve(request, sender);
                if !self.is_lost() {
                    let at = now + self.delay();
                    self.agenda
                        .add(at, Event::Response(number, life, lane, flight, response));
                }
            }
            Event::Response(number, life, lane, flight, response) => {
                let again = response.clone();
                if self.is_due(number, life, now, || {
                    Event::Response(number, life, lane, flight, again)
                }) && self.nodes[number].flights[lane as usize] == flight
                {
                    let node = &mut self.nodes[number];
                    node.flights[lane as usize] += 1;
                    node.machine.response(node.clock.local(now), lane, response);
                    self.poll(number, now);
                }
            }
            Event::Drained(number, life, slot, drain) => {
                if self.is_due(number, life, now, || Event::Drained(number, life, slot, drain)) {
                    self.nodes[number].machine.drained(slot, drain);
                    self.poll(number, now);
                }
            }
            Event::Trouble => self.make_trouble(now),
        }
    }

    fn is_due(&mut self, number: usize, life: u64, now: Time, event: impl FnOnce() -> Event) -> bool {
        let node = &self.nodes[number];
        if !node.alive || node.life != life {
            return false;
        }
        if node.asleep_until > now {
            self.agenda.add(node.asleep_until, event());
            return false;
        }
        true
    }

    fn poll(&mut self, number: usize, now: Time) {
        let rng = self.rng.f64();
        let node = &mut self.nodes[number];
        let life = node.life;
        let Step {
            effects,
            requests,
            wake,
        } = node.machine.poll(node.clock.local(now), rng);
        node.polls += 1;
        match wake {
            Some(wake) => {
                let at = node.clock.when(wake, now);
                self.agenda.add(at, Event::Poll(number, life, node.polls));
            }
            None => node.alive = false,
        }
        for effect in effects {
            if let Effect::Giving(slots, drain) = effect {
                for slot in slots {
                    let at = now + up_to(&mut self.rng, 8000);
                    self.agenda.add(at, Event::Drained(number, life, slot, drain));
                }
            }
        }
        for (lane, request, deadline) in requests {
            let node = &mut self.nodes[number];
            node.flights[lane as usize] += 1;
            let flight = node.flights[lane as usize];
            let timeout = node.clock.when(deadline, now);
            self.agenda.add(
                timeout,
                Event::Response(number, life, lane, flight, Response::Unknown),
            );
            if !self.is_lost() {
                let at = now + self.delay();
                let node = &self.nodes[number];
                let sender = Sender {
                    member: node.member.clone(),
                    process: node.process.clone(),
                };
                self.agenda
                    .add(at, Event::Arrive(number, life, lane, flight, request, sender));
            }
        }
    }

    fn serve(&mut self, request: Request, sender: Sender) -> Response {
        if self.trouble && self.rng.u8(0..100) < 3 {
            return Response::Refused;
        }
        self.counter += 1;
        let version = self.counter.to_string();
        let Sender { member, process } = sender;
        match request {
            Request::Join => {
                if self.members.contains_key(&member) {
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
                self.members.insert(member, seen.clone());
                Response::Member(seen)
            }
            Request::Renew {
                version: old,
                leaving,
                number,
            } => match self.members.get_mut(&member) {
                Some(seen) if seen.version == old => {
                    seen.version = version;
                    seen.leaving = leaving;
                    seen.renewals = number;
                    Response::Member(seen.clone())
                }
                Some(_) => Response::Conflict,
                None => Response::Missing,
            },
            Request::LookAtSelf => match self.members.get(&member) {
                Some(seen) => Response::Member(seen.clone()),
                None => Response::Missing,
            },
            Request::Leave { uid, version } => self.delete(&member, &uid, &version),
            Request::Evict { name, uid, version } => self.delete(&name, &uid, &version),
            Request::List => {
                let snapshot = Snapshot {
                    table: self.table.clone(),
                    members: self.members.values().cloned().collect(),
                };
                self.history.push(snapshot.clone());
                // A stale read: an earlier response.
                match self.trouble && self.rng.u8(0..100) < 3 {
                    true => {
                        let from = self.history.len().saturating_sub(20);
                        let place = self.rng.usize(from..self.history.len());
                        Response::Snapshot(self.history[place].clone())
                    }
                    false => Response::Snapshot(snapshot),
                }
            }
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

    fn delete(&mut self, name: &str, uid: &str, version: &str) -> Response {
        match self.members.get(name) {
            Some(seen) if seen.uid == uid && seen.version == version => {
                self.members.remove(name);
                Response::Deleted
            }
            Some(_) => Response::Conflict,
            None => Response::Missing,
        }
    }

    fn is_lost(&mut self) -> bool {
        self.trouble && self.rng.u8(0..100) < 8
    }

    fn delay(&mut self) -> Duration {
        match self.trouble && self.rng.u8(0..100) < 5 {
            true => up_to(&mut self.rng, 80_000),
            false => up_to(&mut self.rng, 50),
        }
    }

    fn make_trouble(&mut self, now: Time) {
        if !self.trouble {
            return;
        }
        let number = self.rng.usize(0..self.nodes.len());
        match self.rng.u8(0..7) {
            // Somebody deletes a member's Lease, perhaps of one that is well.
            6 => {
                let names: Vec<String> = self.members.keys().cloned().collect();
                if let Some(name) = self.rng.choice(&names) {
                    self.members.remove(name);
                }
            }
            0 | 1 => self.nodes[number].asleep_until = now + up_to(&mut self.rng, 80_000),
            // Dies without a word, and another life begins later.
            2 | 3 => self.replace(number, now),
            4 if self.nodes[number].alive && self.nodes[number].asleep_until <= now => {
                self.nodes[number].leaving = true;
                self.nodes[number].machine.leave();
                self.poll(number, now);
            }
            _ => {
                // Somebody edits Leases: versions change, and nothing else.
                self.counter += 1;
                let version = self.counter.to_string();
                if let Some(table) = &mut self.table {
                    table.version = version.clone();
                }
                if let Some(member) = self.members.values_mut().next() {
                    member.version = version;
                }
                // One that has left comes back.
                if self.nodes[number].leaving && !self.nodes[number].alive {
                    self.replace(number, now);
                }
            }
        }
        let at = now + up_to(&mut self.rng, 40_000);
        self.agenda.add(at, Event::Trouble);
    }

    fn replace(&mut self, number: usize, now: Time) {
        let life = self.nodes[number].life + 1;
        let mut node = self.node(number, life);
        node.asleep_until = now + up_to(&mut self.rng, 60_000);
        self.agenda.add(node.asleep_until, Event::Poll(number, life, 0));
        self.nodes[number] = node;
    }
}

/// Ten minutes of trouble, then calm.
fn simulate(seed: u64, rates: (f64, f64)) -> Result<World, String> {
    let mut world = World::new(seed, rates);
    world.run(Duration::from_secs(600))?;
    world.trouble = false;
    // What is under way may still take 80 s; a dead member is noticed after a lease duration at most twice, since its
    // eviction may have been lost; then slots move.
    let calm = Duration::from_secs(600 + 80 + 4 * 30 + 60);
    world.run(calm)?;
    let alive: Vec<usize> = (0..world.nodes.len())
        .filter(|number| world.nodes[*number].alive && !world.nodes[*number].leaving)
        .collect();
    if alive.is_empty() {
        return Ok(world);
    }
    let mut counts = vec![0; world.nodes.len()];
    for slot in 0..SLOTS {
        match world.owners_of(slot, calm).as_slice() {
            [owner] => counts[*owner] += 1,
            [] => {
                return Err(format!(
                    "slot {slot} has no owner after calm; table {:?}",
                    world.nodes[alive[0]].machine.table()
                ));
            }
            _ => return Err(format!("slot {slot} has two owners")),
        }
    }
    let most = alive.iter().map(|number| counts[*number]).max();
    let least = alive.iter().map(|number| counts[*number]).min();
    if most > least.map(|least| least + 1) {
        return Err(format!("uneven after calm: {counts:?} among {alive:?}"));
    }
    Ok(world)
}

/// The factor of rates stays below lease duration / renew deadline = 1.5.
fn no_slot_has_two_owners(seeds: std::ops::Range<u64>) {
    let count = seeds.clone().count();
    let mut moves = 0;
    for seed in seeds {
        match simulate(seed, (0.82, 1.2)) {
            Ok(world) => moves += world.moves,
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    assert!(
        moves > count * SLOTS * 2,
        "slots must move, or nothing was tested: {moves}"
    );
}

#[test]
fn no_slot_ever_has_two_owners_and_after_calm_all_are_owned_evenly() {
    no_slot_has_two_owners(0..150);
}

#[test]
#[ignore = "takes minutes: for changes of the rules"]
fn no_slot_ever_has_two_owners_in_many_more_schedules() {
    no_slot_has_two_owners(150..20_000);
}

/// The simulator would notice: with clocks beyond the documented bound the promise breaks.
#[test]
fn clocks_beyond_the_bound_do_give_a_slot_two_owners() {
    let breaks = |seed| simulate(seed, (0.4, 2.5)).is_err_and(|problem| problem.contains("is owned by"));
    assert!((0..300).any(breaks));
}

/// The numbers in the documentation: one renewal and one list per member and retry period, whatever the slots.
#[test]
fn a_calm_group_costs_two_requests_per_member_and_retry_period() {
    let mut world = World::new(7, (1.0, 1.0));
    world.trouble = false;
    world.run(Duration::from_secs(200)).unwrap();
    let members = world.nodes.len();
    world.requests = 0;

    world.run(Duration::from_secs(1200)).unwrap();

    let expected = members * 2 * 1000 / 5;
    let actual = world.requests;
    assert!(
        actual.abs_diff(expected) < expected / 20,
        "{actual} requests, {expected} expected"
    );
}
