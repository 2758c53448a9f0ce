//! The tests of `it/exact` as a program of their own, for soaks: it is built in a fraction of the time, so that an optimised build pays
//! off. `cargo test` does not run it, because `it` has the same tests.

#[path = "it/exact/mod.rs"]
mod exact;
mod support {
    pub use kube_test_kit::{minutes, pass, secs};
}
