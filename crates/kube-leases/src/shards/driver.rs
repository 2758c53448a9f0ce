//! Performs what the machine of a group decides: sends its requests, moves the gates, tells the replica.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kube_shards::Shard;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::machine::{Effect, Lane, Machine, Request, Response, Rules};
use super::ownership::{Gates, Limits};
use super::wire::GroupWire;
use crate::error::{Failure, LeaseError};

/// What happens to the objects a replica owns.
#[derive(Debug)]
#[must_use = "dropping an unread change releases its shard"]
pub enum Change {
    /// These are ours from now on.
    Gained(Shard),
    /// These shall be another's: stop looking at them, and drop the guard. The Lease lets go of them when the guard is
    /// gone and no [`Permit`](super::Permit) is out; until then they are still ours.
    Giving(Shard, ReleaseGuard),
    /// These are not ours any more. Work on them must stop at once.
    Revoked(Shard),
}

/// While it lives, what is being given up is not given up.
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
        // If the driver is gone, nothing is held any more.
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
    /// Runs until it was stopped and has given up everything.
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
                self.tell(effect, &confirm);
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

    fn tell(&self, effect: Effect, confirm: &mpsc::UnboundedSender<Confirmed>) {
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
        // A replica that does not listen any more has no informer to follow; permits are waited for all the same.
        self.changes.send(change).ok();
    }

    /// Tells the gates until when they may let anybody in.
    fn set_limits(&self, effects: &[Effect]) {
        let limits = self.machine.valid_until().map(|valid_until| {
            let rest = self.rules.lease.saturating_sub(self.rules.renew);
            Limits {
                valid_until,
                deadline: valid_until + rest / 2,
            }
        });
        // Those whose slots have just been revoked still look at the old limits, unless the membership is gone: then
        // others may own them already, and there is no time left.
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
            // A list that cannot be read did nothing; a write whose response cannot be read may have been made.
            _ => Response::Unknown,
        };
        match meaning {
            Response::Conflict => debug!(%error, "the group's leases were changed by another"),
            _ => warn!(%error, "cannot reach the leases of the group"),
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

/// The next response of either lane.
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
