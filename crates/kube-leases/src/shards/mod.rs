//! Replicas share the objects among them: each owns some slots of the hash space, and no slot has two owners.
//!
//! # How it works
//!
//! The hash space is cut into a fixed number of slots. A group has one Lease per *member*, renewed every retry period, and
//! one Lease that holds the *table*: for each slot the uid of the member's Lease that owns it. Every replica reads all of
//! them in one list per retry period, counts the members and computes its own fair share:
//!
//! - It has too much: it *gives up* some slots. The gates close, informers drop the range, running items end; meanwhile
//!   the membership is renewed as ever. Then it frees the slots in the table.
//! - It has too little: it *claims* free slots in the table.
//! - Another member's Lease did not change for its lease duration: it *evicts* that member by deleting its Lease, and then
//!   frees its slots in the table.
//!
//! # Why no slot has two owners
//!
//! A replica **owns** a slot while two things hold: it has seen a table in which the slot belongs to the uid of its Lease,
//! and the last successful renewal of that Lease was *sent* less than a renew deadline ago, by its own monotonic clock.
//!
//! 1. Every write of the table is conditional on the version read before, so its versions form one line, and in each version a
//!    slot belongs to one uid. For two to own a slot, the table must have changed from one uid to another while the
//!    first still believed.
//! 2. A slot leaves a uid in two ways only. *Its member frees it*, after nothing runs in it, and does not begin again in
//!    that slot before it has seen it free: a late release cannot hit a slot in use. *Or the uid is dead*: its Lease was
//!    deleted under the condition that it was still in the version that somebody had watched unchanged for the
//!    whole lease duration (or a Lease deleted by other hands was seen to be missing for as long).
//! 3. When a uid is dead, its last renewal took effect at least a lease duration ago and was sent before that; the
//!    renew deadline is shorter, so its member has stopped believing. It cannot begin again: renewing a Lease that is
//!    gone fails, and a new Lease has a new uid.
//!
//! The assumption is that of every lease: the clock of one replica does not run faster than that of another by a factor of
//! `lease_duration / renew_deadline` (1.5 by default; 1.2 for items that use all of the time they have after a
//! revocation, see [`Permit::deadline`]). Offsets and wall clocks do not matter. What a suspended machine had begun to send
//! is beyond anybody's control. Deleting the table's Lease, or writing another valid table into it,
//! while replicas run is outside of the guarantee. A table that cannot be read changes nothing: owners keep their slots, no
//! slot moves, and [`ShardMember::last_error`] says what to do. Malformed member Leases are repaired by their members.
//!
//! A simulator runs thousands of schedules of lost and late messages, pauses, deaths, returns, conflicts and skewed
//! clocks against these rules.
//!
//! # For how long nobody owns a slot
//!
//! A slot that moves is without an owner from the end of its running items to the next list of its new owner: a retry
//! period. After a death it is the lease duration and up to two retry periods.
//!
//! # What it costs
//!
//! Per replica one write and one list of the group's Leases in each retry period, however many slots there are: with
//! the default timings 0.4 requests a second. The account needs `get`, `list`, `create`, `update` and `delete` on `leases`.

mod driver;
#[cfg_attr(feature = "sim", allow(missing_docs))]
pub(crate) mod machine;
#[cfg(test)]
mod machine_tests;
mod member;
mod ownership;
mod plan;
#[cfg(test)]
mod simulation;
#[cfg_attr(feature = "sim", allow(missing_docs))]
pub(crate) mod table;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::Client;
use kube_shards::ShardField;
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
use wire::{GroupWire, Last};

/// The timings of a group. All replicas of a group should have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardConfig {
    /// How long a member's Lease must stay unchanged before others take what it owned. Whole seconds. 30 s.
    pub lease_duration: Duration,
    /// A member that could not renew for so long owns nothing any more. 20 s.
    pub renew_deadline: Duration,
    /// How often a member renews, and looks at the others. 5 s.
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
/// use kube_informers::{Informer, Scope, Shard};
/// use tokio_util::sync::CancellationToken;
///
/// let nothing = Shard::nothing(ShardField::Uid);
/// let maps = Informer::<ConfigMap>::scoped(client.clone(), Scope::all().shard(nothing)).start();
/// let member = ShardGroup::new(client, "shop", "cart-controller", pod_name).start()?;
///
/// // Workers ask before they work, and keep the permit until they are done.
/// let ownership = member.ownership();
/// # let object = ConfigMap::default();
/// if let Some(permit) = ownership.enter_for(&object) {
///     permit.run(async { /* reconcile */ }).await;
/// }
///
/// // The informer follows what the group agrees on, until the program is asked to stop.
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
    /// A replica of the group `group`, whose Leases are in `namespace`, under a name that no other replica has: the pod's
    /// name, for instance. A process that comes back under the name of one that died waits for the lease duration.
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

    /// Into how many parts the objects are cut: a power of two up to 1024, the same on all replicas. 16. Choose several
    /// times the number of replicas; the shares of two replicas differ by one slot at most.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// What of an object decides on its slot: the same on all replicas. The uid.
    pub fn field(mut self, field: ShardField) -> Self {
        self.field = field;
        self
    }

    /// Other timings.
    pub fn config(mut self, config: ShardConfig) -> Self {
        self.config = config;
        self
    }

    /// Where the timestamps in the Leases come from, which are for people to read. By default the system's clock.
    pub fn wall_clock(mut self, wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall = Arc::new(wall);
        self
    }

    /// Joins the group, in a task of its own.
    ///
    /// # Errors
    ///
    /// Timings, names or a number of slots that cannot work.
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
        let (changes, told) = mpsc::unbounded_channel();
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
                last: Mutex::new(Last::default()),
            }),
            rules,
            gates: gates.clone(),
            stop: stop.clone(),
            changes,
            error,
        };
        let task = kube_tasks::spawn(span, driver.run());
        Ok(ShardMember::new(
            Ownership::new(gates),
            told,
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
