//! The pure state machine of the queue, for simulators. Unstable: it may change in any release.

pub use crate::state::{Added, Again, Finished, Gone, QueueMachine, Run, Taken};
