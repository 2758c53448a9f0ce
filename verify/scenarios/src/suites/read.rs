//! The reports of the test programs.

use serde::Deserialize;

use super::{Outcome, Specs, WHOLE_SUITE};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SuiteReport {
    suite_succeeded: bool,
    #[serde(default)]
    special_suite_failure_reasons: Option<Vec<String>>,
    #[serde(default)]
    spec_reports: Option<Vec<SpecReport>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    forwarded_panic: String,
}

/// The specs of a JSON report of Ginkgo.
///
/// # Errors
///
/// The text is not such a report.
pub fn ginkgo(text: &str) -> Result<Specs, serde_json::Error> {
    let mut specs = Specs::new();
    for suite in serde_json::from_str::<Vec<SuiteReport>>(text)? {
        let mut failed = false;
        for spec in suite.spec_reports.unwrap_or_default() {
            let outcome = spec.outcome();
            failed |= matches!(outcome, Outcome::Failed(_));
            if spec.leaf_node_type == "It" {
                insert(&mut specs, spec.name(), outcome);
            } else if let Outcome::Failed(message) = outcome {
                // BeforeSuite, AfterSuite.
                let message = format!("{}: {message}", spec.leaf_node_type);
                specs.insert(WHOLE_SUITE.to_owned(), Outcome::Failed(message));
            }
        }
        if !suite.suite_succeeded && !failed {
            let reasons = suite.special_suite_failure_reasons.unwrap_or_default();
            specs.insert(WHOLE_SUITE.to_owned(), Outcome::Failed(reasons.join(", ")));
        }
    }
    Ok(specs)
}

impl SpecReport {
    fn name(&self) -> String {
        let containers = self.container_hierarchy_texts.iter().flatten();
        let texts: Vec<&str> = containers
            .chain([&self.leaf_node_text])
            .flat_map(|text| text.split_whitespace())
            .collect();
        texts.join(" ")
    }

    fn outcome(&self) -> Outcome {
        match self.state.as_str() {
            "passed" => Outcome::Passed,
            "pending" | "skipped" => Outcome::Skipped,
            state => {
                let message = self.failure.as_ref().map_or("", |failure| {
                    if failure.forwarded_panic.is_empty() {
                        &failure.message
                    } else {
                        &failure.forwarded_panic
                    }
                });
                Outcome::Failed(first_line(message).unwrap_or(state).to_owned())
            }
        }
    }
}

/// Two specs may have the same name: the second and further ones are numbered, in the order of the report.
fn insert(specs: &mut Specs, name: String, outcome: Outcome) {
    let mut unique = name.clone();
    let mut number = 2;
    while specs.contains_key(&unique) {
        unique = format!("{name} ({number})");
        number += 1;
    }
    specs.insert(unique, outcome);
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

/// The test functions in the output of a Go test program with `-test.v`, without the function that runs a Ginkgo suite: its specs
/// are in the JSON report.
pub fn go_tests(text: &str) -> Specs {
    let mut specs = Specs::new();
    let mut current = "";
    let mut ginkgo = "";
    let mut ended = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== RUN   ") {
            current = name;
        } else if line.starts_with("Running Suite:") {
            ginkgo = current;
        } else if let Some((outcome, rest)) = line.strip_prefix("--- ").and_then(|rest| rest.split_once(": "))
        {
            // Subtests are indented.
            let name = rest.split(' ').next().unwrap_or(rest);
            let outcome = match outcome {
                "PASS" => Outcome::Passed,
                "SKIP" => Outcome::Skipped,
                _ => Outcome::Failed("see the log".to_owned()),
            };
            specs.insert(name.to_owned(), outcome);
        } else if line == "PASS" || line == "FAIL" {
            ended = true;
        }
    }
    specs.remove(ginkgo);
    if !ended {
        let message = "the program ended before its tests".to_owned();
        specs.insert(WHOLE_SUITE.to_owned(), Outcome::Failed(message));
    }
    specs
}

/// The tests in the output of a Rust test program.
pub fn libtest(text: &str) -> Specs {
    let mut specs = Specs::new();
    for line in text.lines() {
        let test = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "));
        let Some((name, outcome)) = test else { continue };
        let outcome = match outcome.trim() {
            "ok" => Outcome::Passed,
            ignored if ignored.starts_with("ignored") => Outcome::Skipped,
            _ => Outcome::Failed(message_of(text, name).unwrap_or("see the log").to_owned()),
        };
        // A test may be marked: `name - should panic`.
        let name = name.split(" - ").next().unwrap_or(name);
        specs.insert(name.to_owned(), outcome);
    }
    if !text.lines().any(|line| line.starts_with("test result:")) {
        let message = "the program ended before its tests".to_owned();
        specs.insert(WHOLE_SUITE.to_owned(), Outcome::Failed(message));
    }
    specs
}

