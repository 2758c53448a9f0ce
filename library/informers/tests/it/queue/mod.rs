//! Behaviour of the queue beyond client-go.

mod hammer;
mod in_order;
mod model;
pub mod support;
pub mod things;
