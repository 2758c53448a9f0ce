//! Recordings: `record` writes what an informer observes to a file; `history`, `at` and `replay` read it.
//!
//! ```text
//!  record:   session ─▶ writer ─▶ block ─▶ file
//!                       records    bytes
//!  others:   file ─▶ scan ─▶ reader ─▶ cursor ─▶ history · at · replay
//!                    heads    blocks    state, steps
//! ```
//!
//! docs/reference/recording.md describes the format.

pub mod args;
pub mod at;
mod block;
pub mod capture;
mod cursor;
mod front;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod history;
pub mod measure;
mod moment;
mod reader;
mod record;
pub mod replay;
pub mod reports;
mod scan;
mod shown;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::Recording;
