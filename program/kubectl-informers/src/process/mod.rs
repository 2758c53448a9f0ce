//! The process: how it ends, what stops it, and what it costs.

pub mod failure;
pub mod signals;
pub mod usage;
