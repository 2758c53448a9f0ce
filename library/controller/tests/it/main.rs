//! Behaviour of the controller on the embedded server, on a paused clock. One binary.

mod added_watches;
mod clusters;
mod ends;
mod extremes;
mod failures;
mod go_names;
mod keys;
mod loops;
#[cfg(feature = "metrics")]
mod metrics;
mod own_writes;
mod predicates;
mod reconcilers;
mod recorder;
mod shutdown;
mod support;
mod sync;
mod workers;
