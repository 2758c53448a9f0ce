//! Planted bugs. One test, because only one bug can be planted in a process.

use kube_informers::sim::{Mutant, activate};
use kube_sim::campaign::{campaign, threads};
use kube_sim::generate::tape;
use kube_sim::mutants::hunt;
use kube_sim::shrink::shrink;
use kube_sim::world::run;

#[test]
fn every_planted_bug_is_found_and_a_failing_tape_is_shortened_to_a_few_entries() {
    let hunts = hunt(5000, None, |_| {});
    let missed: Vec<&str> = (hunts.iter())
        .filter(|hunt| hunt.found.is_none())
        .map(|hunt| hunt.mutant.as_str())
        .collect();
    assert!(missed.is_empty(), "not found within 5,000 seeds: {missed:?}");
    assert!(hunts.len() >= 40);

    activate(Some(Mutant::MissedDeleteLost));
    let found = campaign(0, 5000, None, threads()).found;
    let found = found.expect("it was found above");
    let line = found.to_string();
    let replay = format!("replay --seed {} --profile {}", found.seed, found.profile.name());
    assert!(line.contains("invariant=C3") && line.contains(&replay), "{line}");

    let long = tape(found.seed, found.profile);
    let shrunk = shrink(&long).expect("the tape fails").tape;
    let failure = run(&shrunk, false)
        .failure
        .expect("the shortened tape fails as well");
    assert_eq!(failure.violation.invariant, "C3");
    assert!(
        shrunk.ops.len() <= 20,
        "{} of {} entries:\n{shrunk}",
        shrunk.ops.len(),
        long.ops.len()
    );

    activate(None);
    assert!(
        run(&shrunk, false).failure.is_none(),
        "it fails because of the planted bug"
    );
}
