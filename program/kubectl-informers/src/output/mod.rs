//! Standard output and standard error: the writer thread, notes, colours, and logs.

pub mod logging;
pub mod notes;
pub mod style;
pub mod writer;
