//! The command line of the fuzzer: see `docs/evidence/simulation.md`.

use std::cell::RefCell;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kube_fuzz::readers::{self, Reader};
use kube_fuzz::soak::Soak;
use kube_fuzz::{Fuzzer, SEED_EXECUTIONS, execute, load, regressions, save, save_regression};
use kube_sim::campaign::threads;
use kube_sim::options::{self, Done, Given};
use kube_sim::volumes::{self, Ledger, Volumes};
use tokio::time::Instant;

const USAGE: &str = "\
usage: cargo run --profile sim -p kube-fuzz -- COMMAND [OPTIONS]

  run                the regressions, then mutated inputs for every reader; stops at the first finding
      --executions N   for each reader (default 20000)
      --seed N         the first seed (default 0); each round of 100,000 executions has a seed of its own
      --reader NAME    one reader, or all whose names begin with NAME
      --rounds N       repeat all of it with the following seeds (default 1)
      --trace FILE     write every input to FILE before it is read: for an execution that ends the process
      --seconds N      go on to the next reader after N seconds (default: never)
  soak               fresh seeds of all readers in one process per core; adds what was executed to the ledger
      --hours N        for how long (the last round ends after it)
      --commit ID      the commit, for the ledger
      --ledger FILE    the ledger (default verify/fuzz/volumes.txt)
      --processes N    instead of one per core
      --executions, --seconds  of each reader and seed (defaults 1000000 and 20)
  volumes            print the sums of the ledger
  corpus             as run, then replace verify/fuzz/corpus by the shortest inputs of each outcome
  replay FILE        read one input, as its file name in verify/fuzz/regressions says
  list               the readers
";

fn main() -> ExitCode {
    // A panic is reported as a finding.
    std::panic::set_hook(Box::new(|_| {}));
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let result = match command.as_str() {
        "run" => Options::parse(words).and_then(|options| run(&options, false)),
        "corpus" => Options::parse(words).and_then(|options| run(&options, true)),
        "soak" => Options::parse(words).and_then(|options| run_soak(&options)),
        "volumes" => Options::parse(words).and_then(|options| print_volumes(&options)),
        "replay" => replay(words.next()),
        "list" => {
            for reader in readers::all() {
                println!("{}", reader.name);
            }
            Ok(true)
        }
        "" | "help" | "--help" => {
            print!("{USAGE}");
            Ok(true)
        }
        other => Err(format!("there is no command {other:?}; `help` lists them").into()),
    };
    options::end("kube-fuzz", result)
}

#[derive(Default)]
struct Options {
    executions: Option<u64>,
    seconds: Option<u64>,
    seed: u64,
    rounds: Option<u64>,
    reader: Option<String>,
    trace: Option<String>,
    hours: Option<f64>,
    commit: Option<String>,
    ledger: Option<PathBuf>,
    processes: Option<u64>,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        for given in Given::all(words)? {
            let number = || given.number();
            match given.option.as_str() {
                "--executions" => options.executions = Some(number()?),
                "--seconds" => options.seconds = Some(number()?),
                "--seed" => options.seed = number()?,
                "--rounds" => options.rounds = Some(number()?),
                "--processes" => options.processes = Some(number()?),
                "--hours" => options.hours = Some(given.hours()?),
                "--commit" => options.commit = Some(given.value),
                "--ledger" => options.ledger = Some(given.value.into()),
                "--reader" => options.reader = Some(given.value),
                "--trace" => options.trace = Some(given.value),
                _ => return Err(given.unknown()),
            }
        }
        Ok(options)
    }

    fn ledger(&self) -> PathBuf {
        let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("volumes.txt");
        self.ledger.clone().unwrap_or_else(default)
    }

    fn readers(&self) -> Result<Vec<Reader>, Box<dyn Error>> {
        let mut readers = readers::all();
        if let Some(name) = &self.reader {
            let exact = readers.iter().any(|reader| reader.name == name);
            readers.retain(|reader| reader.name == name || !exact && reader.name.starts_with(name.as_str()));
        }
        if readers.is_empty() {
            return Err("no such reader; `list` prints them".into());
        }
        Ok(readers)
    }
}

fn run(options: &Options, keep: bool) -> Done {
    let count = run_regressions()?;
    println!("{count} regressions");
    let mut total = 0;
    let began = Instant::now();
    for round in 0..options.rounds.unwrap_or(1) {
        for reader in options.readers()? {
            total += match fuzz(reader, options, round, keep)? {
                Some(executions) => executions,
                None => return Ok(false),
            };
        }
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{total} executions in {seconds:.0} s: {:.1} million per hour",
            total as f64 * 0.0036 / seconds.max(0.001)
        );
    }
    Ok(true)
}