/// The line that says why a Rust test failed: the error it returned, or the message of its panic.
fn message_of<'a>(text: &'a str, test: &str) -> Option<&'a str> {
    let (_, output) = text.split_once(&format!("---- {test} stdout ----\n"))?;
    let output = output.split("\n---- ").next()?;
    output
        .lines()
        .find(|line| line.starts_with("Error: "))
        .or_else(|| {
            let mut lines = output.lines().skip_while(|line| !line.contains("panicked at"));
            lines.next();
            lines.next()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_of_ginkgo_have_their_full_name_and_the_first_line_of_a_failure() {
        let report = r#"[{"SuiteSucceeded":false,"SpecReports":[
            {"ContainerHierarchyTexts":["Client","Get"],"LeafNodeType":"It","LeafNodeText":"fetches","State":"passed"},
            {"ContainerHierarchyTexts":["Client","Get"],"LeafNodeType":"It","LeafNodeText":"fetches","State":"panicked",
             "Failure":{"Message":"Test Panicked","ForwardedPanic":"nil map"}},
            {"ContainerHierarchyTexts":null,"LeafNodeType":"It","LeafNodeText":"lists","State":"failed",
             "Failure":{"Message":"\n  Expected\n    1"}},
            {"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"waits","State":"pending"},
            {"LeafNodeType":"AfterSuite","State":"timedout","Failure":{"Message":""}}]}]"#;
        let failed = |message: &str| Outcome::Failed(message.to_owned());
        let expected = [
            ("(the suite)", failed("AfterSuite: timedout")),
            ("Client Get fetches", Outcome::Passed),
            ("Client Get fetches (2)", failed("nil map")),
            ("Client waits", Outcome::Skipped),
            ("lists", failed("Expected")),
        ];
        let expected: Specs = expected.map(|(name, outcome)| (name.to_owned(), outcome)).into();
        assert_eq!(ginkgo(report).unwrap(), expected);
    }

    #[test]
    fn a_suite_that_fails_without_a_failed_spec_is_a_failure() {
        let report = r#"[{"SuiteSucceeded":false,"SpecialSuiteFailureReasons":["Suite did not run"],"SpecReports":null}]"#;
        let specs = ginkgo(report).unwrap();
        assert_eq!(
            specs[WHOLE_SUITE],
            Outcome::Failed("Suite did not run".to_owned())
        );
        assert!(ginkgo("{}").is_err());
    }

    #[test]
    fn the_function_that_runs_a_ginkgo_suite_is_no_test() {
        let output = "=== RUN   TestOptions\n--- PASS: TestOptions (0.00s)\n=== RUN   TestSource\nRunning Suite: Cache\n\
            --- FAIL: TestSource (9.10s)\n=== RUN   TestRace\n    --- PASS: TestRace/sub (0.00s)\n--- FAIL: TestRace (0.00s)\nFAIL\n";
        let specs = go_tests(output);
        assert_eq!(specs.keys().collect::<Vec<_>>(), ["TestOptions", "TestRace"]);
        assert_eq!(specs["TestOptions"], Outcome::Passed);
        assert!(matches!(specs["TestRace"], Outcome::Failed(_)));
        assert!(go_tests("=== RUN   TestOptions\npanic: nil map\n").contains_key(WHOLE_SUITE));
    }

    #[test]
    fn rust_tests_have_the_error_that_they_returned() {
        let output = "running 3 tests\ntest a::reads ... ok\ntest a::writes ... FAILED\ntest a::panics - should panic ... FAILED\n\n\
            failures:\n\n---- a::writes stdout ----\nError: Api(Status)\n\n---- a::panics stdout ----\n\
            thread 'a' panicked at src/lib.rs:1:2:\nno pod\n\ntest result: FAILED. 1 passed; 2 failed\n";
        let specs = libtest(output);
        assert_eq!(specs["a::reads"], Outcome::Passed);
        assert_eq!(
            specs["a::writes"],
            Outcome::Failed("Error: Api(Status)".to_owned())
        );
        assert!(matches!(specs["a::panics"], Outcome::Failed(_)));
        assert!(libtest("error: could not compile").contains_key(WHOLE_SUITE));
    }
}
