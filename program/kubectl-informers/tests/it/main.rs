//! The real program against a real socket: what it prints, what it ends with, what it never shows.

mod bench;
#[cfg(target_os = "linux")]
mod blocked_output;
mod cluster;
mod conditions;
#[cfg(unix)]
mod credentials;
mod diffs;
mod discovery;
mod errors;
mod findings;
mod flags;
mod health;
mod hostile;
mod http;
mod kubectl;
mod packaging;
mod page;
mod program;
mod recording;
mod recording_damage;
mod replay;
#[cfg(target_os = "linux")]
mod screen;
mod secrets;
mod serve;
mod serve_gate;
#[cfg(target_os = "linux")]
mod serve_limits;
mod server_columns;
mod shell;
#[cfg(target_os = "linux")]
mod terminal;
mod top;
#[cfg(target_os = "linux")]
mod top_screens;
mod transport;
mod tree;
mod trouble;
mod watch;
mod who;
