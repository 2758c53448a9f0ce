//! The command line: commands and options.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::expression::Expression;
use crate::limits::{Limits, Size, Timeout};
use crate::recording::args::{AtArgs, HistoryArgs, RecordArgs, ReplayArgs, Speed};
use crate::watch::filter::ChangeArgs;

/// See what changes in a Kubernetes cluster, live, and who changed it.
///
/// Without a command it shows the dashboard. Without a kubeconfig it starts a small in-memory cluster with
/// simulated activity.
#[derive(Parser)]
#[command(
    name = "kubectl-informers",
    bin_name = "kubectl informers",
    version,
    max_term_width = 110,
    after_help = EXAMPLES,
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,

    /// The bearer token for the API server.
    #[command(flatten)]
    pub token: TokenArgs,

    /// The command; the dashboard if there is none.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// The token of kubectl's `--token`.
    pub fn token(&self) -> Option<ApiToken> {
        let of_command = match &self.command {
            Some(Command::Watch(args)) => args.token.token.clone(),
            Some(Command::Top(args)) => args.token.token.clone(),
            Some(Command::Trouble(args)) => args.token.token.clone(),
            Some(Command::Bench(args)) => args.token.token.clone(),
            Some(Command::Record(args)) => args.token.token.clone(),
            _ => None,
        };
        of_command.or_else(|| self.token.token.clone())
    }
}

/// kubectl's `--token`, of commands that have no token of their own.
#[derive(Args, Clone, Debug, Default)]
pub struct TokenArgs {
    /// The bearer token for the API server; the same as --api-token
    #[arg(long, value_name = "TOKEN", help_heading = "Cluster")]
    pub token: Option<ApiToken>,
}

const EXAMPLES: &str = "Examples:
  kubectl informers                          the dashboard
  kubectl informers watch pods -A            a table, then every change with its diff
  kubectl informers watch deploy,po -o json  one JSON object per event, for scripts
  kubectl informers serve                    the dashboard as a web page
  kubectl informers record incident.rec      record every change, for history, at and replay
  kubectl informers trouble --for 5m         objects rewritten in a loop, and by whom
  kubectl informers --embedded               the dashboard on a cluster in memory

`kubectl informers` and `kubectl-informers` are the same program.";

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// Where the cluster is.
    #[command(flatten)]
    pub connection: Connection,

    /// Which objects.
    #[command(flatten)]
    pub selection: Selection,

    /// How long requests may take, and how much may be listed.
    #[command(flatten)]
    pub limits: Limits,

    /// What is shown of them.
    #[command(flatten)]
    pub showing: Showing,
}

/// Where the cluster is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct Connection {
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// The cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,

    /// The user of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,

    /// The kubeconfig to use, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(short = 's', long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// The bearer token for the API server: kubectl's --token
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "KUBECTL_INFORMERS_API_TOKEN",
        hide_env_values = true
    )]
    pub api_token: Option<ApiToken>,

    /// Impersonate this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,

    /// Impersonate this group; can be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub impersonate_groups: Vec<String>,

    /// Impersonate this UID
    #[arg(long = "as-uid", global = true, value_name = "UID")]
    pub impersonate_uid: Option<String>,

    /// The file with the certificate authority of the API server
    #[arg(long, global = true, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,

    /// The file with the client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub client_certificate: Option<String>,

    /// The file with the key of the client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub client_key: Option<String>,

    /// The name in the certificate of the API server, if it differs from the address
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,

    /// Do not verify the certificate of the API server; the connection is not secure
    #[arg(long, global = true)]
    pub insecure_skip_tls_verify: bool,

    /// Directory of the discovery cache, shared with kubectl
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "KUBECACHEDIR",
        hide_env = true
    )]
    pub cache_dir: Option<PathBuf>,

    /// Use an in-memory cluster with simulated changes, ignoring any kubeconfig
    #[arg(long, global = true, conflicts_with_all = ["context", "cluster", "user", "kubeconfig", "server"])]
    pub embedded: bool,

    /// Use a recording instead of a cluster
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["context", "cluster", "user", "kubeconfig", "server", "embedded"])]
    pub recording: Option<PathBuf>,

    /// With --recording: the first moment, as for replay --from
    #[arg(long, global = true, value_name = "TIME", requires = "recording")]
    pub replay_from: Option<String>,

    /// With --recording: how many times faster than recorded; 0 stays at the first moment [default: 1]
    #[arg(long, global = true, value_name = "N", requires = "recording")]
    pub replay_speed: Option<Speed>,
}

