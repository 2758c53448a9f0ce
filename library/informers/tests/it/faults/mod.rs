//! The 45 faults of the catalogue, by number, end to end against the embedded server. `docs/evidence/faults.md` lists all of them;
//! those of the work queue are tested in its crate.

mod consistency;
mod data;
mod drift;
mod environment;
mod events;
mod handlers;
mod lists;
mod rewind;
mod watch_lists;
mod watches;
