//! Feeds mutated bytes to everything here that reads foreign bytes: see `docs/evidence/simulation.md`.
//!
//! An execution must return: no panic, no more memory than the limit of its reader, no more than a second. There is no
//! instrumentation, so that it runs on stable Rust. Inputs with an outcome that was not seen before join the corpus.

mod corpus;
mod engine;
mod mutate;
mod outcome;
pub mod readers;
pub mod soak;

pub use corpus::{load, regressions, save, save_regression};
pub use engine::{Finding, Fuzzer, execute};
pub use outcome::Outcome;

use peak_alloc::PeakAlloc;

/// The executions with one seed. After that, a run goes on with the next seed.
pub const SEED_EXECUTIONS: u64 = 100_000;

/// Counts the bytes that an execution allocates.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;
