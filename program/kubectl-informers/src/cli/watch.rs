//! The options of `watch`, and those it shares with `history`.

use clap::{Args, ValueEnum};

use super::global::TokenArgs;
use super::limits::Timeout;
use crate::expression::Expression;

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

/// The options of `watch` and `history` that select changes and what is printed of them.
#[derive(Args, Clone, Debug, Default)]
pub struct ChangeArgs {
    /// With -o json: add the object to every event
    #[arg(long)]
    pub with_object: bool,

    /// Print only updates of this field, as in spec or 'status.conditions[Ready]'; can be repeated
    #[arg(long, value_name = "PATH")]
    pub only: Vec<String>,

    /// Leave this field out of diffs, as in status or 'metadata.annotations["example.com/key"]'; can be repeated
    #[arg(long, value_name = "PATH")]
    pub ignore: Vec<String>,

    /// Print only changes by this field manager, as in kubelet; can be repeated
    #[arg(long, value_name = "MANAGER")]
    pub by: Vec<String>,

    /// Print only objects whose name matches this regular expression
    #[arg(long = "name", value_name = "REGEX")]
    pub name_regex: Option<String>,
}
