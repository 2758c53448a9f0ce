//! The command line: commands and options. Plain data, which every other part may read.

mod dashboards;
mod global;
pub mod limits;
pub mod recording;
mod watch;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub use dashboards::{BenchArgs, DASHBOARD_KINDS, ServeArgs, TopArgs, TroubleArgs, TroubleOutput};
pub use global::{ApiToken, Connection, Global, LogFormat, Selection, Showing, TokenArgs, When};
use recording::{AtArgs, HistoryArgs, RecordArgs, ReplayArgs};
pub use watch::{ChangeArgs, Output, WatchArgs};

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

const EXAMPLES: &str = "Examples:
  kubectl informers                          the dashboard
  kubectl informers watch pods -A            a table, then every change with its diff
  kubectl informers watch deploy,po -o json  one JSON object per event, for scripts
  kubectl informers serve                    the dashboard as a web page
  kubectl informers record incident.rec      record every change, for history, at and replay
  kubectl informers trouble --for 5m         objects rewritten in a loop, and by whom
  kubectl informers --embedded               the dashboard on a cluster in memory

`kubectl informers` and `kubectl-informers` are the same program.";

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
