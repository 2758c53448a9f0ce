//! Leader election on a Lease, with client-go's rules.
//!
//! # Guarantee
//!
//! At most one candidate leads at any time. This follows from three rules:
//!
//! 1. A leader stops leading when its last successful renewal was *sent* a renew deadline ago, by its own monotonic
//!    clock, whether or not the server responds.
//! 2. Another candidate takes the Lease only after it has watched it *unchanged* for the whole lease duration, by
//!    its own monotonic clock. Timestamps in the Lease are informational and are not compared with a clock, so clocks
//!    may be hours apart.
//! 3. Every write is conditional on the version read before. If two writes are concurrent, one fails.
//!
//! A renewal is sent before any other candidate can observe it, so the leader's period starts earlier and is shorter.
//! The remaining assumption is about the *rate* of clocks: one clock must not run faster than another by a factor of
//! `lease_duration / renew_deadline` (1.5 by default). Work that is still running when leadership is lost is dropped
//! halfway between the two limits, so for work the factor is 1.2. Work that hangs in a system call, or a request that a
//! machine was sending when it was suspended, cannot be stopped; to exclude these, check a fencing token such as
//! `leaseTransitions` on the receiving side.
//!
//! A malformed Lease (`spec` is not an object, a field has the wrong type or is out of range) counts as held. It is
//! reported by [`Candidate::last_error`], taken over once it has not changed for the lease duration, and repaired. A
//! Lease that states a shorter duration than the candidate's own setting is held for the candidate's. So a manual edit
//! never makes two candidates lead, with two exceptions: deleting the Lease and emptying `holderIdentity` release it.
//!
//! # Cost
//!
//! A leader writes once per retry period, a candidate reads once per 1 to 2.2 retry periods: with the default timings and
//! three replicas 1.1 requests a second. The account needs `get`, `create` and `update` on `leases`.

mod config;
mod driver;
mod handle;
#[cfg_attr(feature = "sim", allow(missing_docs))]
pub(crate) mod machine;
#[cfg(test)]
mod machine_tests;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::info_span;

pub use config::ElectionConfig;
pub(crate) use config::{check_timing, fraction};
pub use handle::{Candidate, ElectionStopped, Leadership};

use crate::error::ConfigError;
use crate::wire::{Leases, check_label, check_name};
use driver::{CandidateState, Driver, Wire};
use machine::Machine;

/// The Lease that candidates compete for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseName {
    /// Its namespace, which must exist.
    pub namespace: String,
    /// Its name; the Lease is created if it does not exist.
    pub name: String,
}

impl LeaseName {
    /// A Lease by namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// A candidate that has not been started.
///
/// ```no_run
/// use kube_leases::{Election, Ended, LeaseName};
/// # async fn example(client: kube::Client, pod_name: String) -> Result<(), Box<dyn std::error::Error>> {
/// let election = Election::new(client, LeaseName::new("shop", "cart-controller"), pod_name);
/// let ended = election
///     .run_while_leading(async |leadership| {
///         // Start the controller; end it when `leadership.lost()` is ready.
///         leadership.lost().await;
///     })
///     .await?;
/// if let Ended::Lost(_) = ended {
///     return Err("lost the leadership".into());
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "LeaderCallbacks")]
#[doc(alias = "resourcelock.Interface")]
#[doc(alias = "LeaseLock")]
#[doc(alias = "resourcelock.New")]
#[doc(alias = "NewWithLabels")]
#[doc(alias = "NewFromKubeconfig")]
#[doc(alias = "ResourceLockConfig")]
#[doc(alias = "LeasesResourceLock")]
#[doc(alias = "LeaderElectionRecordToLeaseSpec")]
#[doc(alias = "LeaseSpecToLeaderElectionRecord")]
#[doc(alias = "LeaderElector")]
#[must_use = "an election does nothing until it is started"]
pub struct Election {
    client: Client,
    lease: LeaseName,
    identity: String,
    config: ElectionConfig,
    labels: Vec<(String, String)>,
    wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    stop: CancellationToken,
}

