//! Replicas share the objects: each owns some slots of the hash space, and no slot has two owners.
//!
//! # How it works
//!
//! The hash space is divided into a fixed number of slots. A group has one Lease per *member*, renewed every retry period,
//! and one Lease that holds the *table*: for each slot, the uid of the member Lease that owns it. Every replica reads all
//! of them in one list per retry period and computes its fair share:
//!
//! - It has too many slots: it *gives up* some. Their gates close, informers drop the range, and running work ends; the
//!   membership is renewed meanwhile. Then it frees the slots in the table.
//! - It has too few: it *claims* free slots in the table.
//! - The Lease of another member did not change for its lease duration: it *evicts* that member by deleting the Lease, and
//!   then frees its slots in the table.
//!
//! # Why no slot has two owners
//!
//! A replica **owns** a slot while two conditions hold: it has read a table in which the slot belongs to the uid of its
//! Lease, and the last successful renewal of that Lease was *sent* less than a renew deadline ago, by its own monotonic
//! clock.
//!
//! 1. Every write of the table is conditional on the version read before, so its versions are totally ordered, and in each
//!    version a slot belongs to one uid. For two owners, the table must have changed from one uid to another while the
//!    first replica still owned the slot.
//! 2. A slot leaves a uid in only two ways. *Its member frees it* when no work runs in it, and does not use that slot
//!    again before it has seen it free, so a late release cannot hit a slot in use. *Or the uid is dead*: its Lease was
//!    deleted on the condition that it still had the version that a member had observed unchanged for the whole lease
//!    duration (or a Lease deleted by a third party was missing for as long).
//! 3. When a uid is dead, its last renewal took effect at least a lease duration ago and was sent before that. The renew
//!    deadline is shorter, so its member no longer owns anything. It cannot start again: renewing a deleted Lease fails, and
//!    a new Lease has a new uid.
//! 4. Reads may be stale. A list with an older table than the known one ends all ownership, and what it lacks does not count as
//!    deleted. If lists return older tables for a lease duration, the server may have been restored from a backup: the older
//!    table is accepted, but a replica owns nothing by it before a conditional write has shown that it is current.
//!
//! The assumption is the same as for every lease: the clock of one replica does not run faster than that of another by
//! a factor of `lease_duration / renew_deadline` (1.5 by default; 1.2 for work that uses all of the time it has after a
//! revocation, see [`Permit::deadline`]). Offsets and wall clocks do not matter. A request that a machine was sending
//! when it was suspended cannot be stopped.
//!
//! Deleting the Lease of the table, or writing another valid table into it, while replicas run is outside the guarantee. An
//! unreadable table changes nothing: owners keep their slots, no slot moves, and [`ShardMember::last_error`] says what to
//! do. Malformed member Leases are repaired by their members.
//!
//! A simulator runs thousands of schedules of lost and late messages, pauses, crashes, restarts, conflicts and skewed clocks
//! against these rules.
//!
//! # How long a slot has no owner
//!
//! A slot that moves has no owner from the end of its running work to the next list of its new owner: one retry period.
//! After a crash it is the lease duration and up to two retry periods.
//!
//! # Cost
//!
//! A replica sends one write and one list of the group's Leases per retry period, independent of the number of slots: 0.4
//! requests per second with the default timings. The account needs `get`, `list`, `create`, `update` and `delete` on
//! `leases`.

mod driver;
#[cfg_attr(feature = "sim", allow(missing_docs))]
pub(crate) mod machine;
#[cfg(test)]
mod machine_tests;
mod member;
mod ownership;
mod plan;
#[cfg_attr(feature = "sim", allow(missing_docs))]
pub(crate) mod table;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::Client;
use kube_informers_core::shards::ShardField;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info_span;

pub use driver::{Change, ReleaseGuard};
pub use member::ShardMember;
pub use ownership::{Ownership, Permit};

use crate::election::check_timing;
use crate::error::ConfigError;
use crate::wire::{Leases, check_label, check_name};
use driver::Driver;
use machine::{Machine, Rules};
use ownership::Gates;
use wire::{GroupWire, LastDocuments};

/// The timings of a group. All replicas of a group should have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardConfig {
    /// How long a member's Lease must stay unchanged before others take its slots. Whole seconds. Default: 30 s.
    pub lease_duration: Duration,
    /// A member that cannot renew for this long loses all its slots. Default: 20 s.
    pub renew_deadline: Duration,
    /// The interval of renewals and lists of a member. Default: 5 s.
    pub retry_period: Duration,
}

impl Default for ShardConfig {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(20),
            retry_period: Duration::from_secs(5),
        }
    }
}

