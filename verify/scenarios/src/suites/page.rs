//! The section of `docs/evidence/conformance.md`.

use std::fmt::Write;

use super::{Exceptions, Outcome, Results, Run, Servers, Specs, Suite};

/// The lines around the section.
const BEGIN: &str = "<!-- written by verify/scenarios/suites -->";
const END: &str = "<!-- end of verify/scenarios/suites -->";

/// The text with what is between the markers replaced.
///
/// # Errors
///
/// A marker is missing.
pub fn replace_between_markers(text: &str, section: &str) -> Result<String, String> {
    let begin = text.find(BEGIN).map(|at| at + BEGIN.len());
    let end = text.find(END);
    match (begin, end) {
        (Some(begin), Some(end)) if begin <= end => Ok(format!(
            "{}\n\n{}\n\n{}",
            &text[..begin],
            section.trim(),
            &text[end..]
        )),
        _ => Err(format!("the lines \"{BEGIN}\" and \"{END}\" are missing")),
    }
}

/// The table, and the specs that fail.
///
/// # Errors
///
/// The suites ran on one server only, or a version is missing.
pub fn page(run: &Run, exceptions: &Exceptions) -> Result<String, String> {
    let real = run
        .real
        .as_ref()
        .ok_or("the table needs results of the real server")?;
    let version = |name: &str| {
        let found = run.versions.get(name);
        found.ok_or_else(|| format!("the file versions has no line for {name}"))
    };
    let mut text = String::new();
    let server = version("kube-apiserver")?;
    let _ = writeln!(
        text,
        "Suites of controller-runtime {} and kube {}, on {}. `verify/scenarios/suites` wrote this section.\n",
        version("controller-runtime")?,
        version("kube")?,
        version("date")?
    );
    let _ = writeln!(
        text,
        "| Suite | Specs | Pass on kube-apiserver {} | Pass on kube-testserver |",
        server.trim_start_matches('v')
    );
    text.push_str("|---|--:|--:|--:|\n");
    let empty = Specs::new();
    let mut project = None;
    for suite in run.embedded.keys() {
        if project != Some(&suite.project) {
            project = Some(&suite.project);
            let of_project = |results: &Results| passed_in(results, &suite.project);
            let _ = writeln!(
                text,
                "| **{}** | **{}** | **{}** | **{}** |",
                suite.project,
                counted(run, real, |other| other.project == suite.project),
                of_project(real),
                of_project(&run.embedded)
            );
        }
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            suite.name,
            counted(run, real, |other| other == suite),
            passed(real.get(suite).unwrap_or(&empty)),
            passed(&run.embedded[suite])
        );
    }
    list(
        &mut text,
        run,
        exceptions,
        Servers::Embedded,
        "Specs that fail only on kube-testserver:",
    );
    list(
        &mut text,
        run,
        exceptions,
        Servers::Both,
        "Specs that fail on both servers:",
    );
    Ok(text)
}

fn passed(specs: &Specs) -> usize {
    specs
        .values()
        .filter(|outcome| **outcome == Outcome::Passed)
        .count()
}

fn passed_in(results: &Results, project: &str) -> usize {
    let of_project = results.iter().filter(|(suite, _)| suite.project == project);
    of_project.map(|(_, specs)| passed(specs)).sum()
}

/// The number of specs that ran on either server, without skipped ones.
fn counted(run: &Run, real: &Results, wanted: impl Fn(&Suite) -> bool) -> usize {
    let suites = run.embedded.iter().filter(|(suite, _)| wanted(suite));
    let mut count = 0;
    for (suite, specs) in suites {
        let mut names: Vec<&String> = ran(specs).collect();
        names.extend(real.get(suite).into_iter().flat_map(ran));
        names.sort();
        names.dedup();
        count += names.len();
    }
    count
}

fn ran(specs: &Specs) -> impl Iterator<Item = &String> {
    let ran = specs.iter().filter(|(_, outcome)| **outcome != Outcome::Skipped);
    ran.map(|(name, _)| name)
}

fn list(text: &mut String, run: &Run, exceptions: &Exceptions, servers: Servers, title: &str) {
    let mut lines = String::new();
    for (suite, specs) in &run.embedded {
        for (spec, outcome) in specs {
            if !matches!(outcome, Outcome::Failed(_)) {
                continue;
            }
            if let Some((_, reason)) = exceptions.reason(suite, spec).filter(|(of, _)| *of == servers) {
                let _ = writeln!(lines, "- {suite}: {spec}. {reason}");
            }
        }
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n{title}\n\n{lines}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(all: &[(&str, Outcome)]) -> Specs {
        all.iter()
            .map(|(name, outcome)| ((*name).to_owned(), outcome.clone()))
            .collect()
    }

    #[test]
    fn the_table_counts_specs_and_lists_what_fails() {
        let suite = |name: &str| Suite {
            project: "kube".to_owned(),
            name: name.to_owned(),
        };
        let failed = || Outcome::Failed("x".to_owned());
        let versions = [
            "kube-apiserver v1.37.1",
            "controller-runtime v0.25.2",
            "kube 5.0.0",
            "date 2026-11-17",
        ];
        let mut run = Run {
            real: None,
            embedded: Results::from([
                (
                    suite("a"),
                    specs(&[
                        ("gets", Outcome::Passed),
                        ("execs", failed()),
                        ("waits", Outcome::Skipped),
                    ]),
                ),
                (suite("b"), specs(&[("lists", failed())])),
            ]),
            versions: versions
                .map(|line| line.split_once(' ').unwrap())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        };
        let list = "both | kube a | execs | No kubelet.\nembedded | kube b | lists | Not built.";
        let list = Exceptions::parse(list).unwrap();
        assert!(page(&run, &list).is_err(), "without results of the real server");
        run.real = Some(Results::from([
            (
                suite("a"),
                specs(&[("gets", Outcome::Passed), ("execs", failed())]),
            ),
            (suite("b"), specs(&[("lists", Outcome::Passed)])),
        ]));
        let text = page(&run, &list).unwrap();
        for line in [
            "| Suite | Specs | Pass on kube-apiserver 1.37.1 | Pass on kube-testserver |",
            "| **kube** | **3** | **2** | **1** |",
            "| `a` | 2 | 1 | 1 |",
            "| `b` | 1 | 1 | 0 |",
            "- kube a: execs. No kubelet.",
            "- kube b: lists. Not built.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let replaced = replace_between_markers(&text, "new\n").unwrap();
        assert_eq!(replaced, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(replace_between_markers(&replaced, "new").unwrap(), replaced);
        assert!(replace_between_markers("no markers", "new").is_err());
    }
}
