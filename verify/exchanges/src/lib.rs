//! Recorded exchanges with an API server, played at any server and compared up to names, versions and times.
//!
//! A [`Recording`] is a file of requests, each with the response of a real kube-apiserver. Later requests use values of
//! earlier responses (`<name>` is replaced by the value kept under that name). [`play`] sends the requests to another
//! [`Server`]; [`differences`] compares its responses with the recorded ones.
#![forbid(unsafe_code)]

mod compare;
mod normal;
mod play;
mod recording;

pub use compare::{Difference, differences};
pub use normal::normal;
pub use play::{Failed, Sent, Server, play};
pub use recording::{Body, Disruption, Exchange, Recording, Request, Response, User, read, write};
