//! Leader election, and sharding of objects among replicas, with Kubernetes Leases.
//!
//! - [`Election`]: one of several replicas leads, by client-go's rules.
//! - [`ShardGroup`]: the replicas share the objects; each object has at most one owner.
//!
//! Both assume that monotonic clocks run at about the same rate, and neither compares timestamps of different machines.
//! The rules are state machines without I/O or clock, tested by a simulator in many thousands of schedules. The
//! [`election`] and [`shards`] modules state the guarantees and why they hold.
#![forbid(unsafe_code)]

pub mod election;
mod error;
#[cfg_attr(feature = "sim", allow(missing_docs))]
mod record;
pub mod shards;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod wire;

#[doc(inline)]
pub use election::{Candidate, Election, ElectionConfig, ElectionStopped, Ended, Leadership, LeaseName};
pub use error::{ConfigError, Failure, LeaseError};
#[doc(inline)]
pub use shards::{Change, Ownership, Permit, ReleaseGuard, ShardConfig, ShardGroup, ShardMember};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
