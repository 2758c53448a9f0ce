//! Two informers beside each other on one server, while a tape of writes and disturbances plays: client-go's and ours.
//!
//! A [`Tape`] is made of a seed. [`run`] plays it, notes from the answers to its writes what truly happened
//! ([`Truth`]), and lets two [`Teller`]s print what their handlers are told. [`check`] holds one story against the
//! truth: per object it must be a subsequence that ends in the same state.

mod check;
mod line;
mod play;
mod report;
mod tape;
mod teller;
mod truth;

pub use check::{Difference, Rules, Verdict, check, compare_causes};
pub use line::{Event, Line};
pub use play::{Outcome, run};
pub use report::Report;
pub use tape::{Op, Tape, Who};
pub use teller::{Teller, client_go};
pub use truth::{Step, Truth};