/// A token. `Debug` does not show it.
#[derive(Clone)]
pub struct ApiToken(pub String);

impl std::str::FromStr for ApiToken {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiToken")
    }
}

/// Which objects.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Objects")]
pub struct Selection {
    /// The namespace, or a comma-separated list
    #[arg(short, long, global = true, value_name = "NAME", value_delimiter = ',')]
    pub namespace: Vec<String>,

    /// All namespaces
    #[arg(short = 'A', long, global = true)]
    pub all_namespaces: bool,

    /// Label selector, for example app=web,tier!=cache
    #[arg(short = 'l', long, global = true, value_name = "LABELS")]
    pub selector: Option<String>,

    /// Field selector, for example status.phase=Running
    #[arg(long, global = true, value_name = "FIELDS")]
    pub field_selector: Option<String>,
}

/// What is shown.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Showing {
    /// Show the values of Secrets; by default they are replaced by their length
    #[arg(long, global = true)]
    pub show_secrets: bool,

    /// Show fields that change all the time (resourceVersion, heartbeats, ...), and managedFields in objects
    #[arg(long, global = true, visible_alias = "show-managed-fields")]
    pub show_noise: bool,

    /// The configuration file, instead of ~/.config/kubectl-informers/config.yaml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// When to use colors; NO_COLOR is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,

    /// Print only errors on standard error
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Fields that are left out of diffs, besides the noise.
    #[arg(skip)]
    pub ignore: Vec<String>,

    /// Whether changes are not compared, because nothing is shown of them.
    #[arg(skip)]
    pub skip_diffs: bool,

    /// Log format; RUST_LOG selects what is logged
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// As text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The commands.
#[allow(clippy::large_enum_variant)] // There is one per process.
#[derive(Subcommand)]
pub enum Command {
    /// Show objects, then every change as it happens, with a diff of old and new
    Watch(WatchArgs),
    /// Show the dashboard: informers, their cost, and what changes most (the default)
    Top(TopArgs),
    /// Show the dashboard as a web page
    Serve(ServeArgs),
    /// Record every change to a file
    #[command(
        after_help = "Example:\n  kubectl informers record incident.rec --for 8h\n  kubectl informers history --from 10m incident.rec"
    )]
    Record(RecordArgs),
    /// Print the changes of a recording, with diffs and authors
    History(HistoryArgs),
    /// Print the objects of a recording as they were
    At(AtArgs),
    /// Serve a recording as an API server, starting at a given moment
    Replay(ReplayArgs),
    /// Find objects rewritten in a loop, field managers that overwrite each other, and stale watches
    Trouble(TroubleArgs),
    /// Run the embedded API server, for experiments and tests
    #[command(
        after_help = "Example:\n  kubectl informers testserver --objects pods=500,nodes=20 --churn 20/s"
    )]
    Testserver(kube_testserver::program::Arguments),
    /// Measure how long a sync takes and how much it costs
    Bench(BenchArgs),
    /// Print the completion script of a shell
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man,
}

/// `watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Comma-separated kinds: pods, po, deployments.apps, deployments.v1.apps, widgets.example.com
    #[arg(value_name = "KIND", required = true)]
    pub kinds: String,

    /// Only the object with this name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Output format: text, wide (more columns), brief (one line per change), or json (one event per line)
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub output: Output,

    /// Omit the initial objects: print only changes after the initial list
    #[arg(long)]
    pub since_sync: bool,

    /// Which changes are printed, and what of them.
    #[command(flatten)]
    pub changes: ChangeArgs,

    /// Watch the object and everything it owns (by owner references), with the Events about them
    #[arg(long)]
    pub tree: bool,

    /// With --tree: more kinds of owned objects, comma-separated
    #[arg(long, value_name = "KIND", requires = "tree")]
    pub also: Option<String>,

    /// Print only changes for which this CEL expression on old and new is true, for example 'new.spec.replicas > 3'
    #[arg(long = "where", value_name = "EXPR")]
    pub condition: Option<Expression>,

    /// Exit with code 0 once this CEL expression on new is true for every object
    #[arg(long, value_name = "EXPR")]
    pub until: Option<Expression>,

    /// With --until: give up after this time with exit code 124, for example 30s or 5m; 0 for never
    #[arg(long, value_name = "TIME", requires = "until", default_value = "0")]
    pub timeout: Timeout,

    /// The bearer token for the API server.
    #[command(flatten)]
    pub token: TokenArgs,
}

