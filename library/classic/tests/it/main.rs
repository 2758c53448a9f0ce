//! Tests of the public API. One binary.

mod fifo;
mod hammer;
mod model_fifo;
mod parity;
#[allow(dead_code)]
#[path = "../../../informers/tests/it/queue/support.rs"]
mod queue_support;
mod retry_watch;
#[allow(dead_code, unused_imports)]
#[path = "../../../informers/tests/it/support/mod.rs"]
mod support;
mod thing;
mod ttl_store;
