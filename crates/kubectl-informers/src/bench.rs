//! `bench`: how long it takes to sync, and what it costs.

use crate::cli::{BenchArgs, Global};
use crate::failure::{Exit, Failure};

/// Measures and prints.
///
/// # Errors
///
/// The server cannot be asked.
pub async fn run(_args: BenchArgs, _global: &Global) -> Result<Exit, Failure> {
    Err(Failure::error("not yet"))
}
