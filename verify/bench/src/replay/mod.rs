//! A server with one collection of pods, which it sends as fast as the client reads: encoded objects in which two
//! fields of fixed width, the version and the time of the write, are overwritten. So the measurements show the cost of
//! the clients, not of encoding, storage and encryption.
//!
//! Recorded from a real API server in JSON and protobuf, or generated.

mod connection;
mod http;
mod protobuf;
pub mod recording;
mod template;
mod world;

pub use connection::serve;
pub use template::{Encoded, Encoding};
pub use world::{Play, World};
