//! The pure state machines, for simulators. Unstable: they may change in any release.

/// One candidate of an election.
pub mod election {
    pub use crate::election::machine::{Machine, Next, Request, Response};
    pub use crate::record::{LeaseState, Malformed, Record};
}

/// One replica of a shard group.
pub mod shards {
    pub use crate::shards::machine::{
        Effect, Lane, Machine, MemberSeen, Request, Response, Rules, Snapshot, Step, TableSeen,
    };
    pub use crate::shards::table::{Owner, Table};
}
