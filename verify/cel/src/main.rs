//! Runs CEL's conformance cases on our evaluator and on the crate `cel`, and counts for each file how many pass.
//!
//! The cases are read from the standard input, as `verify/go/cel-cases` prints them. A case passes if it has the expected
//! value, of the expected type, or fails where an error is expected. `--failed NAME` prints the cases of a file that fail.

mod expected;
mod ours;
mod theirs;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value as Json;

/// The value of an expression in a notation that both evaluators are brought to.
type Outcome = Result<String, String>;

#[derive(Default)]
struct Count {
    cases: usize,
    ours: usize,
    theirs: usize,
    /// Cases about protobuf messages, which neither evaluator has. Not run.
    messages: usize,
    /// Cases that are evaluated without being checked, which an API server never does. Not run.
    unchecked: usize,
}

fn main() {
    let shown = std::env::args().skip_while(|word| word != "--failed").nth(1);
    std::panic::set_hook(Box::new(|_| {}));
    // Without optimisation, a parser of nested expressions needs more than the usual stack.
    let run = move || {
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        let mut panics = [0, 0];
        for line in std::io::stdin().lock().lines() {
            let case: Json = serde_json::from_str(&line.expect("text")).expect("a case");
            let text = |name: &str| case[name].as_str().unwrap_or_default();
            let count = counts.entry(text("file").to_owned()).or_default();
            count.cases += 1;
            let wanted = case.get("value").map(expected::value);
            if case["unchecked"] == true {
                count.unchecked += 1;
                continue;
            }
            let names_message = ["TestAllTypes", "google.protobuf."]
                .iter()
                .any(|name| text("expr").contains(name));
            if names_message || matches!(wanted, Some(None)) {
                count.messages += 1;
                continue;
            }
            let wanted = wanted.flatten();
            let source = text("expr");
            let bindings = case["bindings"].as_object().cloned().unwrap_or_default();
            let mut passes = |who: usize, run: &dyn Fn() -> Outcome| {
                let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                    panics[who] += 1;
                    Err("panicked".to_owned())
                });
                let passes = match (&wanted, &outcome) {
                    (Some(wanted), Ok(value)) => wanted == value,
                    (None, Err(why)) => why != "panicked",
                    _ => false,
                };
                if !passes && shown.as_deref() == Some(text("file")) {
                    let who = ["ours", "crate"][who];
                    println!(
                        "{who} {}: {source}\n    {outcome:?}, not {wanted:?}",
                        text("name")
                    );
                }
                passes
            };
            count.ours += usize::from(passes(0, &|| ours::evaluate(source, &bindings)));
            count.theirs += usize::from(passes(1, &|| theirs::evaluate(source, &bindings)));
        }
        print(&counts, panics);
    };
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(run);
    thread.expect("a thread").join().expect("it is not interrupted");
}

fn print(counts: &BTreeMap<String, Count>, panics: [usize; 2]) {
    println!(
        "| File | Cases | Unchecked | Messages | Run | Ours | Crate |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    let mut all = Count::default();
    for (file, count) in counts {
        row(file, count);
        all.cases += count.cases;
        all.ours += count.ours;
        all.theirs += count.theirs;
        all.messages += count.messages;
        all.unchecked += count.unchecked;
    }
    row("all", &all);
    println!("\nPanics: {} and {}.", panics[0], panics[1]);
}

fn row(name: &str, count: &Count) {
    let Count {
        cases,
        ours,
        theirs,
        messages,
        unchecked,
    } = count;
    let run = cases - unchecked - messages;
    println!("| {name} | {cases} | {unchecked} | {messages} | {run} | {ours} | {theirs} |");
}
