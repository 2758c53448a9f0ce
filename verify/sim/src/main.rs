//! The command line of the simulator: see `docs/evidence/simulation.md`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use kube_sim::campaign::{Found, campaign, every_seed, profile_of, threads};
use kube_sim::coverage;
use kube_sim::generate::{self, Profile};
use kube_sim::options::{self, Done, Given};
use kube_sim::planted::{self, hunt::Lab};
use kube_sim::regressions;
use kube_sim::shrink::shrink;
use kube_sim::soak::{Part, Soak};
use kube_sim::tape::Tape;
use kube_sim::volumes::{self, Ledger, Volumes};
use kube_sim::workqueue;
use kube_sim::world::run;
use tokio::time::Instant;

const USAGE: &str = "\
usage: cargo run -p kube-sim -- COMMAND [OPTIONS]

  run                run the regressions, then many seeds; stop at the first failure
      --seeds N        the number of seeds (default 20000)
      --from N         the first seed (default 0)
      --profile NAME   one profile instead of all of them
      --threads N      the number of threads (default: all cores)
  workqueue          run many seeds of the work queue
      --seeds, --from, --threads as for run
  leases             run many seeds of elections, and a fifth as many of shard groups
      --seeds, --from, --threads as for run
  soak               run fresh seeds of everything, and add what was run to the ledger; go on after a failure
      --hours N        for how long (the last round ends after it)
      --commit ID      the commit, for the ledger
      --stack PROGRAM  also run the second layer: the test program `exact` of kube-informers
      --part NAME      only informers, work-queue, elections, shard-groups or whole-stack
      --ledger FILE    the ledger (default verify/sim/volumes.txt)
      --threads        as for run
  volumes            print the sums of the ledger
      --ledger         as for soak
  coverage           print which faults occurred in which state; fail if a pair of verify/sim/coverage.txt was not reached
      --seeds, --from, --threads as for run
      --write yes      replace verify/sim/coverage.txt
  planted            plant the bugs of verify/sim/planted.txt, one at a time, in a copy of the commit, and find each
      --seeds N        the number of seeds for each (default 5000)
      --name NAME      one of them
      --minutes N      begin none after that; the order is that of the day
  replay             run one tape and print what happens
      --seed N         the seed
      --profile NAME   the profile (default: that of `run`)
      --tape FILE      a tape from a file instead of a seed
  shrink             reduce a failing tape and write it to verify/sim/regressions/
      --seed, --profile, --tape as for replay
      --name NAME      the name of the file

profiles: swarm, calm, network, history, lists, handlers, shards; of leases: election, group
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let result = Options::parse(words).and_then(|options| match command.as_str() {
        "run" => run_many(&options),
        "workqueue" => run_workqueue(&options),
        "leases" => run_leases(&options),
        "soak" => run_soak(&options),
        "volumes" => print_volumes(&options),
        "coverage" => check_coverage(&options),
        "planted" => hunt_planted(&options),
        "replay" => replay(&options),
        "shrink" => shrink_one(&options),
        "" | "help" | "--help" => {
            print!("{USAGE}");
            Ok(true)
        }
        other => Err(format!("there is no command {other:?}; `help` lists them").into()),
    });
    options::end("kube-sim", result)
}

