//! The `kube-testserver` program: its options and its main loop.
//!
//! The binary contains nothing else; other programs can offer the same as a subcommand.

mod envtest;

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, Parser};

use crate::churn::{Churn, Population};
use crate::{Controllers, TestServer};

pub use envtest::{Role, stand_in};

/// An in-memory Kubernetes API server for tests and experiments.
///
/// Nothing is stored on disk: all objects are lost when it stops. Without --live and --churn no object changes by itself.
#[derive(Debug, Parser)]
#[command(name = "kube-testserver", version)]
pub struct Program {
    #[command(flatten)]
    arguments: Arguments,

    /// Fills a directory with programs for envtest, the test environment of Go's controller-runtime, and exits. With
    /// KUBEBUILDER_ASSETS set to the directory, envtest starts this server instead of kube-apiserver and etcd
    #[arg(long, value_name = "DIR", exclusive = true)]
    envtest: Option<PathBuf>,
}

impl Program {
    /// Serves until it is stopped, or fills a directory for envtest. Only the program `kube-testserver` can do the latter,
    /// because the links in the directory lead to it.
    ///
    /// # Errors
    ///
    /// As [`run`]; or the directory cannot be written.
    pub async fn run(self) -> Result<(), String> {
        let Some(directory) = &self.envtest else {
            return run(self.arguments).await;
        };
        envtest::link(directory)?;
        println!(
            "Use it with\n  KUBEBUILDER_ASSETS={} go test ./...",
            directory.display()
        );
        Ok(())
    }
}

/// An in-memory Kubernetes API server for tests and experiments.
///
/// Nothing is stored on disk: all objects are lost when it stops. Without --live and --churn no object changes by itself.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 8001)]
    port: u16,

    /// The address to listen on; any address but loopback accepts other machines
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDR")]
    bind: IpAddr,

    /// The initial objects, such as pods=500,nodes=20,configmaps=5
    #[arg(long, default_value = "", value_name = "LIST", hide_default_value = true)]
    objects: Population,

    /// Writes per second (20/s) or per minute (5/m), of all kinds together: deployments roll, pods come and go, nodes flap, and the
    /// controllers of --live follow up. About one in four is a write of a pod, the others are of deployments, replica sets, nodes,
    /// leases, config maps and events. Without --objects and --manifest there are 3 nodes, 4 deployments and 20 pods
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    churn: Option<f64>,

    /// Runs the controllers of a cluster: deployments, stateful and daemon sets and jobs get pods, which are scheduled and run;
    /// services get EndpointSlices; garbage collection and namespace deletion take some time. Creates a node if there is none
    #[arg(long)]
    live: bool,

    /// The random seed; the same seed produces the same cluster
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// The bearer token that clients must send
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,

    /// Serves HTTPS with generated certificates; the kubeconfig contains them
    #[arg(long)]
    tls: bool,

    /// Switches RBAC on; the kubeconfig is that of an administrator, who can act as others (kubectl --as)
    #[arg(long, requires = "tls")]
    rbac: bool,

    /// Writes a kubeconfig to this file
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Creates the objects of a YAML or JSON file, of all such files in a directory, or of standard input (-); can be
    /// repeated
    #[arg(long, value_name = "FILE")]
    manifest: Vec<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  kube-testserver --objects pods=500,nodes=20 --churn 20/s --seed 1
  kube-testserver --live --kubeconfig cluster.yaml
  kube-testserver --tls --kubeconfig cluster.yaml
  kube-testserver --port 0 --kubeconfig cluster.yaml --manifest crds.yaml --manifest objects.yaml";

/// Never shows the token.
impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments")
            .field("port", &self.port)
            .field("bind", &self.bind)
            .finish_non_exhaustive()
    }
}

/// Serves until Ctrl-C or, on Unix, SIGTERM.
///
/// # Errors
///
/// The port is in use, a manifest cannot be read or created, or the kubeconfig cannot be written. The text names the
/// cause and the fix.
pub async fn run(arguments: Arguments) -> Result<(), String> {
    // Registered before the server is announced, so that no signal is missed.
    let mut stop = Stop::new().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut builder = TestServer::builder()
        .seed(arguments.seed)
        .conformant()
        .garbage_collection();
    // A given number of objects is a load, in which managed fields would cost the server more than the rest.
    if arguments.objects.is_empty() {
        builder = builder.field_managers();
    }
    let live = arguments.live || arguments.churn.is_some();
    if live {
        builder = builder.controllers(Controllers::all());
    }
    if arguments.rbac {
        builder = builder.rbac();
    }
    if let Some(token) = &arguments.token {
        builder = builder.token(token);
    }
    if !arguments.bind.is_loopback() {
        builder = builder.allow_remote();
    }
    if arguments.tls {
        builder = builder
            .tls(&[arguments.bind])
            .map_err(|error| error.to_string())?;
    }
    // Bound before any object is created, so that a busy port fails at once.
    let address = SocketAddr::new(arguments.bind, arguments.port);
    let server = builder
        .listen(address)
        .await
        .map_err(|error| busy(address, &error))?;
    server.create_system_objects();
    for path in &arguments.manifest {
        create_from(&server, path)?;
    }
    let mut churn = Churn::new(server.clone(), arguments.seed);
    let is_churn_alone = arguments.objects.is_empty() && arguments.manifest.is_empty();
    let objects = match arguments.churn {
        // Without objects nothing could change.
        Some(_) if is_churn_alone => Population::new()
            .with("nodes", 3)
            .with("deployments", 4)
            .with("pods", 20),
        _ => arguments.objects.clone(),
    };
    churn
        .fill(&objects)
        .map_err(|error| format!("--objects: {error}"))?;
    if live {
        churn.ensure_node();
    }
    introduce(&arguments, &server)?;

    let rate = arguments.churn.unwrap_or(0.0);
    tokio::select! {
        // Cancel-safe: between two steps the churn has no state outside the server.
        () = churn.run(rate) => {}
        () = stop.wait() => {}
    }
    server.shutdown().await;
    println!("stopped");
    Ok(())
}

