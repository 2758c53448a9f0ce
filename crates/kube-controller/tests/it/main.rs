//! Behaviour of the controller on the embedded server, on a paused clock. One binary.

mod ends;
mod failures;
mod keys;
mod predicates;
mod shutdown;
mod support;
mod sync;
mod workers;
