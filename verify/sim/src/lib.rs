//! Seeded schedules over the stages of `kube-informers`, checked after every step against a model of the API server.
//!
//! A seed and a profile give a [`Tape`](tape::Tape); running a tape is deterministic. See `docs/evidence/simulation.md`.

pub mod campaign;
pub mod coverage;
pub mod generate;
mod handlers;
pub mod invariants;
pub mod leases;
pub mod object;
pub mod options;
pub mod planted;
pub mod regressions;
pub mod server;
pub mod shards;
pub mod shrink;
pub mod soak;
pub mod tape;
pub mod volumes;
pub mod workqueue;
pub mod world;
