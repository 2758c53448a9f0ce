//! The store: what it does beyond client-go's.

mod apply;
mod by_hand;
mod concurrency;
mod index;
mod members;
mod model;
mod quarantine;
mod shards;
pub mod thing;
