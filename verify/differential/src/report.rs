//! The report: one row per tape, and the event logs of objects with violations.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::{Difference, Verdict};
use crate::line::Line;
use crate::play::Outcome;

/// The results of all tapes, as a Markdown page.
#[derive(Debug, Default)]
pub struct Report {
    rows: BTreeMap<(String, u64), String>,
    totals: BTreeMap<(&'static str, Difference), usize>,
    /// The violations, with tape and event logs.
    pub failures: Vec<String>,
}

impl Report {
    /// Adds the result of a tape.
    pub fn add(&mut self, server: &str, outcome: &Outcome) {
        let tape = &outcome.tape;
        let (ours, theirs) = (&outcome.ours.1, &outcome.theirs.1);
        let row = format!(
            "| {server} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            tape.seed,
            tape.resource[2],
            tape.selector.unwrap_or("–"),
            tape.encoding(),
            tape.before.len() + tape.ops.len(),
            ours.events,
            theirs.events,
            counts(ours),
            counts(theirs),
        );
        self.rows.insert((server.to_owned(), tape.seed), row);
        for (who, verdict) in [("ours", ours), ("client-go", theirs)] {
            for (difference, count) in &verdict.differences {
                *self.totals.entry((who, *difference)).or_default() += count;
            }
        }
        if !outcome.is_good() {
            self.failures.push(failure(server, outcome));
        }
    }

    /// Adds a tape that could not be played.
    pub fn add_failure(&mut self, server: &str, seed: u64, error: &str) {
        self.failures.push(format!("{server}, seed {seed}: {error}"));
    }

    /// The number of tapes.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no tape was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The page.
    pub fn page(&self) -> String {
        let mut page = String::from(
            "| Server | Seed | Resource | Selector | Encoding, ours | Operations | Events, ours | Events, client-go | Differences, ours | Differences, client-go |\n\
             |---|---:|---|---|---|---:|---:|---:|---|---|\n",
        );
        for row in self.rows.values() {
            let _ = writeln!(page, "{row}");
        }
        page.push_str("\n| Difference | Informer | Times |\n|---|---|---:|\n");
        for ((who, difference), count) in &self.totals {
            let _ = writeln!(page, "| {difference} | {who} | {count} |");
        }
        page
    }
}

fn counts(verdict: &Verdict) -> String {
    let parts: Vec<String> = verdict
        .differences
        .iter()
        .map(|(difference, count)| format!("{count} {difference}"))
        .collect();
    if parts.is_empty() {
        "–".into()
    } else {
        parts.join(", ")
    }
}

/// The violations, for each object with one its history and both event logs, and the tape. The tape is the longest part and comes
/// last, because logs are often cut.
fn failure(server: &str, outcome: &Outcome) -> String {
    let mut text = format!("{server}, seed {}:", outcome.tape.seed);
    for (who, verdict) in [("ours", &outcome.ours.1), ("client-go", &outcome.theirs.1)] {
        for (name, offence) in &verdict.offences {
            let _ = writeln!(text, "\n{who}, {name}: {offence}");
            if name.is_empty() {
                continue;
            }
            let _ = writeln!(text, "  the history:");
            for step in outcome.history.steps(name) {
                let _ = writeln!(text, "    {step}");
            }
            for (who, lines) in [("ours", &outcome.ours.0), ("client-go", &outcome.theirs.0)] {
                let _ = writeln!(text, "  {who}:");
                for line in lines.iter().filter(|line: &&Line| line.name == *name) {
                    let _ = writeln!(text, "    {line}");
                }
            }
        }
    }
    let _ = write!(text, "\nthe tape, {}", outcome.tape);
    text
}