/// How [`Election::run_while_leading`] ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// The work completed, by itself or after a stop request. The Lease was released afterwards.
    Finished(T),
    /// Leadership was lost. Contains the output of the work if it ended in time; `None` if it was dropped.
    Lost(Option<T>),
    /// Stopped before this candidate led.
    NeverLed,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("lease", &self.lease)
            .field("identity", &self.identity)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Election {
    /// A candidate for a Lease, with the recommended timings.
    ///
    /// The identity is visible to others as the holder of the Lease, for example the name of the pod. Use one per
    /// process. A record with this identity that another process wrote counts as foreign, so a restarted process waits
    /// for the lease duration, and if two processes have the same identity, only one leads.
    #[doc(alias = "NewLeaderElector")]
    pub fn new(client: Client, lease: LeaseName, identity: impl Into<String>) -> Self {
        Self {
            client,
            lease,
            identity: identity.into(),
            config: ElectionConfig::default(),
            labels: Vec::new(),
            wall: Arc::new(SystemTime::now),
            stop: CancellationToken::new(),
        }
    }

    /// Other timings than the recommended ones.
    pub fn config(mut self, config: ElectionConfig) -> Self {
        self.config = config;
        self
    }

    /// Adds a label to the Lease. Labels, annotations and fields of others are kept.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// The source of the timestamps in the Lease, which are informational. Default: the system clock.
    pub fn wall_clock(mut self, wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall = Arc::new(wall);
        self
    }

    /// Stops [`run_while_leading`](Self::run_while_leading) when this token is cancelled.
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Competes for the Lease in a background task, until the handle is shut down or dropped.
    ///
    /// # Errors
    ///
    /// Invalid timings or names.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[doc(alias = "Run")]
    pub fn start(self) -> Result<Candidate, ConfigError> {
        self.check()?;
        let span = info_span!("election", lease = %self.lease.name, identity = %self.identity);
        let stop = CancellationToken::new();
        let (sender, standing) = watch::channel(CandidateState::default());
        let driver = Driver {
            machine: Machine::new(self.identity, self.config, Instant::now()),
            wire: Wire {
                leases: Leases::new(self.client, self.lease.namespace.clone()),
                namespace: self.lease.namespace,
                name: self.lease.name,
                labels: self.labels,
                last: None,
            },
            wall: self.wall,
            stop: stop.clone(),
            standing: sender,
            term: None,
        };
        let task = kube_informers_core::tasks::spawn(span, driver.run());
        Ok(Candidate::new(standing, stop, task))
    }

    /// Waits to be elected, runs the work while leading, and returns when either has ended.
    ///
    /// - **The work ends**: the Lease is released, so the next candidate need not wait.
    /// - **Leadership is lost**: [`Leadership::lost`] completes. The work has until [`Leadership::deadline`] to end, then
    ///   it is dropped. To compete again, call this again; most programs exit.
    /// - **[Stop is requested](Self::stop_on)**: [`Leadership::lost`] completes. The Lease is renewed until the work has
    ///   ended, and then released.
    /// - **The work panics**, or this future is dropped: the work is dropped first, then a background task releases the
    ///   Lease. If the runtime shuts down as well, the Lease expires instead.
    ///
    /// The work runs on the caller's task and renewals on another, so on a multi-threaded runtime blocking work does not
    /// lose the Lease.
    ///
    /// # Errors
    ///
    /// Invalid timings or names. Requests that the server rejects are logged and retried; see
    /// [`Candidate::last_error`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[doc(alias = "RunOrDie")]
    #[doc(alias = "OnStartedLeading")]
    #[doc(alias = "OnStoppedLeading")]
    pub async fn run_while_leading<T, W>(
        self,
        work: impl FnOnce(Leadership) -> W,
    ) -> Result<Ended<T>, ConfigError>
    where
        W: Future<Output = T>,
    {
        let stop = self.stop.clone();
        // Declared before the work, and so dropped after it: the Lease is never released while work runs.
        let candidate = self.start()?;
        // Both branches are cancel-safe.
        let elected = tokio::select! {
            leadership = candidate.leading() => leadership.ok(),
            () = stop.cancelled() => None,
        };
        let ended = match elected {
            Some(leadership) => run_work(leadership.also_ends_on(stop), work).await,
            None => Ended::NeverLed,
        };
        candidate.shutdown().await;
        Ok(ended)
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.config.check()?;
        check_label("namespace", &self.lease.namespace)?;
        check_name("lease name", &self.lease.name)?;
        if self.identity.is_empty() {
            return Err(ConfigError::Name {
                what: "identity",
                value: String::new(),
                why: "it must not be empty; use the name of the pod".to_owned(),
            });
        }
        Ok(())
    }
}

async fn run_work<T, W: Future<Output = T>>(
    leadership: Leadership,
    work: impl FnOnce(Leadership) -> W,
) -> Ended<T> {
    let mut work = pin!(work(leadership.clone()));
    // The work is polled by reference and kept; the other branch is a token.
    tokio::select! {
        biased;
        output = &mut work => return Ended::Finished(output),
        () = leadership.term_ended() => {}
    }
    Ended::Lost(timeout_at(leadership.deadline(), work).await.ok())
}
