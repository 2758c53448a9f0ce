//! The options of every command: the cluster, the objects, the output.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::{Limits, Speed};

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

/// kubectl's `--token`, of commands that have no token of their own.
#[derive(Args, Clone, Debug, Default)]
pub struct TokenArgs {
    /// The bearer token for the API server; the same as --api-token
    #[arg(long, value_name = "TOKEN", help_heading = "Cluster")]
    pub token: Option<ApiToken>,
}
