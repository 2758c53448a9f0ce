//! Ports of client-go's tests. Each names the upstream test it ports.

mod fifo;
mod overlay;
mod ttl;
