//! The program `kubectl informers`: see what changes in a cluster, live.
//!
//! A library only so that its parts can be tested; it has no stable API. `main.rs` only calls
//! [`run`].
//!
//! ```text
//!  cli ─▶ cluster ─▶ session ─────▶ changes ─▶ watch · top · serve · trouble · record
//!          which      an informer    one stream  views
//!                     per kind
//! ```
//!
//! Every module imports only from lines above its own, or from its own line:
//!
//! | Modules | What they are |
//! |---|---|
//! | `text` | text that is safe to print |
//! | `process` | how the program ends, and what it costs |
//! | `objects`, `expression` | an object of any kind, redacted; conditions on it |
//! | `changes` | what changed, without noise, and who changed it |
//! | `cli` | the command line, as plain data |
//! | `output`, `connections` | standard output and error; the HTTP connections of `serve` and `replay` |
//! | `recording`, `replay` | the file of a recording; an API server that plays it |
//! | `cluster` | the connection, discovery, and the server's refusals |
//! | `session` | the running informers and the feed of their changes |
//! | `board`, `view` | what the dashboards display; what printing commands share |
//! | `watch`, `top`, `serve`, `trouble`, `bench`, `record`, `history`, `shell` | one command each |
//! | `run` | dispatches the command |
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod board;
mod changes;
mod cli;
mod cluster;
mod connections;
mod expression;
mod history;
mod objects;
mod output;
mod process;
mod record;
mod recording;
mod replay;
mod run;
mod serve;
mod session;
mod shell;
mod text;
mod top;
mod trouble;
mod view;
mod watch;

/// For the fuzzer of this repository.
#[cfg(feature = "fuzz")]
pub use recording::fuzz;
pub use run::run;
