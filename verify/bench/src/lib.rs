//! Benchmarks of this library, client-go and kube-runtime doing the same jobs on the same server, each in a separate
//! process and measured from outside. `verify/bench/run` runs everything; the README describes what is measured.

pub mod controller;
pub mod kind;
pub mod peer;
pub mod pod;
pub mod replay;
