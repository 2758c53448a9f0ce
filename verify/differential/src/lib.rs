//! Runs client-go's informer and ours on the same server, during a seeded sequence of writes and disturbances (a tape).
//!
//! A [`Tape`] is generated from a seed. [`run`] plays it, records the true [`History`] from the responses to its
//! writes, and runs two [`InformerProcess`]es that print the events their handlers receive. [`check`] compares one
//! event log with the history: per object it must be a subsequence that ends in the same state.

#![forbid(unsafe_code)]

mod check;
pub mod go;
mod history;
mod informer_process;
mod line;
mod play;
mod report;
mod tape;

pub use check::{Difference, Rules, Verdict, check, compare_causes};
pub use history::{History, Step};
pub use informer_process::{InformerProcess, InformerProgram};
pub use line::{Event, Line};
pub use play::{Outcome, run};
pub use report::Report;
pub use tape::{Op, Tape, Who};
