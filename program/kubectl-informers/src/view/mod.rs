//! What several commands share when they show changes: the text of a change, filters, the server's columns, progress.

pub mod filter;
pub mod progress;
pub mod refusals;
pub mod server_columns;
pub mod text;