#[derive(Default)]
struct Options {
    seeds: Option<u64>,
    from: Option<u64>,
    seed: Option<u64>,
    threads: Option<u64>,
    profile: Option<Profile>,
    tape: Option<PathBuf>,
    name: Option<String>,
    write: bool,
    hours: Option<f64>,
    minutes: Option<u64>,
    commit: Option<String>,
    stack: Option<PathBuf>,
    part: Option<Part>,
    ledger: Option<PathBuf>,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        for given in Given::all(words)? {
            let number = || given.number();
            match given.option.as_str() {
                "--seeds" => options.seeds = Some(number()?),
                "--from" => options.from = Some(number()?),
                "--seed" => options.seed = Some(number()?),
                "--threads" => options.threads = Some(number()?),
                "--profile" => {
                    let profile = Profile::named(&given.value);
                    options.profile =
                        Some(profile.ok_or_else(|| format!("there is no profile {:?}", given.value))?);
                }
                "--minutes" => options.minutes = Some(number()?),
                "--hours" => options.hours = Some(given.hours()?),
                "--commit" => options.commit = Some(given.value),
                "--stack" => options.stack = Some(given.value.into()),
                "--part" => {
                    let part = Part::named(&given.value);
                    options.part = Some(part.ok_or_else(|| format!("there is no part {:?}", given.value))?);
                }
                "--ledger" => options.ledger = Some(given.value.into()),
                "--tape" => options.tape = Some(given.value.into()),
                "--write" => options.write = given.value == "yes",
                "--name" => options.name = Some(given.value),
                _ => return Err(given.unknown()),
            }
        }
        Ok(options)
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(threads, |threads| threads as usize)
    }

    fn ledger(&self) -> PathBuf {
        let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("volumes.txt");
        self.ledger.clone().unwrap_or_else(default)
    }

    fn tape(&self) -> Result<Tape, Box<dyn Error>> {
        match (&self.tape, self.seed) {
            (Some(file), _) => {
                let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
                Ok(text.parse().map_err(|e| format!("{}: {e}", file.display()))?)
            }
            (None, Some(seed)) => {
                let profile = self.profile.unwrap_or_else(|| profile_of(seed));
                Ok(generate::tape(seed, profile))
            }
            (None, None) => Err("give --seed N or --tape FILE".into()),
        }
    }
}

fn run_many(options: &Options) -> Done {
    println!("{} regressions", regressions::run_all()?);
    Ok(run_profile(
        options,
        options.seeds.unwrap_or(20_000),
        options.profile,
    ))
}

fn run_profile(options: &Options, count: u64, profile: Option<Profile>) -> bool {
    let threads = options.threads();
    let began = Instant::now();
    let report = campaign(options.from.unwrap_or(0), count, profile, threads);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} schedules of {} in {seconds:.1} s on {threads} threads: {:.0} per hour",
        report.schedules,
        profile.map_or("all profiles", Profile::name),
        report.schedules as f64 * 3600.0 / seconds.max(0.001),
    );
    if let Some(found) = &report.found {
        println!("{found}");
    }
    report.found.is_none()
}

fn run_workqueue(options: &Options) -> Done {
    let count = options.seeds.unwrap_or(20_000);
    let began = Instant::now();
    let (done, found) = every_seed(
        options.from.unwrap_or(0),
        count,
        options.threads(),
        workqueue::failure,
    );
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{done} schedules of the work queue in {seconds:.1} s: {:.0} per hour",
        done as f64 * 3600.0 / seconds.max(0.001)
    );
    if let Some(found) = &found {
        println!("{found}");
    }
    Ok(found.is_none())
}

