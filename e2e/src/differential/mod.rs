//! Two informers beside each other on one server, while a tape of writes and disturbances plays: client-go's and ours.
//!
//! A [`Tape`] is made of a seed. [`run`] plays it, notes from the answers to its writes what truly happened
//! ([`History`]), and lets two [`InformerProcess`]s print what their handlers are told. [`check`] holds one story against the
//! history: per object it must be a subsequence that ends in the same state.

mod check;
mod history;
mod informer_process;
mod line;
mod play;
mod report;
mod tape;

pub use check::{Difference, Rules, Verdict, check, compare_causes};
pub use history::{History, Step};
pub use informer_process::{InformerProcess, client_go};
pub use line::{Event, Line};
pub use play::{Outcome, run};
pub use report::Report;
pub use tape::{Op, Tape, Who};
