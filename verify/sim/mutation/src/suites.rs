//! The test programs: building them, and running them with a mutant.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The variable with the number of the active mutant.
pub const VARIABLE: &str = "ACTIVE_MUTANT";

/// A mutant that allocates without end fails, before the machine runs out of memory.
const MEMORY_KILOBYTES: usize = 8 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    Unit,
    Simulator,
    Integration,
}

impl Suite {
    /// The fastest first; a mutant that one of them notices is not tried with the next.
    pub const ALL: [Self; 3] = [Self::Unit, Self::Simulator, Self::Integration];

    pub fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Simulator => "simulator",
            Self::Integration => "integration",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Unit | Self::Integration => "library/informers",
            Self::Simulator => "verify/sim",
        }
    }

    /// The target's name in its package.
    fn target(self) -> &'static str {
        match self {
            Self::Unit => "kube_informers",
            Self::Simulator | Self::Integration => "it",
        }
    }

    /// Tests about the text of the sources, which the conditions of the mutants change.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Integration => &["--skip", "tidy::"],
            Self::Simulator => &["--skip", "planted::"],
            Self::Unit => &[],
        }
    }
}

pub type Programs = HashMap<Suite, PathBuf>;

/// An error of the compiler.
pub struct Diagnostic {
    /// Files, relative to the tree, and bytes; the most important first.
    pub places: Vec<(String, Range<usize>)>,
    code: String,
    pub rendered: String,
}

impl Diagnostic {
    /// Whether code is wrong wherever it stands: it calls a function that does not exist, or with the wrong number of arguments, or
    /// uses a trait or an operator that the type does not have.
    pub fn is_about_code_alone(&self) -> bool {
        ["E0599", "E0061", "E0277", "E0368", "E0369"].contains(&&*self.code)
    }
}

/// Builds the test programs. If the tree does not compile, returns the errors.
pub fn build(tree: &Path, target: &Path, suites: &[Suite]) -> io::Result<Result<Programs, Vec<Diagnostic>>> {
    // Both packages are always named: which ones are decides the features of their dependencies.
    let mut command = Command::new("cargo");
    command.args(["test", "--no-run", "--locked", "--quiet", "--message-format=json"]);
    command.args(["-p", "kube-informers", "-p", "kube-sim"]);
    if suites.contains(&Suite::Unit) {
        command.arg("--lib");
    }
    if suites.iter().any(|suite| suite.target() == "it") {
        command.args(["--test", "it"]);
    }
    let output = command
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .stderr(Stdio::inherit())
        .output()?;
    let messages: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    if !output.status.success() {
        let errors: Vec<_> = messages
            .iter()
            .filter_map(|message| diagnostic(&message["message"]))
            .collect();
        if errors.is_empty() {
            return Err(io::Error::other("cargo failed without an error of the compiler"));
        }
        return Ok(Err(errors));
    }
    let mut programs = Programs::new();
    for suite in suites {
        let manifest = tree.join(suite.folder()).join("Cargo.toml");
        let program = messages.iter().find(|message| {
            message["executable"].is_string()
                && message["target"]["name"]
                    .as_str()
                    .is_some_and(|name| name.replace('-', "_") == suite.target())
                && message["manifest_path"]
                    .as_str()
                    .is_some_and(|path| Path::new(path) == manifest)
        });
        let path = program.and_then(|message| message["executable"].as_str());
        let path = path.ok_or_else(|| io::Error::other(format!("cargo built no program for {suite:?}")))?;
        programs.insert(*suite, path.into());
    }
    Ok(Ok(programs))
}

fn diagnostic(message: &Value) -> Option<Diagnostic> {
    if message["level"] != "error" {
        return None;
    }
    let children = message["children"].as_array().into_iter().flatten();
    let mut spans: Vec<&Value> = std::iter::once(message)
        .chain(children)
        .flat_map(|message| message["spans"].as_array().into_iter().flatten())
        .collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    let place = |span: &&Value| {
        let bytes = span["byte_start"].as_u64()? as usize..span["byte_end"].as_u64()? as usize;
        Some((span["file_name"].as_str()?.to_owned(), bytes))
    };
    Some(Diagnostic {
        places: spans.iter().filter_map(place).collect(),
        code: message["code"]["code"].as_str().unwrap_or_default().to_owned(),
        rendered: message["rendered"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Runs a suite until its first failure, and returns the test that failed.
pub fn run(
    tree: &Path,
    suite: Suite,
    program: &Path,
    arguments: &[&str],
    mutant: Option<usize>,
    limit: Duration,
) -> io::Result<Option<String>> {
    let folder = tree.join(suite.folder());
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -v {MEMORY_KILOBYTES}; exec \"$0\" \"$@\""))
        .arg(program);
    command
        .args(suite.arguments())
        .args(arguments)
        .env("CARGO_MANIFEST_DIR", &folder)
        .current_dir(folder);
    match mutant {
        Some(number) => command.env(VARIABLE, number.to_string()),
        None => command.env_remove(VARIABLE),
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (sender, lines) = mpsc::channel();
    let output = child.stdout.take().map(BufReader::new);
    thread::spawn(move || {
        for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + limit;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(test) = failure(&line) {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Some(test.to_owned()));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                return Ok(Some("did not end".to_owned()));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                return Ok((!status.success()).then(|| status.to_string()));
            }
        }
    }
}

/// The name of the test that failed, if the line of the test program says so.
fn failure(line: &str) -> Option<&str> {
    let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(test.strip_suffix(" - should panic").unwrap_or(test))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_test_is_named() {
        assert_eq!(failure("test queue::a ... FAILED"), Some("queue::a"));
        assert_eq!(
            failure("test queue::a - should panic ... FAILED"),
            Some("queue::a")
        );
        assert_eq!(failure("test queue::a ... ok"), None);
        assert_eq!(failure("test result: FAILED. 1 passed; 1 failed"), None);
    }

    #[test]
    fn an_error_is_first_about_its_primary_place() {
        let span = |file: &str, primary: bool| json!({ "file_name": file, "byte_start": 3, "byte_end": 5, "is_primary": primary });
        let message = json!({
            "level": "error",
            "rendered": "error: x",
            "code": { "code": "E0599" },
            "spans": [span("a.rs", false), span("b.rs", true)],
            "children": [{ "spans": [span("c.rs", false)] }],
        });
        let places = diagnostic(&message).unwrap().places;
        assert_eq!(
            places,
            ["b.rs", "a.rs", "c.rs"].map(|file| (file.to_owned(), 3..5))
        );
        assert!(diagnostic(&json!({ "level": "warning", "spans": [] })).is_none());
    }

    /// A program like a test program.
    fn script(text: &str, limit: Duration) -> Option<String> {
        let folder = std::env::temp_dir();
        std::fs::create_dir_all(folder.join(Suite::Unit.folder())).unwrap();
        run(
            &folder,
            Suite::Unit,
            Path::new("sh"),
            &["-c", text],
            Some(7),
            limit,
        )
        .unwrap()
    }

    #[test]
    fn a_run_ends_at_the_first_failure_and_at_the_limit() {
        let long = Duration::from_secs(600);
        assert_eq!(script("test \"$ACTIVE_MUTANT\" = 7", long), None);
        assert_eq!(
            script("echo 'test a ... FAILED'; exec sleep 600", long),
            Some("a".to_owned())
        );
        assert_eq!(script("exit 3", long), Some("exit status: 3".to_owned()));
        assert_eq!(
            script("exec sleep 600", Duration::from_millis(50)),
            Some("did not end".to_owned())
        );
    }
}
