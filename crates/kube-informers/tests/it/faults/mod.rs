//! Faults observed in practice, by their number in the catalogue, against the embedded server.
//!
//! Not here: faults that need features not built yet (F03 and F04: probing for rewinds and drift; F37 and F38: HTTP/2),
//! faults excluded by the type system (F07), and faults covered by other files (F08, F12, F33, F35, F36, F40, F41 and
//! those of the work queue).

mod consistency;
mod events;
mod handlers;
mod lists;
mod watch_lists;
mod watches;
