//! The simulator itself: determinism, regressions, volumes.

use kube_sim::generate::{Profile, tape};
use kube_sim::world::run;

#[test]
fn a_tape_that_is_run_twice_gives_the_same_trace() {
    for seed in 0..200 {
        let profile = Profile::ALL[seed as usize % Profile::ALL.len()];
        let tape = tape(seed, profile);
        let (first, second) = (run(&tape, false), run(&tape, false));
        assert_eq!(first.hash, second.hash, "seed {seed}, profile {}", profile.name());
    }
}
