//! The simulator itself: regressions, determinism, tapes, and a small volume of schedules.

mod interleavings;
mod logs;
mod planted;

use kube_sim::campaign::{campaign, profile_of, threads};
use kube_sim::generate::{Profile, tape};
use kube_sim::shrink::shrink;
use kube_sim::tape::{Kind, Tape};
use kube_sim::world::ReflectorPhase;
use kube_sim::{coverage, regressions, workqueue, world};

#[test]
fn a_tape_that_once_failed_does_not_fail_again() {
    let count = regressions::run_all().unwrap_or_else(|error| panic!("{error}"));
    assert!(count > 0, "verify/sim/regressions has no tapes");
}

#[test]
fn a_tape_that_is_run_twice_gives_the_same_trace() {
    for seed in 0..200 {
        let tape = tape(seed, profile_of(seed));
        let (first, second) = (world::run(&tape, false), world::run(&tape, false));
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_eq!(
            workqueue::run(seed).0,
            workqueue::run(seed).0,
            "work queue, seed {seed}"
        );
    }
}

#[test]
fn a_tape_of_leases_that_is_run_twice_gives_the_same_trace() {
    for seed in 0..200 {
        for profile in [Profile::Election, Profile::Group] {
            let tape = tape(seed, profile);
            let (first, second) = (world::run(&tape, false), world::run(&tape, false));
            assert_eq!(first.hash, second.hash, "{}, seed {seed}", profile.name());
        }
    }
}

#[test]
fn a_journal_does_not_change_a_run() {
    for profile in [profile_of(7), Profile::Election, Profile::Group] {
        let tape = tape(7, profile);
        let with = world::run(&tape, true);
        assert_eq!(with.hash, world::run(&tape, false).hash);
        assert!(with.journal.len() >= tape.ops.len(), "{}", profile.name());
    }
}

#[test]
fn a_tape_survives_being_written_and_read() {
    for seed in 0..50 {
        let profile = [profile_of(seed), Profile::Group][(seed % 2) as usize];
        let tape = tape(seed, profile);
        assert_eq!(tape.to_string().parse::<Tape>(), Ok(tape));
    }
}

#[test]
fn a_line_that_is_not_part_of_a_tape_is_named() {
    for (text, problem) in [
        ("create 1 0\nfly 1 2", "line 2: there is no operation \"fly\""),
        ("set wings 2", "line 1: there is no setting \"wings\""),
        ("create x 2", "line 1: \"x\" is not a number"),
        ("create", "line 1: expected `set NAME VALUE` or `OPERATION A B`"),
    ] {
        let error = text.parse::<Tape>().unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
}

#[test]
fn schedules_of_informers_violate_nothing() {
    let report = campaign(0, 300, None, threads());
    if let Some(found) = report.found {
        panic!("{found}");
    }
    assert_eq!(report.schedules, 300);
}

#[test]
fn schedules_of_elections_and_shard_groups_violate_nothing() {
    for (profile, count) in [(Profile::Election, 1000), (Profile::Group, 150)] {
        let report = campaign(0, count, Some(profile), threads());
        if let Some(found) = report.found {
            panic!("{found}");
        }
        assert_eq!(report.schedules, count);
    }
}

/// Nothing is lost on the way from a failing seed to a file in `verify/sim/regressions`.
#[test]
fn a_failing_election_is_shortened_to_a_few_entries() {
    let failing = (0..200).find_map(|seed| {
        let mut tape = tape(seed, Profile::Election);
        tape.settings.clocks = 2;
        world::run(&tape, false).failure.map(|_| tape)
    });
    let tape = failing.expect("clocks beyond the bound elect two");
    let shrunk = shrink(&tape).expect("it fails");
    assert!(shrunk.tape.ops.len() * 4 < tape.ops.len(), "{}", shrunk.tape);
    assert!(world::run(&shrunk.tape, false).failure.is_some());
}

/// A set of pieces that moves: what was given up is gone at once, what is gained arrives.
#[test]
fn every_state_of_a_shard_that_moves_is_reached() {
    let report = campaign(0, 400, Some(Profile::Shards), threads());
    if let Some(found) = report.found {
        panic!("{found}");
    }
    for state in ReflectorPhase::ALL {
        assert!(
            report.coverage.contains_key(&(state, Kind::MoveShard)),
            "no move in the state {state:?}"
        );
    }
}

#[test]
fn schedules_of_the_work_queue_violate_nothing() {
    for seed in 0..1000 {
        if let (_, Some((step, violation))) = workqueue::run(seed) {
            panic!("seed {seed}, step {step}: {violation}");
        }
    }
}

#[test]
fn a_pair_that_is_no_longer_reached_is_named() {
    let report = campaign(0, 40, None, threads());
    let baseline = coverage::baseline(&report.coverage);
    assert!(coverage::lost(&report.coverage, &baseline).is_empty());

    let more = format!("{baseline}Watching earthquake\n");
    assert_eq!(coverage::lost(&report.coverage, &more), ["Watching earthquake"]);
}
