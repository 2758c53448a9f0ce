//! A server that knows one collection of pods and serves it as quickly as the client reads: encoded objects with two
//! fields of fixed width, the version and the time of the write, that are written over. What the clients cost shows,
//! not what encoding, storage and encryption cost.
//!
//! Recorded from a real API server in JSON and protobuf, or made in JSON alone.

mod connection;
mod http;
mod protobuf;
pub mod recording;
mod template;
mod world;

pub use connection::serve;
pub use template::{Encoded, Encoding};
pub use world::{Play, World};