fn busy(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "cannot listen on {address}: it is in use; stop the other process or choose another --port (0 for any)"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("cannot listen on {address}: permission denied; choose a --port above 1023")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("cannot listen on {address}: this machine has no such address; choose another --bind")
        }
        _ => format!("cannot listen on {address}: {error}"),
    }
}

/// Creates the objects of a file, of a directory, or of the standard input.
fn create_from(server: &TestServer, path: &Path) -> Result<(), String> {
    if path != Path::new("-") {
        return server
            .load_manifests(path)
            .map(|_| ())
            .map_err(|error| error.to_string());
    }
    let text =
        io::read_to_string(io::stdin()).map_err(|error| format!("cannot read the manifest -: {error}"))?;
    server
        .load_manifest(&text)
        .map(|_| ())
        .map_err(|error| format!("cannot use the manifest -: {error}"))
}

/// Writes a file that only its owner can read, because it may contain a token.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // A file that already exists keeps its mode when it is opened.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

/// Prints the address of the server and how to use it.
fn introduce(arguments: &Arguments, server: &TestServer) -> Result<(), String> {
    let (url, config) = (
        server.url().unwrap_or_default(),
        server.kubeconfig().unwrap_or_default(),
    );
    let mut text = format!("Kubernetes {} on {url}", crate::KUBERNETES_VERSION);
    let counts = ["nodes", "deployments.apps", "pods"].map(|resource| server.count(resource));
    let [nodes, deployments, pods] = counts;
    let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let (nodes, deployments) = (counted(nodes, "node"), counted(deployments, "deployment"));
    text.push_str(&format!(
        " with {nodes}, {deployments} and {}",
        counted(pods, "pod")
    ));
    if let Some(rate) = arguments.churn {
        text.push_str(&format!(", {rate} changes a second, seed {}", arguments.seed));
    }
    text.push_str("\n\n");
    if !arguments.bind.is_loopback() {
        let plain = if arguments.tls {
            ""
        } else {
            ", and the connection is not encrypted: add --tls"
        };
        text.push_str(&format!("Other machines can reach it{plain}.\n\n"));
    }
    match &arguments.kubeconfig {
        Some(path) => {
            write_private(path, &config)
                .map_err(|error| format!("cannot write the kubeconfig {}: {error}", path.display()))?;
            text.push_str(&format!(
                "Use it with\n  kubectl --kubeconfig {} get pods -A\n",
                path.display()
            ));
        }
        None if arguments.tls => {
            text.push_str("Use it with this kubeconfig (--kubeconfig FILE writes it to a file):\n\n");
            text.push_str(&config);
        }
        None => {
            text.push_str(&format!("Use it with\n  kubectl --server {url} get pods -A\n"));
            text.push_str("or with this kubeconfig (--kubeconfig FILE writes it to a file):\n\n");
            text.push_str(&config);
        }
    }
    if arguments.token.is_some() && !arguments.tls {
        text.push_str(
            "\nkubectl and other Go clients send no token over a connection that is not encrypted: add --tls.\n",
        );
    }
    text.push_str("\nCtrl-C stops it.\n");
    let mut out = io::stdout().lock();
    // A closed stdout does not stop the server.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

/// The signals that stop the program: SIGINT (Ctrl-C) and, on Unix, SIGTERM.
struct Stop {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Stop {
    #[cfg(unix)]
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?],
        })
    }

    #[cfg(unix)]
    async fn wait(&mut self) {
        let [interrupt, terminate] = &mut self.signals;
        // Both are cancel-safe.
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without signal handling, the program runs until it is killed.
            std::future::pending().await
        }
    }
}

/// Parses `20/s`, `20` or `5/m` as changes per second.
fn parse_rate(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" => 60.0,
        other => return Err(format!("{other:?} is not a unit: write 20/s or 5/m")),
    };
    let rate: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("{number:?} is not a number: write 20/s or 5/m"))?;
    if !(rate.is_finite() && (0.0..=1e6).contains(&rate)) {
        return Err(format!(
            "{number} is out of range: between 0 and a million changes"
        ));
    }
    Ok(rate / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_per_second_and_per_minute() {
        assert_eq!(parse_rate("20/s"), Ok(20.0));
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        assert_eq!(parse_rate("30/m"), Ok(0.5));
        for wrong in ["", "x/s", "5/h", "-1/s", "nan", "inf/s", "2e9/s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_flags_are_consistent() {
        use clap::CommandFactory;
        Program::command().debug_assert();
    }

    /// The links that it makes lead to the running program, which must be able to stand in for envtest's.
    #[test]
    fn only_the_program_itself_offers_envtest() {
        use clap::CommandFactory;
        let offers = |command: &clap::Command| command.get_arguments().any(|flag| flag.get_id() == "envtest");
        assert!(offers(&Program::command()));
        assert!(!offers(&Arguments::augment_args(clap::Command::new(
            "testserver"
        ))));
    }
}
