//! Recorded exchanges with an API server: stories of requests and answers, played again at any server, and compared
//! up to names, versions and times.
//!
//! A [`Story`] is a file: requests in order, each with the answer that a real kube-apiserver gave. Later requests
//! take values from earlier answers (`<name>` stands for what an earlier exchange kept under that name). [`play`]
//! asks the same of another [`Server`]; [`differences`] says where its answers are not the recorded ones.
#![forbid(unsafe_code)]

mod compare;
mod normal;
mod play;
mod story;

pub use compare::{Difference, differences};
pub use normal::normal;
pub use play::{Failed, Sent, Server, play};
pub use story::{Act, Answer, Body, Exchange, Request, Story, User, read, write};
