//! The specs that are known to fail, and why: `verify/scenarios/suites.txt`.

use super::{Outcome, Run, Suite};

/// The servers on which a spec fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// Only on the embedded server: a difference.
    Embedded,
    /// On both: the suite needs something that neither has, such as a kubelet.
    Both,
}

#[derive(Debug)]
struct Exception {
    servers: Servers,
    suite: Suite,
    spec: String,
    reason: String,
}

/// The lines of the file. Each has four fields, separated by ` | `: servers (`embedded` or `both`), suite (project and name),
/// the name of the spec, the reason. Empty lines and lines that start with `#` are comments.
#[derive(Debug, Default)]
pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    /// Reads the lines of the file.
    ///
    /// # Errors
    ///
    /// A line has other fields; the text names it.
    pub fn parse(text: &str) -> Result<Exceptions, String> {
        let mut exceptions = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let parsed = match fields[..] {
                ["embedded", suite, spec, reason] => Some((Servers::Embedded, suite, spec, reason)),
                ["both", suite, spec, reason] => Some((Servers::Both, suite, spec, reason)),
                _ => None,
            };
            let parsed = parsed.and_then(|(servers, suite, spec, reason)| {
                let (project, name) = suite.split_once(' ')?;
                Some(Exception {
                    servers,
                    suite: Suite {
                        project: project.to_owned(),
                        name: name.to_owned(),
                    },
                    spec: spec.to_owned(),
                    reason: reason.to_owned(),
                })
            });
            exceptions.push(parsed.ok_or_else(|| {
                let number = number + 1;
                format!("line {number}: write \"embedded | PROJECT SUITE | SPEC | REASON\", or \"both | …\"")
            })?);
        }
        Ok(Exceptions(exceptions))
    }

    /// Why a spec fails on the embedded server.
    pub fn reason(&self, suite: &Suite, spec: &str) -> Option<(Servers, &str)> {
        let mut all = self.0.iter();
        let found = all.find(|exception| exception.suite == *suite && exception.spec == spec)?;
        Some((found.servers, &found.reason))
    }

    /// What the results do not agree with: specs that fail and are not listed, and listed ones that pass. Suites that did not
    /// run are not checked.
    pub fn disagreements(&self, run: &Run) -> Vec<String> {
        let mut found = Vec::new();
        for (suite, specs) in &run.embedded {
            for (spec, outcome) in specs {
                let Outcome::Failed(message) = outcome else {
                    continue;
                };
                let on_real = run
                    .real
                    .as_ref()
                    .and_then(|real| Some(real.get(suite)?.get(spec) == Some(&Outcome::Passed)));
                match (self.reason(suite, spec), on_real) {
                    (None, Some(false)) => {
                        found.push(format!("{suite}: fails on both servers: {spec}: {message}"))
                    }
                    (None, _) => found.push(format!(
                        "{suite}: fails on the embedded server: {spec}: {message}"
                    )),
                    (Some((Servers::Both, _)), Some(true)) => {
                        found.push(format!(
                            "{suite}: passes on the real server, but is listed as \"both\": {spec}"
                        ));
                    }
                    (Some((Servers::Embedded, _)), Some(false)) => {
                        found.push(format!(
                            "{suite}: fails on the real server, too, but is listed as \"embedded\": {spec}"
                        ));
                    }
                    (Some(_), _) => {}
                }
            }
        }
        for exception in &self.0 {
            let Some(specs) = run.embedded.get(&exception.suite) else {
                continue;
            };
            let (suite, spec) = (&exception.suite, &exception.spec);
            match specs.get(spec) {
                Some(Outcome::Failed(_)) => {}
                Some(_) => found.push(format!(
                    "{suite}: no longer fails, remove it from the list: {spec}"
                )),
                None => found.push(format!(
                    "{suite}: has no such spec, remove it from the list: {spec}"
                )),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::Results;
    use super::*;

    fn results(specs: &[(&str, bool)]) -> Results {
        let outcome = |passed: bool| match passed {
            true => Outcome::Passed,
            false => Outcome::Failed("expected 1".to_owned()),
        };
        let suite = Suite {
            project: "go".to_owned(),
            name: "pkg/client".to_owned(),
        };
        let specs = specs
            .iter()
            .map(|(name, passed)| ((*name).to_owned(), outcome(*passed)));
        Results::from([(suite, specs.collect())])
    }

    fn run(real: Option<&[(&str, bool)]>, embedded: &[(&str, bool)]) -> Run {
        Run {
            real: real.map(results),
            embedded: results(embedded),
            versions: Default::default(),
        }
    }

    const LIST: &str = "# comment\n\nembedded | go pkg/client | gets | no reason\nboth | go pkg/client | execs | no kubelet\n";

    #[test]
    fn what_is_listed_and_fails_is_no_disagreement() {
        let list = Exceptions::parse(LIST).unwrap();
        let embedded = [("gets", false), ("execs", false), ("lists", true)];
        assert!(list.disagreements(&run(None, &embedded)).is_empty());
        let real = [("gets", true), ("execs", false), ("lists", true)];
        assert!(list.disagreements(&run(Some(&real), &embedded)).is_empty());
    }

    #[test]
    fn unlisted_failures_and_outdated_entries_are_disagreements() {
        let list = Exceptions::parse(LIST).unwrap();
        let found = list.disagreements(&run(None, &[("gets", true), ("lists", false)]));
        assert_eq!(
            found,
            [
                "go pkg/client: fails on the embedded server: lists: expected 1",
                "go pkg/client: no longer fails, remove it from the list: gets",
                "go pkg/client: has no such spec, remove it from the list: execs",
            ]
        );
        let embedded = [("gets", false), ("execs", false)];
        let found = list.disagreements(&run(Some(&[("gets", false), ("execs", true)]), &embedded));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_line_with_other_fields_is_named() {
        for wrong in [
            "embedded | go pkg/client | gets",
            "real | go pkg | gets | x",
            "both | go | gets | x",
        ] {
            let error = Exceptions::parse(&format!("\n{wrong}")).unwrap_err();
            assert!(error.starts_with("line 2:"), "{error}");
        }
    }
}
