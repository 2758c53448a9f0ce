//! A kube-runtime `Controller` fed from informers, on the embedded server and a paused clock.

mod controller;
mod reader;
mod streams;
mod support;
