//! Tries a random sample of mutants, and keeps the results. Started by `verify/sim/mutation-sample`, which says how.

// Not a part of the library: there is no runtime, and no clock to pause.
#![allow(clippy::disallowed_methods)]

mod lab;
mod mutants;
mod results;
mod schema;
mod suites;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use lab::Lab;
use mutants::Mutant;
use results::{Results, Verdict};

const SIZE: usize = 200;
const SEED: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [folder, file, commit, command @ ..] = &arguments[..] else {
        return Err(
            "usage: mutation-sample FOLDER RESULTS COMMIT [COUNT | again | try TEXT | summary]".into(),
        );
    };
    let (folder, file) = (Path::new(folder), Path::new(file));
    if command == ["summary"] {
        println!("{}", Results::read(file)?.summary());
        return Ok(());
    }
    let mutants: Vec<Mutant> = serde_json::from_slice(&fs::read(folder.join("mutants.json"))?)?;
    let mutants = mutants::named(mutants);
    if !file.exists() {
        let title = format!(
            "A random sample of {SIZE} of the {} mutants at commit {commit}: see verify/sim/mutation-sample.",
            mutants.len()
        );
        let names = mutants.iter().map(|mutant| mutant.name.clone()).collect();
        Results::new(file, &title, mutants::sample(names, SIZE, SEED)).write()?;
    }
    let results = Results::read(file)?;
    match command {
        ["try", text] => try_text(folder, mutants, text),
        [] => try_sample(folder, mutants, results, Verdict::Open, usize::MAX),
        ["again"] => try_sample(folder, mutants, results, Verdict::Missed, usize::MAX),
        [count] => try_sample(folder, mutants, results, Verdict::Open, count.parse()?),
        _ => Err("expected COUNT, again, try TEXT or summary".into()),
    }
}

/// How many mutants are tried at the same time.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Tries mutants of the sample with this verdict, and keeps what happens to them.
fn try_sample(
    folder: &Path,
    mutants: Vec<Mutant>,
    mut results: Results,
    verdict: Verdict,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    let names: BTreeSet<String> = results.lines.iter().map(|line| line.name.clone()).collect();
    let mutants: Vec<Mutant> = mutants
        .into_iter()
        .filter(|mutant| names.contains(&mutant.name))
        .collect();
    for name in names
        .iter()
        .filter(|name| !mutants.iter().any(|mutant| mutant.name == **name))
    {
        results.set(name, Verdict::Gone, "");
    }
    results.write()?;
    // Those with a verdict are not built again.
    let open: BTreeSet<&str> = results
        .lines
        .iter()
        .filter(|line| matches!(line.verdict, Verdict::Open | Verdict::Missed))
        .map(|line| &*line.name)
        .collect();
    let mutants: Vec<Mutant> = mutants
        .into_iter()
        .filter(|mutant| open.contains(&*mutant.name))
        .collect();
    let wanted = results
        .lines
        .iter()
        .filter(|line| line.verdict == verdict)
        .take(count);
    let numbers: BTreeSet<usize> = wanted
        .filter_map(|line| mutants.iter().position(|mutant| mutant.name == line.name))
        .collect();
    let results = Mutex::new(results);
    Lab::new(folder, mutants).try_all(&numbers, jobs(), &|mutant, verdict, detail| {
        println!("{verdict}: {} {detail}", mutant.name);
        let mut results = results
            .lock()
            .map_err(|_| io::Error::other("another worker panicked"))?;
        results.set(&mutant.name, verdict, detail);
        results.write()
    })?;
    println!("{}", results.into_inner()?.summary());
    Ok(())
}

/// Tries mutants whose names contain a text, whether they are in the sample or not.
fn try_text(folder: &Path, mutants: Vec<Mutant>, text: &str) -> Result<(), Box<dyn Error>> {
    let mutants: Vec<Mutant> = mutants
        .into_iter()
        .filter(|mutant| mutant.name.contains(text))
        .collect();
    if mutants.is_empty() {
        return Err(format!("no mutant's name contains {text:?}").into());
    }
    let numbers = (0..mutants.len()).collect();
    Lab::new(folder, mutants).try_all(&numbers, jobs(), &|mutant, verdict, detail| {
        println!("{verdict}: {} {detail}", mutant.name);
        Ok(())
    })?;
    Ok(())
}
