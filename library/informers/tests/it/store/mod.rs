//! The store, beyond the tests ported from client-go.

mod apply;
mod by_hand;
mod concurrency;
mod index;
mod members;
mod model;
mod quarantine;
mod shards;
pub mod thing;
