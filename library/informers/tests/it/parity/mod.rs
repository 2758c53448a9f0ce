//! Ports of client-go's tests. Each names the upstream test it ports.

mod controller;
mod handlers;
mod real_fifo;
mod reflector_life;
mod reflector_list;
mod reflector_watch;
mod reflector_watch_list;
mod shared_informer;
mod source;
mod store;
