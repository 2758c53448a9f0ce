//! The simulator itself: regressions, determinism, tapes, and a small volume of schedules.

use kube_sim::campaign::{campaign, profile_of, threads};
use kube_sim::generate::tape;
use kube_sim::tape::Tape;
use kube_sim::{coverage, regressions, workqueue, world};

#[test]
fn a_tape_that_once_failed_does_not_fail_again() {
    let count = regressions::run_all().unwrap_or_else(|error| panic!("{error}"));
    assert!(count > 0, "sim/regressions has no tapes");
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
fn a_journal_does_not_change_a_run() {
    let tape = tape(7, profile_of(7));
    let with = world::run(&tape, true);
    assert_eq!(with.hash, world::run(&tape, false).hash);
    assert!(!with.journal.is_empty());
}

#[test]
fn a_tape_survives_being_written_and_read() {
    for seed in 0..50 {
        let tape = tape(seed, profile_of(seed));
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
