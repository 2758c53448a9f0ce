//! The options of `top`, `serve`, `trouble` and `bench`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::global::TokenArgs;
use super::limits::{Size, Timeout};

/// The default kinds of the dashboards.
pub const DASHBOARD_KINDS: &str = "pods,nodes,deployments,events";
/// The default kinds of `trouble`: those that controllers write.
const TROUBLE_KINDS: &str = "pods,nodes,deployments,replicasets,statefulsets,daemonsets,services,configmaps";

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
    #[arg(value_name = "KIND", default_value = TROUBLE_KINDS)]
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
