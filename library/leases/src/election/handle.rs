//! The handles of a candidate and of a leadership.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::driver::{CandidateState, Term};
use crate::error::LeaseError;

/// The election was stopped, so this candidate will never lead again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the election was stopped")]
pub struct ElectionStopped;

/// A running candidate. Dropping it stops it, and releases the Lease in the background.
#[must_use = "a dropped candidate stops competing"]
pub struct Candidate {
    standing: watch::Receiver<CandidateState>,
    stop: CancellationToken,
    // Dropped before the task handle, which does not end the task.
    _stop_on_drop: DropGuard,
    task: JoinHandle<()>,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("is_leader", &self.is_leader())
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}

impl Candidate {
    pub(super) fn new(
        standing: watch::Receiver<CandidateState>,
        stop: CancellationToken,
        task: JoinHandle<()>,
    ) -> Self {
        Self {
            standing,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            task,
        }
    }

    /// Whether this candidate leads now. This reads the clock, so it is never true beyond the renew deadline, even if the
    /// process was suspended.
    #[doc(alias = "HealthzAdaptor")]
    #[doc(alias = "NewLeaderHealthzAdaptor")]
    #[doc(alias = "IsLeader")]
    pub fn is_leader(&self) -> bool {
        self.standing.borrow().term.as_deref().is_some_and(is_held)
    }

    /// The identity of the leader as last seen, which may be this candidate. `None` if the Lease is free or was not read yet.
    #[doc(alias = "GetLeader")]
    pub fn leader(&self) -> Option<String> {
        self.standing.borrow().holder.clone()
    }

    /// Why the last request failed, or what is wrong with the Lease; `None` if all is well. A candidate keeps trying.
    pub fn last_error(&self) -> Option<LeaseError> {
        self.standing.borrow().error.clone()
    }

    /// Waits until the leader changes, this candidate starts or stops leading, or an error occurs.
    ///
    /// # Errors
    ///
    /// The election was stopped.
    #[doc(alias = "OnNewLeader")]
    pub async fn changed(&mut self) -> Result<(), ElectionStopped> {
        self.standing.changed().await.map_err(|_| ElectionStopped)
    }

    /// Waits until this candidate leads.
    ///
    /// # Errors
    ///
    /// The election was stopped.
    pub async fn leading(&self) -> Result<Leadership, ElectionStopped> {
        let mut standing = self.standing.clone();
        let standing = standing
            .wait_for(|standing| standing.term.as_deref().is_some_and(is_held))
            .await
            .map_err(|_| ElectionStopped)?;
        let term = standing.term.clone().ok_or(ElectionStopped)?;
        Ok(Leadership {
            term,
            asked: self.stop.clone(),
        })
    }

    /// Stops competing and releases the Lease if this candidate holds it, within the renew deadline. End the work first:
    /// the next leader may start at once.
    #[doc(alias = "ReleaseOnCancel")]
    pub async fn shutdown(self) {
        self.stop.cancel();
        if self.task.await.is_err() {
            tracing::error!("the election task panicked; the lease was not released and will expire");
        }
    }
}

/// One term of leadership, from election to loss. Clones refer to the same term.
#[derive(Clone)]
pub struct Leadership {
    term: Arc<Term>,
    asked: CancellationToken,
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}

impl Leadership {
    pub(super) fn also_ends_on(mut self, asked: CancellationToken) -> Self {
        self.asked = asked;
        self
    }

    /// Whether this term still lasts. Check it immediately before any action that only a leader may take.
    pub fn is_held(&self) -> bool {
        is_held(&self.term)
    }

    /// Waits until the work must end: leadership was lost, or a stop was requested.
    pub async fn lost(&self) {
        // Both are tokens, and cancel-safe.
        tokio::select! {
            () = self.term.ended.cancelled() => {}
            () = self.asked.cancelled() => {}
        }
    }

    /// When work under this leadership must have ended if no further renewal succeeds.
    ///
    /// It is halfway between the end of leadership and the earliest time another candidate may lead. Each renewal
    /// extends it.
    pub fn deadline(&self) -> Instant {
        let limits = self.term.limits();
        limits.leads_until + limits.safe_until.saturating_duration_since(limits.leads_until) / 2
    }

    pub(super) async fn term_ended(&self) {
        self.term.ended.cancelled().await;
    }
}

fn is_held(term: &Term) -> bool {
    !term.ended.is_cancelled() && Instant::now() < term.limits().leads_until
}
