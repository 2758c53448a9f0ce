//! Tests of the public API. One binary.

mod controllers;
mod delta_fifo;
mod fifo;
mod hammer;
mod model_delta_fifo;
mod model_fifo;
mod parity;
mod queue_support;
mod queues;
mod retry_watch;
#[allow(dead_code, unused_imports)]
#[path = "../../../informers/tests/it/support/mod.rs"]
mod support;
mod thing;
#[path = "../../../informers/tests/it/queue/things.rs"]
mod things;
mod ttl_store;
