//! Faults observed in practice, by their number in the catalogue, against the embedded server.
//!
//! Not here: what needs more than is built (F03 and F04: probing for rewinds and drift; F37 and F38: HTTP/2), what
//! the type system settles (F07), and what other files show (F08, F12, F33, F35, F36, F40, F41 and the work queue's).

mod consistency;
mod events;
mod handlers;
mod lists;
mod watch_lists;
mod watches;
