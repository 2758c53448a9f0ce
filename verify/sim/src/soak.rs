//! Fresh seeds for hours, with a ledger of what was run.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use crate::campaign::{campaign, every_seed};
use crate::generate::Profile;
use crate::volumes::{Ledger, LedgerEntry, table};
use crate::workqueue;

/// How long a soak runs, and what.
#[derive(Debug)]
pub struct Soak {
    /// Until when; the round that is running then still ends.
    pub hours: f64,
    /// The commit of the code under test.
    pub commit: String,
    /// The number of threads.
    pub threads: usize,
    /// The test program of the second layer: `exact` of `kube-informers`.
    pub stack: Option<PathBuf>,
    /// What to run; everything by default.
    pub part: Option<Part>,
}

/// What is run in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Informers, on one thread.
    Informers,
    /// The work queue.
    WorkQueue,
    /// Leader election.
    Elections,
    /// Shard groups.
    ShardGroups,
    /// The second layer.
    WholeStack,
}

/// What one round of a part did.
#[derive(Debug, Default)]
struct Round {
    seeds: u64,
    done: u64,
    findings: Vec<String>,
}

/// The seeds between two runs of the second layer: each of its tests has its own thousand.
const STACK_SEEDS: u64 = 10_000;

impl Part {
    const ALL: [Self; 5] = [
        Self::Informers,
        Self::WorkQueue,
        Self::Elections,
        Self::ShardGroups,
        Self::WholeStack,
    ];

    /// The part with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Its name in the ledger.
    fn name(self) -> &'static str {
        match self {
            Self::Informers => "informers",
            Self::WorkQueue => "work-queue",
            Self::Elections => "elections",
            Self::ShardGroups => "shard-groups",
            Self::WholeStack => "whole-stack",
        }
    }

    fn run(self, first: u64, soak: &Soak) -> Result<Round, String> {
        let tapes = |seeds, profile| {
            let report = campaign(first, seeds, profile, soak.threads);
            Ok(Round {
                seeds,
                done: report.schedules,
                findings: report.found.iter().map(ToString::to_string).collect(),
            })
        };
        match self {
            Self::Informers => tapes(50_000, None),
            Self::Elections => tapes(10_000, Some(Profile::Election)),
            Self::ShardGroups => tapes(2_000, Some(Profile::Group)),
            Self::WorkQueue => {
                let seeds = 100_000;
                let (done, found) = every_seed(first, seeds, soak.threads, workqueue::failure);
                Ok(Round {
                    seeds,
                    done,
                    findings: found.into_iter().collect(),
                })
            }
            Self::WholeStack => soak.whole_stack(first),
        }
    }
}

impl Soak {
    /// Runs one part after the other until the time is over. Goes on after a finding. Returns the number of findings.
    ///
    /// # Errors
    ///
    /// The ledger cannot be written, or the program of the second layer cannot be run.
    pub fn run(&self, ledger: &mut Ledger, mut print: impl FnMut(&dyn fmt::Display)) -> Result<u64, String> {
        let end = Instant::now() + Duration::from_secs_f64(self.hours * 3600.0);
        let mut findings = 0;
        while Instant::now() < end {
            for part in Part::ALL {
                let is_possible = part != Part::WholeStack || self.stack.is_some();
                if !is_possible || self.part.is_some_and(|wanted| wanted != part) {
                    continue;
                }
                let first = ledger.volumes().next_seed(part.name());
                let began = Instant::now();
                let round = part.run(first, self)?;
                let seconds = began.elapsed().as_secs_f64();
                for finding in &round.findings {
                    print(finding);
                }
                let found = round.findings.len() as u64;
                findings += found;
                let entry =
                    LedgerEntry::today(&self.commit, part.name(), first, round.seeds, round.done, found);
                ledger
                    .add(entry)
                    .map_err(|error| format!("the ledger: {error}"))?;
                print(&format_args!(
                    "{}: {} from seed {first} in {seconds:.0} s, {:.0} per hour",
                    part.name(),
                    round.done,
                    round.done as f64 * 3600.0 / seconds.max(0.001),
                ));
            }
            print(&table(ledger.volumes()).trim_end());
        }
        Ok(findings)
    }

    /// One run of the tests of the second layer, which print how many schedules they ran.
    fn whole_stack(&self, first: u64) -> Result<Round, String> {
        let Some(program) = &self.stack else {
            return Ok(Round::default());
        };
        let offset = first * STACK_SEEDS;
        let output = Command::new(program)
            .args(["exact", "--nocapture", "--test-threads"])
            .arg(self.threads.to_string())
            .env("KUBE_INFORMERS_SEEDS", STACK_SEEDS.to_string())
            .env("KUBE_INFORMERS_SEED_OFFSET", offset.to_string())
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let done = text.lines().filter_map(schedules_of).sum();
        if output.status.success() && done == 0 {
            return Err(format!(
                "{} ran no schedules: is it the test program `exact` of kube-informers?",
                program.display()
            ));
        }
        let mut findings = Vec::new();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            findings.push(format!(
                "the whole stack with KUBE_INFORMERS_SEED_OFFSET={offset}: {}\n{text}{errors}",
                output.status
            ));
        }
        Ok(Round {
            seeds: 1,
            done,
            findings,
        })
    }
}

/// The number in a line such as `whole stack: 130 schedules`. A line may begin with what the test harness printed.
fn schedules_of(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("whole stack: ")?;
    rest.strip_suffix(" schedules")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_schedules_is_read_from_the_output_of_the_tests() {
        assert_eq!(schedules_of("whole stack: 130 schedules"), Some(130));
        assert_eq!(
            schedules_of("test exact::a ... whole stack: 7 schedules"),
            Some(7)
        );
        assert_eq!(schedules_of("test exact::a ... ok"), None);
    }
}
