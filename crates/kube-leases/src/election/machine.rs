//! The rules of an election as a state machine: responses in, requests out.
//!
//! No I/O, no clock, no randomness: local time, wall time and jitter are passed in, and a driver performs the requests,
//! one at a time. Decisions use the local monotonic time only; the wall clock is written for people to read.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::config::{ElectionConfig, JITTER};
use crate::record::{LeaseState, Record};

/// How many writes of unknown fate are remembered, so that a server that fails for days costs no memory.
const MOST_UNSURE: usize = 32;

/// What to do next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Send this, and give up at the deadline.
    Send { request: Request, deadline: Instant },
    /// Nothing until then.
    Wait(Instant),
    /// Nothing ever more: the machine was stopped.
    Done,
}

/// A request about the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Get,
    Create(Record),
    /// Only if the Lease is still in this version.
    Update {
        record: Record,
        version: String,
    },
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The Lease, as the server has it.
    Found(LeaseState),
    /// There is no Lease.
    Missing,
    /// The write was made, and this is the new version.
    Written { version: String },
    /// The write was not made: somebody else was faster.
    Conflict,
    /// The request was refused and did nothing.
    Refused,
    /// Nobody knows: a write may have been made, or may still be.
    Unknown,
}

/// One candidate.
pub struct Machine {
    identity: String,
    config: ElectionConfig,
    phase: Phase,
    in_flight: Option<InFlight>,
    sighting: Option<Sighting>,
    /// Writes whose fate is unknown. Found in the Lease, they prove that it is ours.
    unsure: Vec<Written>,
    /// When the last renewal known to have succeeded was *sent*.
    renewed: Option<Instant>,
    /// Set by `stop`: until when to try to release.
    stopping: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Until then there is nothing to do.
    Rest(Instant),
    /// Read the Lease.
    Look,
    /// Write the Lease: it is ours, free or expired.
    Write,
    /// It does not exist.
    Create,
    /// Over.
    Done,
}

struct InFlight {
    sent: Instant,
    write: Option<Record>,
    /// A renewal by a leader who has not read first.
    optimistic: bool,
}

/// The Lease as it was last seen, and since when it has been like that.
struct Sighting {
    seen: LeaseState,
    /// The local time of the *response* that first showed this record.
    since: Instant,
    /// This machine wrote it.
    ours: bool,
}

#[derive(Clone)]
struct Written {
    record: Record,
    sent: Instant,
}

impl Machine {
    pub fn new(identity: String, config: ElectionConfig, now: Instant) -> Self {
        Self {
            identity,
            config,
            phase: Phase::Rest(now),
            in_flight: None,
            sighting: None,
            unsure: Vec::new(),
            renewed: None,
            stopping: None,
        }
    }

    /// Until when this candidate leads without another renewal; `None` if it does not lead.
    ///
    /// Counted from the moment the renewal was sent, which is before anybody can have seen it.
    // Differs from client-go: it counts from the beginning of the next attempt, a retry period and an response later.
    pub fn leads_until(&self) -> Option<Instant> {
        if self.stopping.is_some() {
            return None;
        }
        self.renewed.map(|sent| sent + self.config.renew_deadline)
    }

