//! A running server program and a kubectl that uses it.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// Limit for every command and every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-testserver");

/// A temporary directory for each test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kube-testserver-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output and exit code of a command.
#[derive(Debug)]
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Said {
    fn from_output(output: &Output) -> Self {
        Self {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }
}

/// Runs a command to completion.
pub async fn run(command: &mut Command) -> Said {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    Said::from_output(
        &output
            .expect("the command took too long")
            .expect("the command could not be started"),
    )
}

/// A running server program with its kubeconfig.
pub struct Cluster {
    pub scratch: Scratch,
    pub child: Child,
    pub out: BufReader<ChildStdout>,
    pub introduction: String,
}

impl Cluster {
    /// Starts the program with these flags in addition to those for its port and kubeconfig.
    pub async fn start(flags: &[&str]) -> Self {
        Self::start_in(Scratch::new(), flags).await
    }

    pub async fn start_in(scratch: Scratch, flags: &[&str]) -> Self {
        let config = scratch.0.join("config");
        let mut command = Command::new(PROGRAM);
        command
            .args(["--port", "0", "--kubeconfig"])
            .arg(&config)
            .args(flags);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the program could not be started");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut introduction = String::new();
        let ready = async {
            while !introduction.contains("Ctrl-C stops it.") {
                let read = out.read_line(&mut introduction).await.unwrap();
                assert!(read > 0, "the program ended early: {introduction}");
            }
        };
        tokio::time::timeout(TIMEOUT, ready)
            .await
            .expect("the program did not start");
        Self {
            scratch,
            child,
            out,
            introduction,
        }
    }

    pub fn kubectl(&self) -> Command {
        let mut command = Command::new("kubectl");
        // A separate home, so that no cached discovery of another server is used.
        command
            .env("HOME", &self.scratch.0)
            .env("KUBECONFIG", self.scratch.0.join("config"));
        command.current_dir(&self.scratch.0);
        command
    }

    /// The output of a successful kubectl.
    pub async fn ok(&self, arguments: &str) -> String {
        self.ok_with(&words(arguments)).await
    }

    pub async fn ok_with(&self, arguments: &[&str]) -> String {
        let said = run(self.kubectl().args(arguments)).await;
        assert_eq!(
            said.code,
            Some(0),
            "kubectl {arguments:?} failed: {}{}",
            said.out,
            said.err
        );
        said.out
    }

    /// The error output of a failing kubectl.
    pub async fn error(&self, arguments: &str) -> String {
        let said = run(self.kubectl().args(words(arguments))).await;
        assert_ne!(
            said.code,
            Some(0),
            "kubectl {arguments} did not fail: {}",
            said.out
        );
        said.err
    }

    /// The output of kubectl, split into columns at two or more spaces.
    pub async fn table(&self, arguments: &str) -> Vec<Vec<String>> {
        self.ok(arguments).await.lines().map(columns).collect()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        self.scratch.write(name, text)
    }

    /// Starts kubectl and leaves it running.
    pub fn follow(&self, arguments: &str) -> Follower {
        let mut command = self.kubectl();
        command
            .args(words(arguments))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("kubectl could not be started");
        let out = BufReader::new(child.stdout.take().unwrap());
        Follower {
            _child: child,
            out,
            seen: String::new(),
        }
    }

    /// Sends the program a signal and waits for its end.
    pub async fn stop(mut self, signal: &str) -> Said {
        let id = self.child.id().unwrap().to_string();
        assert_eq!(run(Command::new("kill").args([signal, &id])).await.code, Some(0));
        let status = tokio::time::timeout(TIMEOUT, self.child.wait())
            .await
            .expect("it did not stop")
            .unwrap();
        let mut out = String::new();
        self.out.read_to_string(&mut out).await.unwrap();
        Said {
            out,
            err: String::new(),
            code: status.code(),
        }
    }
}

/// A kubectl that is still running.
pub struct Follower {
    _child: Child,
    out: BufReader<ChildStdout>,
    seen: String,
}

impl Follower {
    /// Reads until a line contains all of these words; returns that line.
    pub async fn line_with(&mut self, wanted: &[&str]) -> String {
        let reading = async {
            loop {
                let mut line = String::new();
                let read = self.out.read_line(&mut line).await.unwrap();
                assert!(
                    read > 0,
                    "kubectl ended without a line with {wanted:?}: {}",
                    self.seen
                );
                self.seen.push_str(&line);
                if wanted.iter().all(|word| line.contains(word)) {
                    return line;
                }
            }
        };
        let found = tokio::time::timeout(TIMEOUT, reading).await;
        found.unwrap_or_else(|_| panic!("no line with {wanted:?} so far"))
    }
}

fn words(arguments: &str) -> Vec<&str> {
    arguments.split_whitespace().collect()
}

fn columns(line: &str) -> Vec<String> {
    line.split("  ")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
