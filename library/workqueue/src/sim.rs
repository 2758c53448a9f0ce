//! The pure state machine of the queue, for simulators. Unstable: it may change in any release.

#[cfg(feature = "mutants")]
pub use crate::mutants::{Mutant, activate};
pub use crate::state::{Added, Again, Finished, Gone, QueueMachine, Run, Taken};
