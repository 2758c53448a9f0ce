//! Behaviour of the queues beyond client-go.

mod delta_fifo;
mod hammer;
mod in_order;
mod model_delta_fifo;
mod model_lines;
pub mod support;
