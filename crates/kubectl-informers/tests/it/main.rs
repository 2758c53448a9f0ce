//! The real program against a real socket: what it prints, what it ends with, what it never shows.

mod bench;
mod cluster;
mod discovery;
mod errors;
mod http;
mod kubectl;
mod program;
mod secrets;
mod serve;
mod serve_gate;
mod shell;
mod top;
mod trouble;
mod watch;
