//! Executes the decisions of the state machine: sends requests, passes the time, publishes the candidate's state.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::machine::{Machine, Next, Request, Response};
use crate::error::{Failure, LeaseError};
use crate::record::{LeaseState, Record, new_lease, set_labels, set_version};
use crate::wire::Leases;

/// The published state of a candidate.
#[derive(Clone, Default)]
pub(super) struct CandidateState {
    /// The holder as last seen.
    pub(super) holder: Option<String>,
    /// Set while this candidate leads.
    pub(super) term: Option<Arc<Term>>,
    /// Why the last attempt failed, if it did.
    pub(super) error: Option<LeaseError>,
}

/// One term of leadership, from election to loss.
pub(super) struct Term {
    pub(super) ended: CancellationToken,
    limits: Mutex<Limits>,
}

/// The limits of a term if no further renewal succeeds.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The term ends.
    pub(super) leads_until: Instant,
    /// Another candidate may lead.
    pub(super) safe_until: Instant,
}

impl Term {
    pub(super) fn limits(&self) -> Limits {
        *self.limits.lock()
    }
}

/// Performs requests for the Lease.
pub(super) struct Wire {
    pub(super) leases: Leases,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    /// The document as last read, so that fields of others are kept.
    pub(super) last: Option<Value>,
}

pub(super) struct Driver {
    pub(super) machine: Machine,
    pub(super) wire: Wire,
    pub(super) wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    pub(super) stop: CancellationToken,
    pub(super) standing: watch::Sender<CandidateState>,
    pub(super) term: Option<Arc<Term>>,
}

impl Driver {
    /// Runs until it was stopped and has released the Lease.
    pub(super) async fn run(mut self) {
        let mut stopping = false;
        loop {
            if self.stop.is_cancelled() {
                stopping = true;
                self.machine.stop(Instant::now());
            }
            let next = self
                .machine
                .poll(Instant::now(), crate::record::timestamp((self.wall)()));
            self.publish();

            let stop = self.stop.clone();
            match next {
                Next::Done => return,
                // Both branches are cancel-safe: a sleep and a token.
                Next::Wait(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = stop.cancelled(), if !stopping => {}
                },
                Next::Send { request, deadline } => {
                    // A write that is cancelled here may have taken effect, so its outcome is unknown.
                    let response = tokio::select! {
                        response = self.wire.perform(&request, deadline) => response,
                        () = stop.cancelled(), if !stopping => Ok(Response::Unknown),
                    };
                    let response = self.on_response(response);
                    self.machine.response(Instant::now(), fastrand::f64(), response);
                    self.publish();
                }
            }
        }
    }

    /// Records a failure and maps it to a response for the machine.
    fn on_response(&mut self, response: Result<Response, LeaseError>) -> Response {
        let error = match response {
            Ok(response) => {
                let malformed = self.wire.malformed(&response);
                if let Some(error) = &malformed {
                    warn!(%error, "the lease of the election is malformed");
                }
                self.standing.send_if_modified(|standing| {
                    let reported = malformed.is_some() && standing.error.is_none();
                    standing.error = malformed;
                    reported
                });
                return response;
            }
            Err(error) => error,
        };
        let meaning = match &error.failure {
            Failure::NotFound if error.verb != "create" => return Response::Missing,
            Failure::Conflict | Failure::Exists => return Response::Conflict,
            failure if failure.is_final() => Response::Refused,
            _ => Response::Unknown,
        };
        warn!(%error, "request for the lease of the election failed");
        self.standing.send_modify(|standing| standing.error = Some(error));
        meaning
    }

