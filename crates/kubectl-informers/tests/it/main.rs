//! The real program against a real socket: what it prints, what it ends with, what it never shows.

mod bench;
mod cluster;
mod discovery;
mod errors;
mod kubectl;
mod program;
mod secrets;
mod shell;
mod top;
mod trouble;
mod watch;
