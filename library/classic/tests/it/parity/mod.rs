//! Ports of client-go's tests. Each names the upstream test it ports.

mod controller;
mod delta_fifo;
mod fifo;
mod overlay;
mod queue_synctrack;
mod ttl;
