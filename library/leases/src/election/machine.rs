//! The rules of an election as a state machine: responses in, requests out.
//!
//! No I/O, no clock, no randomness: local time, wall time and jitter are passed in, and a driver performs the requests one at
//! a time. Decisions use the local monotonic time only; the wall time is written into the Lease for information.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::config::{ElectionConfig, JITTER, fraction};
use crate::record::{LeaseState, Record};

/// How many writes of unknown outcome are remembered, so that a long outage does not consume memory.
const MAX_UNSURE: usize = 32;

/// What to do next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Send this, and give up at the deadline.
    Send { request: Request, deadline: Instant },
    /// Nothing until then.
    Wait(Instant),
    /// The machine was stopped.
    Done,
}

/// A request for the Lease.
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

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The Lease as stored.
    Found(LeaseState),
    /// There is no Lease.
    Missing,
    /// The write took effect; this is the new version.
    Written { version: String },
    /// The write did not take effect: another client was faster.
    Conflict,
    /// The request was rejected and had no effect.
    Refused,
    /// Unknown: a write may have taken effect, or may still.
    Unknown,
}

/// One candidate.
pub struct Machine {
    identity: String,
    config: ElectionConfig,
    phase: Phase,
    in_flight: Option<InFlight>,
    sighting: Option<Sighting>,
    /// Writes of unknown outcome. If the Lease contains one of them, this machine holds the Lease.
    unsure: Vec<Written>,
    /// When the last renewal known to have succeeded was *sent*.
    renewed: Option<Instant>,
    /// Set by `stop`: the deadline for the release.
    stopping: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Nothing to do until then.
    Rest(Instant),
    /// Read the Lease.
    Look,
    /// Write the Lease: it is held by this machine, free or expired.
    Write,
    /// It does not exist.
    Create,
    /// Over.
    Done,
}

struct InFlight {
    sent: Instant,
    write: Option<Record>,
    /// A renewal without reading first.
    optimistic: bool,
}

/// The Lease as last read, and since when it has been unchanged.
struct Sighting {
    seen: LeaseState,
    /// The local time of the *response* that first contained this record.
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
    /// Counted from when the renewal was sent, which is before any other candidate can have observed it.
    // Differs from client-go: it counts from the start of the next attempt, a retry period and a response later.
    pub fn leads_until(&self) -> Option<Instant> {
        if self.stopping.is_some() {
            return None;
        }
        self.renewed.map(|sent| sent + self.config.renew_deadline)
    }

    /// Whether this candidate leads.
    pub fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// The earliest time another candidate may take the Lease, by this clock.
    pub fn safe_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.config.lease_duration)
    }

    /// The holder as last read, which may be this candidate.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.sighting.as_ref()?.seen.record.holder.as_str();
        (!holder.is_empty()).then_some(holder)
    }

    /// Whether the Lease was last read as free or held by another candidate.
    pub fn is_of_another(&self) -> bool {
        self.sighting.as_ref().is_some_and(|sighting| !sighting.ours)
    }

    /// Starts the shutdown: a Lease held by this candidate is released within the renew deadline. The work must have ended.
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

    /// What to do at `now`. To be called when no request is in flight.
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

    /// Processes the response to the request in flight.
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
            // The Lease was changed or deleted: what is known of it is stale.
            (Response::Conflict | Response::Missing, Some(_))
                if flight.optimistic || self.stopping.is_some() =>
            {
                Phase::Look
            }
            (Response::Unknown, Some(record)) => {
                // A forgotten write that takes effect later counts as foreign, and has to expire.
                if self.unsure.len() == MAX_UNSURE {
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
        // A leader does not wait for a response beyond the end of its term, so that it notices the end in time.
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
            // A response was lost but the write took effect: held since it was sent.
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
            // Only the record counts: a label changed by hand does not prove that the holder is alive.
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
        // The Lease is not held by this machine, so it does not lead. That includes a record with our identity that this
        // machine did not write.
        // Differs from client-go: it accepts any record with its own identity, so that two processes with one identity
        // both lead.
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
        // Writes of unknown outcome were conditional on an older version, and can no longer take effect.
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
            false => 1.0 + JITTER * fraction(jitter),
        };
        Phase::Rest(now + self.config.retry_period.mul_f64(jitter))
    }

    /// The record of a leader: renewed if this machine holds the Lease, taken over otherwise.
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

    /// The record of a released Lease, which the next candidate may take at once.
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
