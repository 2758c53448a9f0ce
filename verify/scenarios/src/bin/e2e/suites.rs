//! Compares the results of third-party test suites with the list of known failures; `verify/scenarios/suites` runs it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use kube_informers_e2e::suites::{Exceptions, Outcome, Results, Run, page, replace_between_markers};

/// Prints counts; fails if a spec fails that is not listed, or the other way around. With a page, also writes the table between its
/// markers.
pub fn main(arguments: &[String]) -> ExitCode {
    let result = match arguments {
        [results, exceptions] => run(results, exceptions, None),
        [results, exceptions, page] => run(results, exceptions, Some(page)),
        _ => Err("usage: e2e suites RESULTS EXCEPTIONS [PAGE]".to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("e2e suites: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the results are the expected ones.
fn run(results: &str, list: &str, written: Option<&String>) -> Result<bool, String> {
    let run = Run::read(Path::new(results)).map_err(|error| format!("cannot read the results: {error}"))?;
    let text = fs::read_to_string(list).map_err(|error| format!("cannot read {list}: {error}"))?;
    let exceptions = Exceptions::parse(&text).map_err(|error| format!("{list}, {error}"))?;
    for (server, results) in [("real", run.real.as_ref()), ("embedded", Some(&run.embedded))] {
        if let Some(results) = results {
            print_counts(server, results);
        }
    }
    let disagreements = exceptions.disagreements(&run);
    for disagreement in &disagreements {
        println!("{disagreement}");
    }
    if let Some(path) = written {
        let error = |error: String| format!("cannot write {path}: {error}");
        let text = fs::read_to_string(path).map_err(|found| error(found.to_string()))?;
        let section = page(&run, &exceptions).map_err(error)?;
        let text = replace_between_markers(&text, &section).map_err(error)?;
        fs::write(path, text).map_err(|found| error(found.to_string()))?;
    }
    Ok(disagreements.is_empty())
}

fn print_counts(server: &str, results: &Results) {
    for (suite, specs) in results {
        let count = |wanted: fn(&Outcome) -> bool| specs.values().filter(|outcome| wanted(outcome)).count();
        println!(
            "{server}: {suite}: {} passed, {} failed, {} skipped",
            count(|outcome| *outcome == Outcome::Passed),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| *outcome == Outcome::Skipped)
        );
    }
}
