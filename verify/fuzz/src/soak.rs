//! Fresh seeds for hours, with a ledger of what was executed.
//!
//! The memory of an execution is that of its process, so each core has a process of its own.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use kube_sim::volumes::{Ledger, LedgerEntry, table};
use tokio::time::Instant;

use crate::SEED_EXECUTIONS;

/// The name in the ledger.
const PART: &str = "fuzz";

/// How long a soak runs, and in which steps.
#[derive(Debug)]
pub struct Soak {
    /// Until when; the round that is running then still ends.
    pub hours: f64,
    /// The commit of the code under test.
    pub commit: String,
    /// The number of processes.
    pub processes: u64,
    /// Of each reader with each seed.
    pub executions: u64,
    /// The next reader follows after this time, even with fewer executions.
    pub seconds: u64,
}

impl Soak {
    /// Runs one seed per process, round by round, until the time is over. Goes on after a finding. Returns the number of findings.
    ///
    /// # Errors
    ///
    /// The ledger cannot be written, the program cannot run itself, or the regressions fail, which come before everything else.
    pub fn run(&self, ledger: &mut Ledger) -> Result<u64, String> {
        let end = Instant::now() + Duration::from_secs_f64(self.hours * 3600.0);
        let mut findings = 0;
        while Instant::now() < end {
            // The seeds of a run are its first one and those of its parts of 100,000 executions.
            let first = ledger.volumes().next_seed(PART);
            let parts = self.executions.div_ceil(SEED_EXECUTIONS).max(1);
            let began = Instant::now();
            let children: Vec<_> = (0..self.processes.max(1))
                .map(|number| first + number * parts)
                .map(|seed| self.start(seed).map(|child| (seed, child)))
                .collect::<Result<_, _>>()?;
            let (mut done, mut found) = (0, 0);
            for (seed, child) in children {
                let output = child.wait_with_output().map_err(|error| error.to_string())?;
                done += executions_of(&String::from_utf8_lossy(&output.stdout));
                if !output.status.success() {
                    found += 1;
                    println!("{}", failure(seed, &output));
                }
            }
            if done == 0 && found > 0 {
                return Err("no input was executed: the regressions fail, or the program cannot run".into());
            }
            findings += found;
            let seeds = parts * self.processes.max(1);
            let entry = LedgerEntry::today(&self.commit, PART, first, seeds, done, found);
            ledger
                .add(entry)
                .map_err(|error| format!("the ledger: {error}"))?;
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "{done} executions from seed {first} in {seconds:.0} s, {:.1} million per hour",
                done as f64 * 0.0036 / seconds.max(0.001)
            );
            print!("{}", table(ledger.volumes()));
        }
        Ok(findings)
    }

    fn start(&self, seed: u64) -> Result<std::process::Child, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("run");
        for (option, value) in [
            ("--seed", seed),
            ("--executions", self.executions),
            ("--seconds", self.seconds),
        ] {
            command.arg(option).arg(value.to_string());
        }
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| error.to_string())
    }
}

fn failure(seed: u64, output: &Output) -> String {
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!(
        "seed {seed}: {}; if it left no input, `run --seed {seed} --trace FILE` does\n{text}{errors}",
        output.status
    )
}

/// The sum of the lines such as `list-json: 100000 executions, 31 outcomes, 2.0 s`.
pub fn executions_of(output: &str) -> u64 {
    let counts = output.lines().filter_map(|line| {
        let (_, rest) = line.split_once(": ")?;
        rest.split_once(" executions, ")?.0.parse::<u64>().ok()
    });
    counts.sum()
}
