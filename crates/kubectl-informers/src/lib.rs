//! The program `kubectl informers`: see what changes in a cluster, live.
//!
//! A library only so that its parts can be tested; the program is what is promised. `main.rs` does nothing but call
//! [`run`].
//!
//! ```text
//!  cli ─▶ cluster ─▶ kinds ─▶ session ─▶ changes ─▶ watch · top · serve
//!          where      what     one informer  one stream   who shows them
//!                              per kind
//! ```
#![forbid(unsafe_code)]

pub mod bench;
pub mod board;
pub mod changes;
pub mod cli;
pub mod cluster;
pub mod columns;
pub mod diff;
pub mod discovery;
pub mod failure;
pub mod item;
pub mod kinds;
pub mod logging;
pub mod notes;
pub mod observe;
pub mod progress;
pub mod redact;
pub mod refusal;
mod run;
pub mod serve;
pub mod session;
pub mod shell;
pub mod signals;
pub mod style;
pub mod top;
pub mod watch;

pub use run::run;