/// How `watch` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table, then changes with their diffs.
    #[default]
    Text,
    /// The same with more columns.
    Wide,
    /// One line per change.
    Brief,
    /// One JSON object per event.
    Json,
}

/// `top`.
#[derive(Args, Clone, Debug, Default)]
pub struct TopArgs {
    /// Comma-separated kinds [default: pods, nodes, deployments and events]
    #[arg(value_name = "KIND")]
    pub kinds: Option<String>,

    /// Print lines instead of a full-screen view; the default if the output is not a terminal
    #[arg(long)]
    pub plain: bool,

    /// Seconds between summaries in the plain output
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,

    /// The bearer token for the API server.
    #[command(flatten)]
    pub token: TokenArgs,
}

/// `serve`.
#[derive(Args, Clone)]
pub struct ServeArgs {
    /// Comma-separated kinds [default: pods, nodes, deployments and events]
    #[arg(value_name = "KIND")]
    pub kinds: Option<String>,

    /// The port to listen on; 0 selects a free port
    #[arg(long, default_value_t = 8090)]
    pub port: u16,

    /// The address to listen on; anything but loopback needs a --token
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,

    /// Require this token from clients
    #[arg(
        long,
        value_name = "TOKEN",
        env = "KUBECTL_INFORMERS_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,

    /// An additional host name that clients may use, besides localhost and IP addresses
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub allow_host: Vec<String>,

    /// Close a connection whose client does not read its response for this long; 0 for never
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub write_timeout: Timeout,

    /// The maximum size of one list; the rest is left out
    #[arg(long, value_name = "SIZE", default_value = "16Mi")]
    pub max_response: Size,
}

impl Default for ServeArgs {
    fn default() -> Self {
        Self {
            kinds: None,
            port: 8090,
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            token: None,
            allow_host: Vec::new(),
            write_timeout: Timeout::from_secs(30),
            max_response: Size::mebibytes(16),
        }
    }
}

/// `trouble`.
#[derive(Args, Clone, Debug)]
pub struct TroubleArgs {
    /// Comma-separated kinds
    #[arg(value_name = "KIND", default_value = crate::trouble::KINDS)]
    pub kinds: String,

    /// Observe for this long, then exit with code 0, or 2 if there is trouble; 0 to run until stopped
    #[arg(long = "for", value_name = "TIME", default_value = "0")]
    pub period: Timeout,

    /// How many changes of one field within the window count as a loop
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..))]
    pub changes: u16,

    /// The window of --changes
    #[arg(long, value_name = "TIME", default_value = "1m")]
    pub window: Timeout,

    /// Report field managers that change a kind more often than this per minute; 0 to disable
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_churn: u32,

    /// Report watches that the server has not confirmed for this long; 0 to disable
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub stale: Timeout,

    /// Output format: text, or json (one finding per line, then a summary)
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: TroubleOutput,

    /// The bearer token for the API server.
    #[command(flatten)]
    pub token: TokenArgs,
}

/// How `trouble` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TroubleOutput {
    /// A line for each finding, then a summary.
    #[default]
    Text,
    /// The same as JSON.
    Json,
}

/// `bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Comma-separated kinds to sync
    #[arg(value_name = "KIND", default_value = "pods")]
    pub kinds: String,

    /// The number of objects of each kind in the embedded server
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub objects: usize,

    /// Changes per second in the embedded server while events are counted
    #[arg(long, value_name = "RATE", default_value_t = 2_000)]
    pub churn: u32,

    /// Seconds to count events after the sync; 0 skips this
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub seconds: u64,

    /// Also record the events to this new file, and measure it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// With --record: write the recorded changes again until the file has this many
    #[arg(long, value_name = "N", requires = "record", default_value_t = 0)]
    pub changes: u64,

    /// Print one JSON object instead of lines
    #[arg(long)]
    pub json: bool,

    /// The bearer token for the API server.
    #[command(flatten)]
    pub token: TokenArgs,
}