    fn publish(&mut self) {
        let now = Instant::now();
        let holder = self.machine.holder().map(str::to_owned);
        let limits = match (self.machine.leads_until(), self.machine.safe_until()) {
            (Some(leads_until), Some(safe_until)) if now < leads_until => Some(Limits {
                leads_until,
                safe_until,
            }),
            _ => None,
        };
        match (limits, &self.term) {
            (Some(limits), Some(term)) => *term.limits.lock() = limits,
            (Some(limits), None) => {
                info!("leading");
                self.term = Some(Arc::new(Term {
                    ended: CancellationToken::new(),
                    limits: Mutex::new(limits),
                }));
            }
            (None, Some(term)) => {
                if !self.stop.is_cancelled() {
                    warn!(
                        holder = holder.as_deref().unwrap_or_default(),
                        "no longer leading"
                    );
                }
                // Another candidate holds the Lease already, so no time is left to finish.
                if self.machine.is_of_another() {
                    let mut limits = term.limits.lock();
                    limits.leads_until = limits.leads_until.min(now);
                    limits.safe_until = limits.safe_until.min(now);
                }
                self.end_term();
            }
            (None, None) => {}
        }
        let term = self.term.clone();
        self.standing.send_if_modified(|standing| {
            let same_term = match (&standing.term, &term) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (None, None) => true,
                _ => false,
            };
            let same = same_term && standing.holder == holder;
            if standing.holder != holder {
                debug!(
                    holder = holder.as_deref().unwrap_or_default(),
                    "the holder has changed"
                );
            }
            standing.term = term;
            standing.holder = holder;
            !same
        });
    }

    fn end_term(&mut self) {
        if let Some(term) = self.term.take() {
            term.ended.cancel();
        }
    }
}

impl Drop for Driver {
    /// However the driver ends, this candidate does not go on leading.
    fn drop(&mut self) {
        self.end_term();
        let wire = &self.wire;
        self.standing.send_modify(|standing| {
            standing.term = None;
            if std::thread::panicking() {
                standing.error = Some(wire.leases.error("update", Some(&wire.name), Failure::Panicked));
            }
        });
    }
}

impl Wire {
    async fn perform(&mut self, request: &Request, deadline: Instant) -> Result<Response, LeaseError> {
        match request {
            Request::Get => match self.leases.get(&self.name, deadline).await {
                Ok(lease) => {
                    let seen = self.seen("get", &lease)?;
                    self.last = Some(lease);
                    Ok(Response::Found(seen))
                }
                Err(error) => Err(error),
            },
            Request::Create(record) => {
                let mut lease = new_lease(&self.namespace, &self.name, []);
                set_labels(&mut lease, labels(&self.labels));
                record.write(&mut lease);
                let written = self.leases.create(&lease, deadline).await?;
                self.written("create", record, written)
            }
            Request::Update { record, version } => {
                let mut lease = match &self.last {
                    Some(last) => last.clone(),
                    None => new_lease(&self.namespace, &self.name, []),
                };
                set_labels(&mut lease, labels(&self.labels));
                set_version(&mut lease, version);
                record.write(&mut lease);
                let written = self.leases.update(&self.name, &lease, deadline).await?;
                self.written("update", record, written)
            }
        }
    }

    /// A write counts only if the server stored the record: otherwise other candidates see another one.
    fn written(&mut self, verb: &'static str, record: &Record, lease: Value) -> Result<Response, LeaseError> {
        let LeaseState {
            record: stored,
            version,
        } = self.seen(verb, &lease)?;
        if stored != *record {
            return Err(self
                .leases
                .error(verb, Some(&self.name), Failure::Altered("record")));
        }
        self.last = Some(lease);
        Ok(Response::Written { version })
    }

    fn malformed(&self, response: &Response) -> Option<LeaseError> {
        let Response::Found(LeaseState { record, .. }) = response else {
            return None;
        };
        let problem = record.malformed.as_ref()?.problem;
        let failure = Failure::Malformed(format!(
            "{problem}; the lease counts as held, and is repaired once it has not changed for the lease duration"
        ));
        Some(self.leases.error("get", Some(&self.name), failure))
    }

    fn seen(&self, verb: &'static str, lease: &Value) -> Result<LeaseState, LeaseError> {
        LeaseState::read(lease).ok_or_else(|| {
            let failure = Failure::Unreadable("the lease has no resource version".to_owned());
            self.leases.error(verb, Some(&self.name), failure)
        })
    }
}

fn labels(labels: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}
