//! Executes the decisions of a group's state machine: sends requests, opens and closes gates, publishes changes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kube_informers_core::shards::Shard;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::machine::{Effect, Lane, Machine, Request, Response, Rules};
use super::ownership::{Gates, Limits};
use super::wire::GroupWire;
use crate::error::{Failure, LeaseError};

/// A change of the shard that a replica owns.
#[derive(Debug)]
#[must_use = "dropping an unread change releases its shard"]
pub enum Change {
    /// This replica owns these from now on.
    Gained(Shard),
    /// Another replica should own these: stop using them, and drop the guard. They are released when the guard is dropped
    /// and no [`Permit`](super::Permit) is left; until then this replica still owns them.
    Giving(Shard, ReleaseGuard),
    /// This replica no longer owns these. Work on them must stop at once.
    Revoked(Shard),
}

/// Delays the release of a shard until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it releases the shard"]
pub struct ReleaseGuard {
    slots: Vec<usize>,
    drain: u64,
    confirm: mpsc::UnboundedSender<Confirmed>,
}

#[derive(Debug)]
struct Confirmed {
    slots: Vec<usize>,
    drain: u64,
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        let confirmed = Confirmed {
            slots: std::mem::take(&mut self.slots),
            drain: self.drain,
        };
        // Without a driver, nothing is owned any more.
        self.confirm.send(confirmed).ok();
    }
}

type Flight = Pin<Box<dyn Future<Output = Result<Response, LeaseError>> + Send>>;

pub(super) struct Driver {
    pub(super) machine: Machine,
    pub(super) rules: Rules,
    pub(super) wire: Arc<GroupWire>,
    pub(super) gates: Arc<Gates>,
    pub(super) stop: CancellationToken,
    pub(super) changes: mpsc::UnboundedSender<Change>,
    pub(super) error: watch::Sender<Option<LeaseError>>,
}

impl Driver {
    /// Runs until it was stopped and has released everything.
    pub(super) async fn run(mut self) {
        let (confirm, mut confirmed) = mpsc::unbounded_channel();
        let mut flights: [Option<Flight>; 2] = [None, None];
        let mut ending: Vec<(usize, u64)> = Vec::new();
        let mut stopping = false;
        let gates = self.gates.clone();
        let stop = self.stop.clone();
        loop {
            ending.retain(|(slot, drain)| {
                let quiet = gates.is_quiet(*slot);
                if quiet {
                    self.machine.drained(*slot, *drain);
                }
                !quiet
            });
            let step = self.machine.poll(Instant::now(), fastrand::f64());
            self.set_limits(&step.effects);
            for effect in step.effects {
                self.publish(effect, &confirm);
            }
            for (lane, request, deadline) in step.requests {
                flights[lane as usize] = Some(self.send(request, deadline));
            }
            let Some(wake) = step.wake else { return };
            // All branches are cancel-safe: the flights are kept, the others are channels, tokens and times.
            tokio::select! {
                (lane, response) = landing(&mut flights) => {
                    let response = self.on_response(response);
                    self.machine.response(Instant::now(), lane, response);
                }
                Some(Confirmed { slots, drain }) = confirmed.recv() => {
                    ending.extend(slots.into_iter().map(|slot| (slot, drain)));
                }
                () = gates.left.notified() => {}
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.machine.leave();
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    fn send(&self, request: Request, deadline: Instant) -> Flight {
        let wire = self.wire.clone();
        Box::pin(async move { wire.perform(&request, deadline).await })
    }

    fn publish(&self, effect: Effect, confirm: &mpsc::UnboundedSender<Confirmed>) {
        let change = match effect {
            Effect::Gained(slots) => {
                self.gates.open(&slots);
                let shard = self.gates.shard_of(slots);
                info!(%shard, "gained");
                Change::Gained(shard)
            }
            Effect::Giving(slots, drain) => {
                self.gates.close(&slots);
                let shard = self.gates.shard_of(slots.iter().copied());
                info!(%shard, "giving up");
                let guard = ReleaseGuard {
                    slots,
                    drain,
                    confirm: confirm.clone(),
                };
                Change::Giving(shard, guard)
            }
            Effect::Revoked(slots) => {
                self.gates.revoke(&slots);
                let shard = self.gates.shard_of(slots);
                warn!(%shard, "revoked: the membership could not be renewed, or its lease is gone");
                Change::Revoked(shard)
            }
        };
        // A replica that dropped the receiver has no informer to update; permits are awaited nevertheless.
        self.changes.send(change).ok();
    }

    /// Updates until when the gates may issue permits.
    fn set_limits(&self, effects: &[Effect]) {
        let limits = self.machine.valid_until().map(|valid_until| {
            let rest = self.rules.lease.saturating_sub(self.rules.renew);
            Limits {
                valid_until,
                deadline: valid_until + rest / 2,
            }
        });
        // Permits of slots that were just revoked keep the old limits, unless the membership is lost: then other replicas
        // may own the slots already, and no time is left.
        let revoked = effects.iter().any(|effect| matches!(effect, Effect::Revoked(_)));
        match limits {
            Some(limits) => self.gates.set_limits(Some(limits)),
            None if revoked => self.gates.set_limits(None),
            None => {}
        }
    }

    fn on_response(&self, response: Result<Response, LeaseError>) -> Response {
        let error = match response {
            Ok(response) => {
                let malformed = self.wire.malformed(&response);
                if let Some(error) = &malformed {
                    warn!(%error, "a lease of the group is malformed");
                }
                self.error.send_replace(malformed);
                return response;
            }
            Err(error) => error,
        };
        let meaning = match &error.failure {
            Failure::NotFound if error.verb != "create" => return Response::Missing,
            Failure::Conflict => return Response::Conflict,
            Failure::Exists => Response::Conflict,
            failure if failure.is_final() => Response::Refused,
            // An unreadable list had no effect; a write with an unreadable response may have taken effect.
            _ => Response::Unknown,
        };
        match meaning {
            Response::Conflict => debug!(%error, "another replica changed a lease of the group first"),
            _ => warn!(%error, "request for a lease of the group failed"),
        }
        self.error.send_replace(Some(error));
        meaning
    }
}

impl Drop for Driver {
    /// However the driver ends, this replica does not go on owning anything.
    fn drop(&mut self) {
        self.gates.set_limits(None);
        if std::thread::panicking() {
            self.error.send_replace(Some(self.wire.panicked()));
        }
    }
}

/// The next response in either lane.
async fn landing(flights: &mut [Option<Flight>; 2]) -> (Lane, Result<Response, LeaseError>) {
    let [membership, table] = flights;
    let (lane, response) = tokio::select! {
        response = landed(membership) => (Lane::Membership, response),
        response = landed(table) => (Lane::Table, response),
    };
    flights[lane as usize] = None;
    (lane, response)
}

async fn landed(flight: &mut Option<Flight>) -> Result<Response, LeaseError> {
    match flight {
        Some(flight) => flight.await,
        None => std::future::pending().await,
    }
}
