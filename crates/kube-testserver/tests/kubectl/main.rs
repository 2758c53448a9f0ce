//! The program and kubectl, as a user has them: the binary listens, the real kubectl asks.
//!
//! Without kubectl on the path these tests say so and do nothing.

mod basics;
mod cluster;
mod custom;
mod program;
mod writes;
