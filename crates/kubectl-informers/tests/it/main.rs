//! The real program against a real socket: what it prints, what it ends with, what it never shows.

mod bench;
#[cfg(target_os = "linux")]
mod blocked_output;
mod cluster;
mod discovery;
mod errors;
mod flags;
mod health;
mod hostile;
mod http;
mod kubectl;
mod program;
mod recording;
mod replay;
mod secrets;
mod serve;
mod serve_gate;
#[cfg(target_os = "linux")]
mod serve_limits;
mod shell;
#[cfg(target_os = "linux")]
mod terminal;
mod top;
mod transport;
mod trouble;
mod watch;
mod who;
