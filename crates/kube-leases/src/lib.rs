//! What replicas agree on through the Leases of their cluster.
//!
//! - [`Election`]: one of several replicas leads. client-go's rules.
#![forbid(unsafe_code)]

mod election;
mod error;
mod record;
mod shards;
#[cfg(test)]
mod sim;
mod task;
mod wire;

pub use election::{Candidate, Election, ElectionConfig, ElectionStopped, Ended, Leadership, LeaseName};
pub use error::{ConfigError, Failure, LeaseError};
