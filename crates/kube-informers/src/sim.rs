//! Internal stages for simulators and tests. Unstable: not covered by semantic versioning.

pub use crate::store::delta_writer::{Applied, DeltaWriter, Origin, Prepared};
