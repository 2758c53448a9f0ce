//! Logs on standard error, as text or JSON. Silent unless `RUST_LOG` is set.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Starts logging. A program that draws on the terminal logs only when standard error goes elsewhere.
pub fn init(format: LogFormat, draws_on_terminal: bool) {
    let filter = match std::env::var("RUST_LOG") {
        // The filter itself reports errors on standard error.
        Ok(directives) if !directives.is_empty() => EnvFilter::builder().parse_lossy(directives),
        // What matters to the user is printed as notes; a log line would duplicate it.
        _ => EnvFilter::new("off"),
    };
    if draws_on_terminal && io::stderr().is_terminal() {
        return;
    }
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // Set once, at the start: it cannot have been set before.
    let _ = match format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().try_init(),
    };
}
