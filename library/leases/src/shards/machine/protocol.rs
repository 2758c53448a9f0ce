//! The inputs and outputs of the state machine of a group.

use std::time::Duration;

use tokio::time::Instant;

use crate::shards::table::Table;

/// The timings and the number of slots.
#[derive(Clone, Debug)]
pub struct Rules {
    pub slots: usize,
    pub lease: Duration,
    pub renew: Duration,
    pub retry: Duration,
}

/// The two kinds of requests that run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The Lease of this member.
    Membership,
    /// The Leases of all members, and the table.
    Table,
}

/// A request for Leases.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Create the Lease of this member.
    Join,
    /// Renew it, if it is in this version.
    Renew {
        version: String,
        leaving: bool,
        /// The number of the renewal; if the Lease contains it, this renewal took effect.
        number: u64,
    },
    /// Read it.
    LookAtSelf,
    /// Delete it.
    Leave { uid: String, version: String },
    /// Read the table and all members, at one point in time.
    List,
    /// Delete the Lease of another member, if it is in this version.
    Evict {
        name: String,
        uid: String,
        version: String,
    },
    /// Write the table: with a version, only if it is still in that one; without, only if it does not exist.
    WriteTable { table: Table, version: Option<String> },
}

/// A member's Lease as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSeen {
    pub name: String,
    pub member: String,
    pub uid: String,
    pub version: String,
    /// The process that created it.
    pub process: String,
    pub leaving: bool,
    /// The number of the last renewal.
    pub renewals: u64,
    pub lease: Option<Duration>,
    /// What is wrong with its spec, for the error report.
    pub malformed: Option<&'static str>,
}

/// The table as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSeen {
    pub table: Table,
    /// The uid of its Lease. Another uid means another table, whatever its version.
    pub uid: String,
    pub version: String,
}

/// All Leases of the group, at one point in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub table: Option<TableSeen>,
    pub members: Vec<MemberSeen>,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    Member(MemberSeen),
    Snapshot(Snapshot),
    TableWritten {
        uid: String,
        version: String,
    },
    Deleted,
    Missing,
    Conflict,
    /// Rejected, without effect.
    Refused,
    /// Unknown: it may have taken effect, or may still.
    Unknown,
}

/// A change of ownership.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// This replica owns these slots.
    Gained(Vec<usize>),
    /// These slots are being given up: call `Machine::drained` with this number when no work runs in one of them.
    Giving(Vec<usize>, u64),
    /// This replica no longer owns these slots, effective at once.
    Revoked(Vec<usize>),
}

/// What to do now.
#[derive(Debug, Default)]
pub struct Step {
    pub effects: Vec<Effect>,
    pub requests: Vec<(Lane, Request, Instant)>,
    /// When to poll again at the latest; `None` when the machine has ended.
    pub wake: Option<Instant>,
}
