//! What goes in and out of the machine of a group.

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

/// The two kinds of requests that go on beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// About the own Lease.
    Membership,
    /// About everybody's Leases and the table.
    Table,
}

/// A request about Leases.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Create the own Lease.
    Join,
    /// Renew it, if it is in this version.
    Renew {
        version: String,
        leaving: bool,
        /// Which renewal it is; found in the Lease, it proves that this one was made.
        number: u64,
    },
    /// Read it.
    LookAtSelf,
    /// Delete it.
    Leave { uid: String, version: String },
    /// Read the table and all members, as of one moment.
    List,
    /// Delete the Lease of another, if it is in this version.
    Evict {
        name: String,
        uid: String,
        version: String,
    },
    /// Write the table; with a version only if it is in that one, without only if there is none.
    WriteTable { table: Table, version: Option<String> },
}

/// A member's Lease as the server has it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSeen {
    pub name: String,
    pub member: String,
    pub uid: String,
    pub version: String,
    /// Which process made it.
    pub process: String,
    pub leaving: bool,
    /// The number of the last renewal.
    pub renewals: u64,
    pub lease: Option<Duration>,
    /// What is wrong with its spec, for the error report.
    pub malformed: Option<&'static str>,
}

/// The table as the server has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSeen {
    pub table: Table,
    /// Of the Lease it is in. Another one means another table, whatever the number in it says.
    pub uid: String,
    pub version: String,
}

/// Everything about the group, as of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub table: Option<TableSeen>,
    pub members: Vec<MemberSeen>,
}

/// What came of a request.
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
    /// Refused, and nothing was done.
    Refused,
    /// Nobody knows whether it was done, or will be.
    Unknown,
}

/// What the replica is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// These are ours.
    Gained(Vec<usize>),
    /// These shall be given up: say [`Machine::drained`] with this number when nothing runs in one of them.
    Giving(Vec<usize>, u64),
    /// These are not ours any more, at once.
    Revoked(Vec<usize>),
}

/// What to do now.
#[derive(Debug, Default)]
pub struct Step {
    pub effects: Vec<Effect>,
    pub requests: Vec<(Lane, Request, Instant)>,
    /// When to be asked again, if nothing comes before; `None` when it is over.
    pub wake: Option<Instant>,
}
