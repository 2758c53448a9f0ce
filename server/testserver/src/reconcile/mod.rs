//! Controllers of a cluster, run by the server: they act some time after the write that they react to, on tokio's clock.
//!
//! The store queues the events that concern them; `routes.rs` translates changes into the objects to reconcile. One task
//! performs the steps (`run.rs`), a batch at a time, and ends when there is nothing left to do: a server at rest has no task.
//! Every reconciler is level-triggered: it reads the current objects, moves them one step closer to their specs, and keeps no
//! state of its own. It runs under the lock of the store, so that what it reads is current and no expectations are needed.
//!
//! The rules of garbage collection and namespace deletion are in `write/garbage.rs`, which performs them at once on servers
//! without controllers.

mod cluster;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod job;
mod kubelet;
mod pods;
mod replica_set;
mod revisions;
mod routes;
mod run;
mod scheduler;
mod stateful_set;

pub(crate) use run::run;
