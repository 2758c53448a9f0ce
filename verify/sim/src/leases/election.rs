//! An election: at most one candidate believes to lead.
//!
//! `E1` never two at once, whatever is lost and late, as long as the rates of clocks differ by less than the documented bound.
//! `E2` after the faults somebody leads within 100 s.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube_leases::ElectionConfig;
use kube_leases::sim::election::{LeaseState, Machine, Next, Record, Request, Response};
use tokio::time::Instant;

use super::{Agenda, Clock, Link, Model, Time, noise, play, up_to};
use crate::invariants::{Check, violated};
use crate::tape::{Kind, Op, Settings, Tape};
use crate::world::Outcome;

/// How long it may take until somebody leads.
const HEAL: Duration = Duration::from_secs(100);

/// Runs a tape.
pub fn run(tape: &Tape, with_journal: bool) -> Outcome {
    play(&mut Election::new(&tape.settings), tape, with_journal)
}

enum Event {
    Poll(usize, u64),
    Arrive(usize, u64, Request),
    Response(usize, u64, Response),
    Timeout(usize, u64),
}

struct Candidate {
    machine: Machine,
    clock: Clock,
    /// Wall clocks may differ by hours, too.
    wall: Timestamp,
    /// Grows with every request and every new life: what belongs to an older number comes too late.
    flight: u64,
    waiting: bool,
    asleep_until: Time,
}

struct Election {
    settings: Settings,
    config: ElectionConfig,
    start: Instant,
    now: Time,
    agenda: Agenda<Event>,
    candidates: Vec<Candidate>,
    links: Vec<Link>,
    lives: u64,
    lease: Option<(Record, u64)>,
    versions: u64,
    leader: Option<usize>,
    /// How often another candidate leads than before.
    terms: u64,
}

impl Election {
    fn new(settings: &Settings) -> Self {
        let count = settings.processes.max(1) as usize;
        let mut election = Self {
            settings: settings.clone(),
            config: ElectionConfig::default(),
            start: Instant::now(),
            now: Time::ZERO,
            agenda: Agenda::new(),
            candidates: Vec::new(),
            links: vec![Link::default(); count],
            lives: 0,
            lease: None,
            versions: 0,
            leader: None,
            terms: 0,
        };
        for number in 0..count {
            let candidate = election.candidate(number, 0);
            election.candidates.push(candidate);
            let at = up_to(&mut noise(settings, number, 0), 3000);
            election.agenda.add(at, Event::Poll(number, 0));
        }
        election
    }

    fn candidate(&mut self, number: usize, flight: u64) -> Candidate {
        self.lives += 1;
        let mut rng = noise(&self.settings, number, u64::MAX - self.lives);
        let clock = Clock::new(self.start, &self.settings, &mut rng);
        // Two in three lives of a candidate bear the same name.
        let identity = format!("candidate-{number}-{}", rng.u8(0..3) / 2);
        Candidate {
            machine: Machine::new(identity, self.config.clone(), clock.local(self.now)),
            clock,
            wall: Timestamp::from_second(rng.i64(0..2_000_000_000)).unwrap_or_default(),
            flight,
            waiting: false,
            asleep_until: self.now,
        }
    }

    /// Another life of a candidate begins after some time. The messages of the last one are still under way.
    fn replace(&mut self, number: usize, after: Duration) {
        let (flight, asleep) = {
            let before = &self.candidates[number];
            (before.flight + 1, before.asleep_until)
        };
        let mut candidate = self.candidate(number, flight);
        candidate.asleep_until = asleep.max(self.now + after);
        self.agenda
            .add(candidate.asleep_until, Event::Poll(number, flight));
        self.candidates[number] = candidate;
    }

    fn run_until(&mut self, end: Time) -> Check {
        while let Some((at, event)) = self.agenda.next(end) {
            self.now = at;
            self.handle(event);
            self.e1_at_most_one_leads()?;
        }
        self.now = end;
        self.e1_at_most_one_leads()
    }

