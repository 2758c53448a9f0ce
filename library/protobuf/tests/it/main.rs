//! The crate against objects that Go wrote, and its rules one by one.

mod common;
mod envelopes;
mod metadata;
mod objects;
mod rules;
mod typed;
mod wire_rules;