    /// Whether this candidate believes to lead.
    pub fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// When another candidate may take the Lease at the earliest, by this clock.
    pub fn safe_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.config.lease_duration)
    }

    /// The holder as last seen, ourselves included.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.sighting.as_ref()?.seen.record.holder.as_str();
        (!holder.is_empty()).then_some(holder)
    }

    /// Whether the Lease was seen to be somebody else's, or nobody's.
    pub fn is_of_another(&self) -> bool {
        self.sighting.as_ref().is_some_and(|sighting| !sighting.ours)
    }

    /// Begins to end: a Lease that is ours is released, within the renew deadline. The work must have ended.
    pub fn stop(&mut self, now: Instant) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(now + self.config.renew_deadline);
        self.phase = match (
            self.config.release_on_stop,
            self.is_ours(),
            self.unsure.is_empty(),
        ) {
            (true, _, false) => Phase::Look,
            (true, true, true) => Phase::Write,
            _ => Phase::Done,
        };
    }

    /// What to do at `now`. Call it when nothing is in flight.
    pub fn poll(&mut self, now: Instant, wall: Timestamp) -> Next {
        if self.stopping.is_some_and(|deadline| now >= deadline) {
            self.phase = Phase::Done;
        }
        if self.leads_until().is_some_and(|until| now >= until) {
            self.renewed = None;
        }
        if let Phase::Rest(until) = self.phase {
            if now < until {
                return Next::Wait(self.leads_until().map_or(until, |end| until.min(end)));
            }
            self.phase = match self.stopping {
                None if self.leads(now) && self.is_ours() => Phase::Write,
                _ => Phase::Look,
            };
            let optimistic = self.phase == Phase::Write;
            return self.send(now, wall, optimistic);
        }
        self.send(now, wall, false)
    }

    /// What came of the request in flight.
    pub fn response(&mut self, now: Instant, jitter: f64, response: Response) {
        let Some(flight) = self.in_flight.take() else {
            return;
        };
        self.phase = match (response, flight.write) {
            (Response::Found(seen), None) => self.found(now, jitter, seen),
            (Response::Missing, None) => {
                self.sighting = None;
                self.unsure.clear();
                match self.stopping {
                    Some(_) => Phase::Done,
                    None => Phase::Create,
                }
            }
            (Response::Written { version }, Some(record)) => self.written(now, flight.sent, record, version),
            // The Lease has changed, or is gone: what we know of it is old.
            (Response::Conflict | Response::Missing, Some(_))
                if flight.optimistic || self.stopping.is_some() =>
            {
                Phase::Look
            }
            (Response::Unknown, Some(record)) => {
                // One that is forgotten here and made later counts as somebody else's, and is waited out.
                if self.unsure.len() == MOST_UNSURE {
                    self.unsure.remove(0);
                }
                self.unsure.push(Written {
                    record,
                    sent: flight.sent,
                });
                self.rest(now, jitter)
            }
            _ => self.rest(now, jitter),
        };
    }

    fn is_ours(&self) -> bool {
        self.sighting.as_ref().is_some_and(|sighting| sighting.ours)
    }

    fn send(&mut self, now: Instant, wall: Timestamp, optimistic: bool) -> Next {
        let request = match (self.phase, &self.sighting) {
            (Phase::Done, _) => return Next::Done,
            (Phase::Write, Some(sighting)) => Request::Update {
                record: match self.stopping {
                    Some(_) => self.released(wall, &sighting.seen.record),
                    None => self.held(wall, sighting),
                },
                version: sighting.seen.version.clone(),
            },
            (Phase::Create, _) => Request::Create(Record {
                holder: self.identity.clone(),
                lease: Some(self.config.lease_duration),
                acquired: Some(wall),
                renewed: Some(wall),
                transitions: 0,
                malformed: None,
            }),
            (Phase::Look | Phase::Rest(_) | Phase::Write, _) => Request::Get,
        };
        let write = match &request {
            Request::Get => None,
            Request::Create(record) | Request::Update { record, .. } => Some(record.clone()),
        };
        self.in_flight = Some(InFlight {
            sent: now,
            write,
            optimistic,
        });
        // A leader does not wait for an response beyond its own end, so that it notices the end when it comes.
        let deadline = now + self.config.request_timeout();
        let deadline = self.leads_until().map_or(deadline, |end| deadline.min(end));
        let deadline = self.stopping.map_or(deadline, |end| deadline.min(end));
        Next::Send { request, deadline }
    }

    fn found(&mut self, now: Instant, jitter: f64, seen: LeaseState) -> Phase {
        let written = self
            .unsure
            .iter()
            .find(|written| written.record == seen.record)
            .cloned();
        if let Some(written) = written {
            // An response was lost, but the write was made: ours since it was sent.
            self.unsure.clear();
            if !seen.record.holder.is_empty() {
                self.renewed = self.renewed.max(Some(written.sent));
            }
            let ours = !seen.record.holder.is_empty();
            self.sighting = Some(Sighting {
                seen,
                since: now,
                ours,
            });
            return match (self.stopping, ours) {
                (Some(_), false) => Phase::Done,
                _ => Phase::Write,
            };
        }
        match &mut self.sighting {
            // Only the record counts: a label changed by hand does not prove that the holder lives.
            Some(sighting) if sighting.seen.record == seen.record => sighting.seen = seen,
            _ => {
                self.sighting = Some(Sighting {
                    seen,
                    since: now,
                    ours: false,
                });
            }
        }
        let Some(sighting) = &self.sighting else {
            return Phase::Look;
        };
        if sighting.ours {
            return Phase::Write;
        }
        // Somebody else's: we do not lead, whatever we thought. A record that bears our name but was not written by
        // this machine is somebody else's, too.
        // Differs from client-go: it takes any record with its own identity for its own, so that two processes
        // with one identity both lead.
        self.renewed = None;
        if self.stopping.is_some() {
            return Phase::Done;
        }
        // Differs from client-go: it trusts a Lease that states a shorter duration than its own. One shortened by hand
        // would be taken while its holder still leads.
        let record = &sighting.seen.record;
        let lease = record.lease.unwrap_or_default().max(self.config.lease_duration);
        if record.is_free() || now >= sighting.since + lease {
            return Phase::Write;
        }
        self.rest(now, jitter)
    }

    fn written(&mut self, now: Instant, sent: Instant, record: Record, version: String) -> Phase {
        // Writes of unknown fate had an older version as their condition, and so can never be made any more.
        self.unsure.clear();
        if self.stopping.is_some() {
            return Phase::Done;
        }
        self.renewed = Some(sent);
        self.sighting = Some(Sighting {
            seen: LeaseState { record, version },
            since: now,
            ours: true,
        });
        Phase::Rest(now + self.config.retry_period)
    }

    fn rest(&self, now: Instant, jitter: f64) -> Phase {
        let jitter = match self.leads(now) || self.stopping.is_some() {
            true => 1.0,
            false => 1.0 + JITTER * jitter.clamp(0.0, 1.0),
        };
        Phase::Rest(now + self.config.retry_period.mul_f64(jitter))
    }

    /// The record of a leader: renewed if it is ours, taken if not.
    fn held(&self, wall: Timestamp, sighting: &Sighting) -> Record {
        let old = &sighting.seen.record;
        let mut record = match sighting.ours {
            true => old.clone(),
            false => Record {
                holder: self.identity.clone(),
                lease: None,
                acquired: Some(wall),
                renewed: None,
                malformed: None,
                transitions: old.transitions.saturating_add(1).min(i64::from(i32::MAX)),
            },
        };
        record.lease = Some(self.config.lease_duration);
        record.renew(wall);
        record
    }

    /// The record of nobody, which the next one may take at once.
    fn released(&self, wall: Timestamp, old: &Record) -> Record {
        Record {
            holder: String::new(),
            lease: Some(Duration::from_secs(1)),
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: old.transitions,
            malformed: None,
        }
    }
}