    fn e1_at_most_one_leads(&mut self) -> Check {
        let now = self.now;
        let mut leaders = (self.candidates.iter().enumerate())
            .filter(|(_, candidate)| candidate.machine.leads(candidate.clock.local(now)))
            .map(|(number, _)| number);
        let first = leaders.next();
        if let (Some(one), Some(two)) = (first, leaders.next()) {
            return violated("E1", format!("at {now:?} both {one} and {two} believe to lead"));
        }
        if first.is_some() && first != self.leader {
            self.leader = first;
            self.terms += 1;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        let (number, flight) = match &event {
            Event::Poll(number, flight)
            | Event::Response(number, flight, _)
            | Event::Timeout(number, flight) => (*number, *flight),
            Event::Arrive(..) => return self.arrive(event),
        };
        let candidate = &self.candidates[number];
        if candidate.flight != flight {
            return;
        }
        if candidate.asleep_until > self.now {
            return self.agenda.add(candidate.asleep_until, event);
        }
        match event {
            Event::Poll(..) if candidate.waiting => {}
            Event::Poll(..) => self.poll(number),
            Event::Response(_, _, response) => self.response(number, response),
            _ => self.response(number, Response::Unknown),
        }
    }

    fn arrive(&mut self, event: Event) {
        let Event::Arrive(number, flight, request) = event else {
            return;
        };
        let response = match self.links[number].is_refused() {
            true => Response::Refused,
            false => self.serve(request),
        };
        if let Some(delay) = self.links[number].sends(&self.settings, number) {
            self.agenda
                .add(self.now + delay, Event::Response(number, flight, response));
        }
    }

    fn poll(&mut self, number: usize) {
        let now = self.now;
        let candidate = &mut self.candidates[number];
        match candidate.machine.poll(candidate.clock.local(now), candidate.wall) {
            Next::Done => {}
            Next::Wait(until) => {
                let at = candidate.clock.when(until, now);
                self.agenda.add(at, Event::Poll(number, candidate.flight));
            }
            Next::Send { request, deadline } => {
                candidate.flight += 1;
                candidate.waiting = true;
                let flight = candidate.flight;
                let timeout = candidate.clock.when(deadline, now);
                self.agenda.add(timeout, Event::Timeout(number, flight));
                if let Some(delay) = self.links[number].sends(&self.settings, number) {
                    self.agenda
                        .add(now + delay, Event::Arrive(number, flight, request));
                }
            }
        }
    }

    fn response(&mut self, number: usize, response: Response) {
        let candidate = &mut self.candidates[number];
        candidate.flight += 1;
        candidate.waiting = false;
        let jitter = noise(&self.settings, number, candidate.flight << 32).f64();
        let local = candidate.clock.local(self.now);
        candidate.machine.response(local, jitter, response);
        self.poll(number);
    }

    fn serve(&mut self, request: Request) -> Response {
        let record = match request {
            Request::Get => {
                return match &self.lease {
                    Some((record, version)) => Response::Found(LeaseState {
                        record: record.clone(),
                        version: version.to_string(),
                    }),
                    None => Response::Missing,
                };
            }
            Request::Create(record) if self.lease.is_none() => record,
            Request::Create(_) => return Response::Conflict,
            Request::Update { record, version } => match &self.lease {
                Some((_, current)) if current.to_string() == version => record,
                Some(_) => return Response::Conflict,
                None => return Response::Missing,
            },
        };
        self.versions += 1;
        self.lease = Some((record, self.versions));
        Response::Written {
            version: self.versions.to_string(),
        }
    }

    /// A clean end. What is in flight is cut off.
    fn retire(&mut self, number: usize) {
        let now = self.now;
        let candidate = &mut self.candidates[number];
        if candidate.asleep_until > now {
            return;
        }
        let local = candidate.clock.local(now);
        if candidate.waiting {
            candidate.flight += 1;
            candidate.waiting = false;
            candidate.machine.response(local, 0.5, Response::Unknown);
        }
        candidate.machine.stop(local);
        self.poll(number);
    }
}

impl Model for Election {
    fn perform(&mut self, op: Op) {
        let number = op.a as usize % self.candidates.len();
        let after = Duration::from_millis(op.b.into());
        match op.kind {
            Kind::Pause => self.candidates[number].asleep_until = self.now + after,
            Kind::Kill => self.replace(number, after),
            Kind::Retire => self.retire(number),
            // The version changes, and nothing else.
            Kind::EditLease => {
                if let Some((_, version)) = &mut self.lease {
                    self.versions += 1;
                    *version = self.versions;
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
        for number in 0..self.candidates.len() {
            self.candidates[number].asleep_until = self.now;
            self.replace(number, Duration::ZERO);
        }
        self.leader = None;
        self.run_until(self.now + HEAL)?;
        match self.leader {
            Some(_) => Ok(()),
            None => violated("E2", format!("nobody leads {HEAL:?} after the last fault")),
        }
    }

    fn observed(&self) -> (Time, u64) {
        (
            self.now,
            self.versions * 16 + self.leader.map_or(0, |leader| leader as u64 + 1),
        )
    }

    fn describe(&self) -> String {
        let leads = |candidate: &&Candidate| candidate.machine.leads(candidate.clock.local(self.now));
        let leaders = self.candidates.iter().filter(leads).count();
        let (versions, terms) = (self.versions, self.terms);
        format!(
            "{leaders} leaders, {terms} terms, {versions} writes, last {:?}",
            self.leader
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Profile;
    use crate::leases::tests::played;

    fn terms(seed: u64, clocks: Option<u32>) -> Result<u64, &'static str> {
        played(Election::new, Profile::Election, seed, clocks).map(|election| election.terms)
    }

    #[test]
    fn leaders_change_or_nothing_was_tested() {
        let terms: Vec<u64> = (0..100)
            .map(|seed| terms(seed, None).expect("no violation"))
            .collect();
        let sum: u64 = terms.iter().sum();
        assert!(sum > 300, "{sum} terms in 100 elections");
    }

    /// With clocks beyond the documented bound the promise breaks, and the simulator notices.
    #[test]
    fn clocks_beyond_the_bound_elect_two() {
        assert!((0..200).any(|seed| terms(seed, Some(2)) == Err("E1")));
    }
}
