//! This library, client-go and kube-runtime doing the same jobs on the same server, each in a process of its own and
//! measured from outside. `peers/bench/run` runs everything; the README says what is measured and how.

pub mod controller;
pub mod peer;
pub mod pod;
pub mod replay;
