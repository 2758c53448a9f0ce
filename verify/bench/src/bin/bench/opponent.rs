//! A peer process: prints lines and executes commands.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kube_informers_bench::kind::Kind;
use kube_informers_bench::peer::Form;
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
    /// The same program with jemalloc instead of the system's allocator.
    OursJemalloc,
    /// client-go with its defaults: protobuf.
    ClientGo,
    /// client-go with JSON, as used by kube-runtime.
    ClientGoJson,
    /// kube-runtime.
    KubeRuntime,
    /// This library with packed objects, decoded on access.
    Packed,
    /// The same, decoded once on arrival.
    PackedOnArrival,
    /// This library with packed objects that are compressed, decoded on access.
    Compressed,
    /// This library with a projection.
    Projected,
    /// This library with metadata only.
    Metadata,
}

impl Peer {
    /// The forms of a cache: the columns of the part `packed`.
    pub const FORMS: [Self; 8] = [
        Self::ClientGo,
        Self::KubeRuntime,
        Self::Ours,
        Self::Packed,
        Self::PackedOnArrival,
        Self::Compressed,
        Self::Projected,
        Self::Metadata,
    ];

    /// The peers of all other parts, in the order of the columns.
    pub const ALL: [Self; 5] = [
        Self::Ours,
        Self::OursJemalloc,
        Self::ClientGo,
        Self::ClientGoJson,
        Self::KubeRuntime,
    ];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "here",
            Self::OursJemalloc => "here, jemalloc",
            Self::ClientGo => "client-go",
            Self::ClientGoJson => "client-go, JSON",
            Self::KubeRuntime => "kube-runtime",
            Self::Packed => "packed",
            Self::PackedOnArrival => "packed, checked on arrival",
            Self::Compressed => "packed, compressed",
            Self::Projected => "projected",
            Self::Metadata => "metadata only",
        }
    }

    /// The name among the forms of a cache.
    #[must_use]
    pub fn form_name(self) -> &'static str {
        match self {
            Self::Ours => "typed",
            other => other.name(),
        }
    }

    /// The form of this library's cache.
    fn form(self) -> Form {
        match self {
            Self::Packed => Form::Packed,
            Self::PackedOnArrival => Form::PackedOnArrival,
            Self::Compressed => Form::Compressed,
            Self::Projected => Form::Projected,
            Self::Metadata => Form::Metadata,
            Self::Ours | Self::OursJemalloc | Self::ClientGo | Self::ClientGoJson | Self::KubeRuntime => {
                Form::Typed
            }
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursJemalloc => "ours-jemalloc",
            Self::ClientGo => "client-go",
            Self::ClientGoJson => "client-go-json",
            Self::KubeRuntime => "kube-runtime",
            Self::Packed | Self::PackedOnArrival | Self::Compressed | Self::Projected | Self::Metadata => {
                self.form().argument()
            }
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
    /// The library jemalloc, if it is installed.
    pub jemalloc: Option<PathBuf>,
    /// The peers to measure; all, if not given.
    pub wanted: Option<Vec<Peer>>,
}

impl Programs {
    /// The peers to measure that are available. Each run starts with another one: whatever ran before has an effect on
    /// the server.
    #[must_use]
    pub fn peers(&self, run: usize) -> Vec<Peer> {
        let mut peers = self.wanted_of(&Peer::ALL);
        let first = run % peers.len().max(1);
        peers.rotate_left(first);
        peers
    }

    /// The forms of a cache to measure that are available.
    #[must_use]
    pub fn forms(&self) -> Vec<Peer> {
        self.wanted_of(&Peer::FORMS)
    }

    fn wanted_of(&self, peers: &[Peer]) -> Vec<Peer> {
        let is_wanted = |peer| {
            let wanted = self.wanted.as_ref();
            self.has(peer) && wanted.is_none_or(|wanted| wanted.contains(&peer))
        };
        peers.iter().copied().filter(|peer| is_wanted(*peer)).collect()
    }

    /// Whether the program of a peer is available.
    #[must_use]
    pub fn has(&self, peer: Peer) -> bool {
        self.of(peer).is_some()
    }

    fn of(&self, peer: Peer) -> Option<PathBuf> {
        match peer {
            Peer::KubeRuntime => Some(self.directory.join("bench-kube-runtime")),
            Peer::Ours
            | Peer::Packed
            | Peer::PackedOnArrival
            | Peer::Compressed
            | Peer::Projected
            | Peer::Metadata => Some(self.directory.join("bench-ours")),
            Peer::OursJemalloc => {
                let installed = self.jemalloc.as_ref();
                installed.map(|_| self.directory.join("bench-ours"))
            }
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

/// The objects that a peer caches.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Where they are.
    pub server: Server<'a>,
    /// Their kind.
    pub kind: Kind,
    /// How many there are.
    pub objects: usize,
    /// Whether the peer drops their managedFields.
    pub drop_managed_fields: bool,
}

impl<'a> Job<'a> {
    /// Pods without managedFields.
    #[must_use]
    pub fn pods(server: Server<'a>, objects: usize) -> Self {
        Self {
            server,
            kind: Kind::Pods,
            objects,
            drop_managed_fields: true,
        }
    }

    /// The same with managedFields.
    #[must_use]
    pub fn keep_managed_fields(self) -> Self {
        Self {
            drop_managed_fields: false,
            ..self
        }
    }
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
    /// Who it is.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Starts the informer of a peer.
    ///
    /// # Errors
    ///
    /// There is no such program.
    pub fn start(programs: &Programs, peer: Peer, job: Job<'_>) -> Result<Self> {
        let program = programs
            .of(peer)
            .ok_or_else(|| format!("the program of {} is missing", peer.name()))?;
        let mut command = Command::new(&program);
        if job.drop_managed_fields {
            command.arg("--drop");
        }
        if let (Peer::OursJemalloc, Some(library)) = (peer, &programs.jemalloc) {
            command.env("LD_PRELOAD", library);
        }
        if peer == Peer::ClientGoJson {
            command.arg("--json");
        }
        if peer.form() != Form::Typed {
            command.args(["--form", peer.form().argument()]);
        }
        if job.kind != Kind::Pods {
            command.args(["--kind", job.kind.plural()]);
        }
        Self::spawn(peer, command, job.server)
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
            other => return Err(format!("there is no controller for {}", other.name()).into()),
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
