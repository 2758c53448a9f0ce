//! The file of a recording: written by `record`, read by `history`, `at` and `replay`.
//!
//! ```text
//!  record:   change ─▶ writer ─▶ block ─▶ file
//!                      records    bytes
//!  others:   file ─▶ scan ─▶ reader ─▶ cursor ─▶ history · at · replay
//!                    heads    blocks    state, steps
//! ```
//!
//! docs/reference/recording.md describes the format.

mod block;
pub mod cursor;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod moment;
pub mod reader;
pub mod record;
mod scan;
pub mod state;
#[cfg(test)]
mod tests;
pub mod writer;

pub use reader::Recording;