fn run_leases(options: &Options) -> Done {
    let count = options.seeds.unwrap_or(5000);
    for (profile, count) in [(Profile::Election, count), (Profile::Group, count.div_ceil(5))] {
        if !run_profile(options, count, Some(profile)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run_soak(options: &Options) -> Done {
    let soak = Soak {
        hours: options.hours.ok_or("soak needs --hours N")?,
        commit: (options.commit.clone()).ok_or("soak needs --commit ID, which the ledger names")?,
        threads: options.threads(),
        stack: options.stack.clone(),
        part: options.part,
    };
    if soak.part == Some(Part::WholeStack) && soak.stack.is_none() {
        return Err("the part whole-stack needs --stack PROGRAM".into());
    }
    let mut ledger = Ledger::open(&options.ledger())?;
    let findings = soak.run(&mut ledger, |line| println!("{line}"))?;
    Ok(findings == 0)
}

fn print_volumes(options: &Options) -> Done {
    let file = options.ledger();
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|error| named(&error))?;
    let volumes = Volumes::parse(&text).map_err(|error| named(&error))?;
    print!("{}", volumes::table(&volumes));
    Ok(true)
}

fn check_coverage(options: &Options) -> Done {
    let threads = options.threads();
    let count = options.seeds.unwrap_or(5000);
    let report = campaign(options.from.unwrap_or(0), count, options.profile, threads);
    print!("{}", coverage::table(&report.coverage));
    if let Some(found) = &report.found {
        println!("{found}");
        return Ok(false);
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("coverage.txt");
    if options.write {
        std::fs::write(&file, coverage::baseline(&report.coverage))?;
        return Ok(true);
    }
    let baseline =
        std::fs::read_to_string(&file).map_err(|error| format!("verify/sim/coverage.txt: {error}"))?;
    let lost = coverage::lost(&report.coverage, &baseline);
    for pair in &lost {
        println!("no longer reached: {pair}");
    }
    Ok(lost.is_empty())
}

fn hunt_planted(options: &Options) -> Done {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let lab = Lab::new(
        &repository,
        &target.join("planted"),
        options.seeds.unwrap_or(5000),
    )?;
    let mut bugs = planted::read(lab.tree())?;
    bugs.retain(|bug| options.name.as_ref().is_none_or(|name| *name == bug.name));
    if bugs.is_empty() {
        return Err("there is no such bug in verify/sim/planted.txt".into());
    }
    if options.minutes.is_some() {
        let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
        Rng::with_seed(day).shuffle(&mut bugs);
    }
    let until = options
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let mut checked: Vec<&[String]> = Vec::new();
    let mut survivors: Vec<&str> = Vec::new();
    let mut tried = 0;
    for bug in &bugs {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        if !checked.contains(&bug.found_by.as_slice()) {
            lab.check(&bug.found_by)?;
            checked.push(&bug.found_by);
        }
        let hunt = lab.hunt(bug)?;
        println!("{:<26} {hunt}", bug.name);
        tried += 1;
        if hunt.found.is_none() {
            survivors.push(&bug.name);
        }
    }
    println!(
        "{} of {tried} found; {} in the list",
        tried - survivors.len(),
        bugs.len()
    );
    for survivor in &survivors {
        println!("not found: {survivor}");
    }
    Ok(survivors.is_empty())
}

fn replay(options: &Options) -> Done {
    let outcome = run(&options.tape()?, true);
    for line in &outcome.journal {
        println!("{line}");
    }
    println!("hash {:016x}", outcome.hash);
    if let Some(failure) = &outcome.failure {
        println!("step {}: violates {}", failure.step, failure.violation);
    }
    Ok(outcome.failure.is_none())
}

fn shrink_one(options: &Options) -> Done {
    let tape = options.tape()?;
    let Some(shrunk) = shrink(&tape) else {
        println!("the tape violates nothing");
        return Ok(true);
    };
    let outcome = run(&shrunk.tape, true);
    let failure = outcome.failure.ok_or("the shortened tape does not fail")?;
    let mut text = format!("# Violated {}\n", failure.violation);
    if let Some(seed) = options.seed {
        let profile = options.profile.unwrap_or_else(|| profile_of(seed));
        let found = Found {
            seed,
            profile,
            failure: failure.clone(),
            hash: outcome.hash,
        };
        text.push_str(&format!(
            "# Shortened from seed {} of profile {}.\n",
            found.seed,
            profile.name()
        ));
    }
    text.push('\n');
    for (name, value) in shrunk.tape.settings.pairs() {
        text.push_str(&format!("set {name} {value}\n"));
    }
    text.push('\n');
    let mut lines = outcome.journal.iter();
    for op in &shrunk.tape.ops {
        let comment = lines.find(|line| line.starts_with(&op.to_string()));
        text.push_str(comment.unwrap_or(&op.to_string()));
        text.push('\n');
    }
    let default = format!(
        "{}-{:08x}",
        failure.violation.invariant.to_lowercase(),
        outcome.hash as u32
    );
    let name = options.name.clone().unwrap_or(default);
    let file = regressions::folder().join(format!("{name}.tape"));
    std::fs::write(&file, &text)?;
    println!(
        "{text}\n{} entries, {} tapes tried: verify/sim/regressions/{name}.tape",
        shrunk.tape.ops.len(),
        shrunk.tried
    );
    Ok(false)
}
