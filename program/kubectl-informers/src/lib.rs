//! The program `kubectl informers`: see what changes in a cluster, live.
//!
//! A library only so that its parts can be tested; it has no stable API. `main.rs` only calls
//! [`run`].
//!
//! ```text
//!  cli ─▶ cluster ─▶ kinds ─▶ session ─▶ changes ─▶ watch · top · serve · trouble
//!          which      what     one informer  one stream   views
//!                              per kind
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod board;
mod changes;
mod cli;
mod cluster;
mod columns;
mod complete;
mod config;
mod connections;
mod diff;
mod discovery;
mod expression;
mod failure;
mod item;
mod kinds;
mod limits;
mod logging;
mod noise;
mod notes;
mod observe;
mod output;
mod path;
mod progress;
mod queue;
mod recording;
mod redact;
mod refusal;
mod refusals;
mod run;
mod safe;
mod serve;
mod server_columns;
mod session;
mod shell;
mod signals;
mod style;
mod summary;
mod textdiff;
mod top;
mod trouble;
mod watch;
mod who;

/// For the fuzzer of this repository.
#[cfg(feature = "fuzz")]
pub use recording::fuzz;
pub use run::run;
