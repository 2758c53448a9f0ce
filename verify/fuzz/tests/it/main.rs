//! The regressions, and a few thousand fixed inputs for every reader.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kube_fuzz::soak::executions_of;
use kube_fuzz::{Fuzzer, Outcome, execute, load, readers, regressions};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// One test at a time: the memory of an execution is that of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reader(name: &str) -> readers::Reader {
    let mut all = readers::all();
    let at = all.iter().position(|reader| reader.name == name);
    all.swap_remove(at.unwrap_or_else(|| panic!("there is no reader {name}")))
}

#[test]
fn regressions_stay_fixed() {
    let _alone = alone();
    for (name, file, input) in regressions().expect("the folder") {
        if let Err(finding) = execute(&mut reader(&name), &input) {
            panic!("verify/fuzz/regressions/{file}: {finding}");
        }
    }
}

#[test]
fn every_reader_survives_mutated_inputs() {
    let _alone = alone();
    for reader in readers::all() {
        let name = reader.name;
        let corpus = load(name).expect("the corpus");
        let mut fuzzer = Fuzzer::new(reader, corpus, 1).unwrap_or_else(|finding| panic!("{finding}"));
        for _ in 0..200 {
            if let Err(finding) = fuzzer.step(|_| ()) {
                panic!("{finding}: {:?}", String::from_utf8_lossy(&finding.input));
            }
        }
        assert!(
            fuzzer.outcomes() > 3,
            "{name} rejects everything for the same reason"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let _alone = alone();
    let inputs = || {
        let mut inputs = Vec::new();
        let mut fuzzer = Fuzzer::new(reader("list-json"), Vec::new(), 7).expect("valid seeds");
        for _ in 0..300 {
            fuzzer
                .step(|input| inputs.push(input.to_vec()))
                .expect("no finding");
        }
        inputs
    };
    assert!(inputs() == inputs());
}

fn broken(read: impl FnMut(&[u8], &mut Outcome) + 'static) -> readers::Reader {
    readers::Reader {
        name: "broken",
        seeds: vec![b"{}".to_vec()],
        words: &[],
        memory_base: 1 << 16,
        memory_per_byte: 16,
        read: Box::new(read),
    }
}

#[test]
fn a_panic_is_a_finding() {
    let _alone = alone();
    let finding = execute(&mut broken(|_, _| panic!("out of range")), b"x").expect_err("a finding");
    assert!(finding.what.contains("out of range"), "{finding}");
    assert_eq!(finding.input, b"x");
}

#[test]
fn memory_beyond_the_limit_is_a_finding() {
    let _alone = alone();
    let read = |_: &[u8], outcome: &mut Outcome| outcome.note(vec![1_u8; 1 << 20].len());
    let finding = execute(&mut broken(read), b"x").expect_err("a finding");
    assert!(finding.what.contains("more than its limit"), "{finding}");
}

#[test]
fn a_reader_that_takes_a_second_of_processor_time_is_a_finding() {
    let _alone = alone();
    let read = |_: &[u8], _: &mut Outcome| {
        let now = || clock_gettime(ClockId::ThreadCPUTime);
        let end = now()
            + Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
        while now() < end {}
    };
    let finding = execute(&mut broken(read), b"x").expect_err("a finding");
    assert!(finding.what.starts_with("took"), "{finding}");
}

#[test]
fn the_number_of_executions_is_read_from_the_output_of_a_run() {
    let output = "3 regressions\nlist-json: 1000 executions, 31 outcomes, 2.0 s\nselector: 20 executions, 3 outcomes, 0.1 s\n\
                  1020 executions in 2 s: 1.8 million per hour\n";
    assert_eq!(executions_of(output), 1020);
}