/// A replica that has not joined its group yet.
///
/// ```no_run
/// use kube_leases::{Change, ShardGroup};
/// # async fn example(client: kube::Client, pod_name: String) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_informers::shard::ShardField;
/// use kube_informers::shard::Shard;
/// use kube_informers::{Informer, Scope};
/// use tokio_util::sync::CancellationToken;
///
/// let nothing = Shard::nothing(ShardField::Uid);
/// let maps = Informer::<ConfigMap>::scoped(client.clone(), Scope::all().shard(nothing)).start();
/// let member = ShardGroup::new(client, "shop", "cart-controller", pod_name).start()?;
///
/// // Workers get a permit before they work, and keep it until they are done.
/// let ownership = member.ownership();
/// # let object = ConfigMap::default();
/// if let Some(permit) = ownership.enter_for(&object) {
///     permit.run(async { /* reconcile */ }).await;
/// }
///
/// // The informer follows the shard of this replica until `stop` is cancelled.
/// let stop = CancellationToken::new();
/// member.drive(stop, |shard| maps.set_shard(shard.clone())).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a group does nothing until it is joined"]
pub struct ShardGroup {
    client: Client,
    namespace: String,
    group: String,
    identity: String,
    slots: u32,
    field: ShardField,
    config: ShardConfig,
    wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl fmt::Debug for ShardGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardGroup")
            .field("namespace", &self.namespace)
            .field("group", &self.group)
            .field("identity", &self.identity)
            .field("slots", &self.slots)
            .field("field", &self.field)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl ShardGroup {
    /// A replica of the group `group`, whose Leases are in `namespace`. The identity must be unique in the group, for
    /// example the name of the pod. A process that restarts with the identity of one that crashed waits for the lease
    /// duration.
    pub fn new(
        client: Client,
        namespace: impl Into<String>,
        group: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            client,
            namespace: namespace.into(),
            group: group.into(),
            identity: identity.into(),
            slots: 16,
            field: ShardField::Uid,
            config: ShardConfig::default(),
            wall: Arc::new(SystemTime::now),
        }
    }

    /// The number of slots: a power of two up to 1024, the same on all replicas. Default: 16. Choose several times the
    /// number of replicas; the shares of two replicas differ by at most one slot.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// The field that determines the slot of an object: the same on all replicas. Default: the uid.
    pub fn field(mut self, field: ShardField) -> Self {
        self.field = field;
        self
    }

    /// Other timings.
    pub fn config(mut self, config: ShardConfig) -> Self {
        self.config = config;
        self
    }

    /// The source of the timestamps in the Leases, which are informational. Default: the system clock.
    pub fn wall_clock(mut self, wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall = Arc::new(wall);
        self
    }

    /// Joins the group in a background task.
    ///
    /// # Errors
    ///
    /// Invalid timings, names or number of slots.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(self) -> Result<ShardMember, ConfigError> {
        self.check()?;
        let rules = Rules {
            slots: self.slots as usize,
            lease: self.config.lease_duration,
            renew: self.config.renew_deadline,
            retry: self.config.retry_period,
        };
        let process = format!("{:016x}", fastrand::u64(..));
        let gates = Arc::new(Gates::new(self.field, self.slots));
        let stop = CancellationToken::new();
        let (changes, receiver) = mpsc::unbounded_channel();
        let (error, last_error) = watch::channel(None);
        let span = info_span!("shards", group = %self.group, identity = %self.identity);
        let driver = Driver {
            machine: Machine::new(
                rules.clone(),
                self.identity.clone(),
                process.clone(),
                Instant::now(),
            ),
            wire: Arc::new(GroupWire {
                leases: Leases::new(self.client, self.namespace.clone()),
                namespace: self.namespace,
                group: self.group,
                identity: self.identity,
                process,
                slots: rules.slots,
                lease: rules.lease,
                wall: self.wall,
                last: Mutex::new(LastDocuments::default()),
            }),
            rules,
            gates: gates.clone(),
            stop: stop.clone(),
            changes,
            error,
        };
        let task = kube_informers_core::tasks::spawn(span, driver.run());
        Ok(ShardMember::new(
            Ownership::new(gates),
            receiver,
            last_error,
            stop,
            task,
        ))
    }

    fn check(&self) -> Result<(), ConfigError> {
        check_timing(
            self.config.lease_duration,
            self.config.renew_deadline,
            self.config.retry_period,
        )?;
        check_label("namespace", &self.namespace)?;
        check_label("group", &self.group)?;
        check_name("identity", &self.identity)?;
        check_name("lease name", &GroupWire::member_name(&self.group, &self.identity))?;
        if !self.slots.is_power_of_two() || self.slots > 1024 {
            return Err(ConfigError::Slots(self.slots));
        }
        Ok(())
    }
}