fn run_soak(options: &Options) -> Done {
    let soak = Soak {
        hours: options.hours.ok_or("soak needs --hours N")?,
        commit: (options.commit.clone()).ok_or("soak needs --commit ID, which the ledger names")?,
        processes: options.processes.unwrap_or_else(|| threads() as u64),
        executions: options.executions.unwrap_or(1_000_000),
        seconds: options.seconds.unwrap_or(20),
    };
    let mut ledger = Ledger::open(&options.ledger())?;
    let findings = soak.run(&mut ledger)?;
    Ok(findings == 0)
}

fn print_volumes(options: &Options) -> Done {
    let file = options.ledger();
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| named(&error))?;
    let volumes = Volumes::parse(&text).map_err(|error| named(&error))?;
    print!("{}", volumes::table(&volumes));
    Ok(true)
}

/// The number of executions; none after a finding.
fn fuzz(reader: Reader, options: &Options, round: u64, keep: bool) -> Result<Option<u64>, Box<dyn Error>> {
    let name = reader.name;
    let seeds = reader.seeds.clone();
    let mut corpus = load(name)?;
    let mut reader = Some(reader);
    let (mut executions, mut outcomes) = (0, 0);
    let began = Instant::now();
    let mut part = 0;
    let wanted = options.executions.unwrap_or(20_000);
    let end = options
        .seconds
        .map(|seconds| began + Duration::from_secs(seconds));
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    while executions < wanted && !is_over() {
        let seed = options.seed + (round << 32) + part;
        part += 1;
        let mut reader = match reader.take() {
            Some(reader) => reader,
            None => only(name)?,
        };
        reader.seeds.clone_from(&seeds);
        let trace = options.trace.as_ref();
        let failed = RefCell::new(None);
        let mut fuzzer = match Fuzzer::new(reader, corpus.clone(), seed) {
            Ok(fuzzer) => fuzzer,
            Err(finding) => return report(&finding),
        };
        for number in 0..SEED_EXECUTIONS.min(wanted - executions) {
            if number % 64 == 63 && is_over() {
                break;
            }
            let step = fuzzer.step(|input| {
                if let Some(file) = trace
                    && let Err(error) = fs::write(file, input)
                {
                    failed.replace(Some(error));
                }
            });
            if let Err(finding) = step {
                println!("seed {seed}, execution {}", fuzzer.executions());
                return report(&finding);
            }
        }
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        executions += fuzzer.executions();
        outcomes = outcomes.max(fuzzer.outcomes());
        if keep {
            corpus = fuzzer.distinct();
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: {executions} executions, {outcomes} outcomes, {seconds:.1} s");
    if keep {
        let kept = save(name, corpus)?;
        println!("{name}: {kept} inputs in verify/fuzz/corpus/{name}.txt");
    }
    Ok(Some(executions))
}

fn only(name: &str) -> Result<Reader, String> {
    let mut readers = readers::all();
    let at = readers.iter().position(|reader| reader.name == name);
    let at = at.ok_or_else(|| format!("there is no reader {name:?}; `list` prints them"))?;
    Ok(readers.swap_remove(at))
}

fn report(finding: &kube_fuzz::Finding) -> Result<Option<u64>, Box<dyn Error>> {
    let name = save_regression(finding)?;
    println!(
        "{finding}; replay: cargo run --profile sim -p kube-fuzz -- replay verify/fuzz/regressions/{name}"
    );
    Ok(None)
}

fn run_regressions() -> Result<usize, Box<dyn Error>> {
    let all = regressions()?;
    for (reader, name, input) in &all {
        let mut reader = only(reader).map_err(|error| format!("verify/fuzz/regressions/{name}: {error}"))?;
        execute(&mut reader, input)
            .map_err(|finding| format!("verify/fuzz/regressions/{name}: {finding}"))?;
    }
    Ok(all.len())
}

fn replay(file: Option<String>) -> Done {
    let file = file.ok_or("replay needs a file")?;
    let name = file.rsplit('/').next().unwrap_or(&file);
    let mut reader = only(name.split('.').next().unwrap_or(name))?;
    let input = fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
    // With the location of a panic.
    drop(std::panic::take_hook());
    match execute(&mut reader, &input) {
        Ok(signature) => {
            println!("no finding; the outcome is {signature:016x}");
            Ok(true)
        }
        Err(finding) => {
            println!("{finding}");
            Ok(false)
        }
    }
}
