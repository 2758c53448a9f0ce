//! Objects of any kind: what a kind is, how an object is held, what of it is redacted, and who wrote it.

pub mod columns;
pub mod fields;
pub mod item;
pub mod kinds;
pub mod path;
pub mod redact;
pub mod summary;
pub mod who;
