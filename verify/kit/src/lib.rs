//! What the tests of several crates share: virtual time, captured logs, and informers of the kinds that most tests watch.
//!
//! The informers are here so that they are compiled once. An unoptimised build uses the instances of a generic type that a
//! dependency has already compiled, and an informer of pods is many thousand functions.

mod informers;
mod logs;
mod time;

pub use informers::{maps, owned, paged_pods, pods, synced, synced_pods};
pub use logs::CapturedLogs;
pub use time::{minutes, ms, pass, secs, settle, soon, wait_for};
