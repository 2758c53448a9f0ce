//! Running the program, and reading what it says, with deadlines.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_testserver::{TestServer, TestServerBuilder};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Long enough for a machine under load; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server on a socket, and a home directory with a kubeconfig that leads there.
pub struct Cluster {
    pub server: TestServer,
    home: Home,
}

/// A home directory of its own for the program.
pub struct Home {
    directory: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Fills the discovery cache as kubectl does it, so that the first request to this server is for pods.
    pub fn cache_discovery(&self, url: &str) {
        let host = url.split_once("://").unwrap().1.replace(':', "_");
        let document = |name: &str, text: &str| {
            self.write(&format!(".kube/cache/discovery/{host}/{name}"), text);
        };
        document(
            "servergroups.json",
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"","versions":[{"groupVersion":"v1","version":"v1"}],"preferredVersion":{"groupVersion":"v1","version":"v1"}}]}"#,
        );
        document(
            "v1/serverresources.json",
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]}]}"#,
        );
    }

    /// The program with these arguments, in this home and in no other surroundings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informers"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub fn start(&self, arguments: &[&str]) -> Program {
        Program::start(self.command(arguments))
    }

    /// Runs the program to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments)).await
    }
}

impl Cluster {
    pub async fn new() -> Self {
        Self::with(TestServer::builder()).await
    }

    pub async fn with(builder: TestServerBuilder) -> Self {
        let server = builder.listen("127.0.0.1:0").await.unwrap();
        let home = Home::new();
        home.write(".kube/config", &server.kubeconfig().unwrap());
        Self { server, home }
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn start(&self, arguments: &[&str]) -> Program {
        self.home.start(arguments)
    }

    pub async fn run(&self, arguments: &[&str]) -> Ended {
        self.home.run(arguments).await
    }
}

/// What a program that has ended left behind.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub async fn ended(mut command: Command) -> Ended {
    let output = within("the end of the program", command.output()).await.unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running program.
pub struct Program {
    child: Child,
    out: Option<Lines<BufReader<ChildStdout>>>,
    /// Every line read so far, from either side.
    seen: String,
    err: Arc<Mutex<String>>,
    reader: tokio::task::JoinSet<()>,
}

impl Program {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = Arc::new(Mutex::new(String::new()));
        let (into, mut reader) = (err.clone(), tokio::task::JoinSet::new());
        // `None` if the test has a pipe of its own.
        if let Some(mut stderr) = child.stderr.take() {
            reader.spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                    into.lock()
                        .unwrap()
                        .push_str(&String::from_utf8_lossy(&buffer[..count]));
                }
            });
        }
        Self {
            child,
            out: Some(out),
            seen: String::new(),
            err,
            reader,
        }
    }

    /// The next line of standard output.
    pub async fn line(&mut self) -> String {
        let Some(out) = &mut self.out else {
            panic!("standard output is closed")
        };
        let line = timeout(DEADLINE, out.next_line()).await;
        match line {
            Ok(Ok(Some(line))) => {
                self.seen.push_str(&line);
                self.seen.push('\n');
                line
            }
            other => panic!(
                "no further line ({other:?}); so far:\n{}\n{}",
                self.seen,
                self.err()
            ),
        }
    }

    /// Reads lines up to one that fits.
    pub async fn line_with(&mut self, part: &str) -> String {
        loop {
            let line = self.line().await;
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The next line as JSON.
    pub async fn event(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Reads events up to one of this kind of event.
    pub async fn event_of(&mut self, event: &str) -> Value {
        loop {
            let value = self.event().await;
            if value["event"] == event {
                return value;
            }
        }
    }

    /// Waits until standard error holds this.
    pub async fn says(&mut self, part: &str) {
        let waited = timeout(DEADLINE, async {
            let mut look = tokio::time::interval(Duration::from_millis(10));
            while !self.err().contains(part) {
                look.tick().await;
            }
        });
        assert!(
            waited.await.is_ok(),
            "{part:?} was not said:\n{}\n{}",
            self.seen,
            self.err()
        );
    }

    /// What standard error holds so far.
    pub fn err(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    /// Everything read so far, from both sides.
    pub fn everything(&self) -> String {
        format!("{}\n{}", self.seen, self.err())
    }

    /// Waits until the pipe behind standard output is full, or nearly: the caller has caused much more output.
    #[cfg(target_os = "linux")]
    pub async fn blocked(&mut self) {
        let out = self.out.as_mut().unwrap().get_mut().get_ref();
        within("blocked output", async {
            let mut look = tokio::time::interval(Duration::from_millis(10));
            // Sixteen pages, each at least half full on average.
            while rustix::io::ioctl_fionread(out).unwrap() < 30_000 {
                look.tick().await;
            }
        })
        .await;
    }

    /// The most memory the program has used so far, in bytes.
    #[cfg(target_os = "linux")]
    pub fn peak_memory(&self) -> u64 {
        let id = self.child.id().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// By how much [`peak_memory`](Self::peak_memory) has grown. The kernel's counters are approximate: it can be lower than before.
    #[cfg(target_os = "linux")]
    pub fn peak_growth(&self, before: u64) -> u64 {
        self.peak_memory().saturating_sub(before)
    }

    /// Nobody reads standard output any more.
    pub fn close_output(&mut self) {
        self.out = None;
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub async fn signal(&self, name: &str) {
        let id = self.child.id().unwrap().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status()
            .await
            .unwrap();
        assert!(sent.success());
    }

    /// Waits for the end without reading the output.
    pub async fn exit_code(mut self) -> Option<i32> {
        within("the end of the program", self.child.wait())
            .await
            .unwrap()
            .code()
    }

    /// Waits for the end; gives the code and the rest of both outputs.
    pub async fn end(mut self) -> Ended {
        let status = within("the end of the program", self.child.wait()).await.unwrap();
        let mut rest = String::new();
        if let Some(out) = &mut self.out {
            while let Ok(Some(line)) = out.next_line().await {
                rest.push_str(&line);
                rest.push('\n');
            }
        }
        within("the end of standard error", self.reader.join_next()).await;
        Ended {
            code: status.code(),
            out: rest,
            err: self.err(),
        }
    }
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come within {DEADLINE:?}"),
    }
}
