//! A peer process: prints lines and executes commands.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

use crate::Result;
use crate::proc::{self, Usage};

/// The timeout for the next line of a peer. The slowest job is the initial list of many objects.
const LINE_TIMEOUT: Duration = Duration::from_secs(300);

/// The peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// This library.
    Ours,
    /// client-go with its defaults: protobuf.
    ClientGo,
    /// client-go with JSON, as used by kube-runtime.
    ClientGoJson,
    /// kube-runtime.
    KubeRuntime,
}

impl Peer {
    /// All peers, in the order of the columns.
    pub const ALL: [Self; 4] = [Self::Ours, Self::ClientGo, Self::ClientGoJson, Self::KubeRuntime];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "here",
            Self::ClientGo => "client-go",
            Self::ClientGoJson => "client-go, JSON",
            Self::KubeRuntime => "kube-runtime",
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::ClientGo => "client-go",
            Self::ClientGoJson => "client-go-json",
            Self::KubeRuntime => "kube-runtime",
        }
    }
}

/// The paths of the programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The directory of the Rust programs.
    pub directory: PathBuf,
    /// The Go program, if it was built.
    pub client_go: Option<PathBuf>,
    /// The peers to measure.
    pub wanted: Vec<Peer>,
}

impl Programs {
    /// The peers to measure that are available.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let is_there = |peer: &Peer| match peer {
            Peer::ClientGo | Peer::ClientGoJson => self.client_go.is_some(),
            Peer::Ours | Peer::KubeRuntime => true,
        };
        self.wanted.iter().copied().filter(is_there).collect()
    }

    fn of(&self, peer: Peer) -> Option<PathBuf> {
        match peer {
            Peer::Ours => Some(self.directory.join("bench-ours")),
            Peer::KubeRuntime => Some(self.directory.join("bench-kube-runtime")),
            Peer::ClientGo | Peer::ClientGoJson => self.client_go.clone(),
        }
    }
}

/// The address of a server.
#[derive(Clone, Copy, Debug)]
pub enum Server<'a> {
    /// At a URL, without TLS and credentials.
    Url(&'a str),
    /// Given by a kubeconfig.
    Kubeconfig(&'a Path),
}

/// A running peer. Dropping it ends the process.
pub struct Opponent {
    peer: Peer,
    child: Child,
    pid: u32,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    began: Instant,
}

impl Opponent {
    /// Starts the informer of a peer.
    ///
    /// # Errors
    ///
    /// There is no such program.
    pub fn start(
        programs: &Programs,
        peer: Peer,
        server: Server<'_>,
        drop_managed_fields: bool,
    ) -> Result<Self> {
        let program = programs
            .of(peer)
            .ok_or("client-go was not built: there is no Go toolchain")?;
        let mut command = Command::new(&program);
        if drop_managed_fields {
            command.arg("--drop");
        }
        if peer == Peer::ClientGoJson {
            command.arg("--json");
        }
        Self::spawn(peer, command, server)
    }

    /// Starts the controller of a peer.
    ///
    /// # Errors
    ///
    /// The peer has none.
    pub fn controller(programs: &Programs, peer: Peer, server: Server<'_>) -> Result<Self> {
        let program = match peer {
            Peer::Ours => "bench-controller",
            Peer::KubeRuntime => "bench-controller-kube-runtime",
            Peer::ClientGo | Peer::ClientGoJson => {
                return Err("there is no controller for client-go".into());
            }
        };
        Self::spawn(peer, Command::new(programs.directory.join(program)), server)
    }

    fn spawn(peer: Peer, mut command: Command, server: Server<'_>) -> Result<Self> {
        match server {
            Server::Url(url) => command.args(["--server", url]),
            Server::Kubeconfig(path) => command.env("KUBECONFIG", path),
        };
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {:?}: {error}", command.as_std().get_program()))?;
        let pid = child.id().ok_or("a peer ended immediately")?;
        let stdin = child.stdin.take().ok_or("a peer has no standard input")?;
        let stdout = child.stdout.take().ok_or("a peer has no standard output")?;
        Ok(Self {
            peer,
            child,
            pid,
            stdin,
            lines: BufReader::new(stdout).lines(),
            began,
        })
    }

    /// Waits for a line with this event.
    ///
    /// # Errors
    ///
    /// Another line came, or none.
    pub async fn says(&mut self, event: &str) -> Result<Value> {
        let name = self.peer.name();
        let line = timeout(LINE_TIMEOUT, self.lines.next_line())
            .await
            .map_err(|_| format!("{name} did not print {event:?} within {LINE_TIMEOUT:?}"))??
            .ok_or_else(|| format!("{name} ended before it printed {event:?}"))?;
        let value: Value = serde_json::from_str(&line)?;
        match value.get("event").and_then(Value::as_str) {
            Some(said) if said == event => Ok(value),
            _ => Err(format!("{name} said {line} instead of {event:?}").into()),
        }
    }

    /// Waits until its handler has received everything; returns the seconds since its start, and its usage.
    ///
    /// # Errors
    ///
    /// It did not sync, or holds another number of objects.
    pub async fn synced(&mut self, objects: usize) -> Result<(f64, Usage)> {
        let said = self.says("synced").await?;
        let measured = (self.began.elapsed().as_secs_f64(), self.usage()?);
        if said.get("objects").and_then(Value::as_u64) != Some(objects as u64) {
            return Err(format!(
                "{} holds {} objects instead of {objects}",
                self.peer.name(),
                said["objects"]
            )
            .into());
        }
        Ok(measured)
    }

    /// Sends a command.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub async fn command(&mut self, command: &str) -> Result<()> {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await?;
        Ok(self.stdin.flush().await?)
    }

    /// Its usage so far.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn usage(&self) -> Result<Usage> {
        proc::usage(self.pid)
    }

    /// Resets the peak.
    ///
    /// # Errors
    ///
    /// The process has ended, or a sandbox forbids it.
    pub fn forget_peak(&self) -> Result<()> {
        proc::forget_peak(self.pid)
    }

    /// Ends the process and waits for its exit, so that it does not affect the next one.
    ///
    /// # Errors
    ///
    /// The process cannot be ended.
    pub async fn stop(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}
