//! The options of `record`, `history`, `at` and `replay`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::global::TokenArgs;
use super::limits::{Size, Speed, Timeout};
use super::watch::{ChangeArgs, Output};

/// `record`.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// The file; an existing recording is continued
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Comma-separated kinds [default: every kind that can be watched, except leases]
    #[arg(value_name = "KIND")]
    pub kinds: Option<String>,

    /// Stop after this time, for example 10m or 8h
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<Timeout>,

    /// Start a new file when this one is larger; earlier files become FILE.1, FILE.2 …
    #[arg(long, value_name = "SIZE", default_value = "1Gi")]
    pub max_size: Size,

    /// Start a new file when this one is older, for example 24h; 0 for never
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub max_age: Timeout,

    /// How many earlier files to keep
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(0..=9999))]
    pub keep: u16,

    /// The bearer token for the API server.
    #[command(flatten)]
    pub token: TokenArgs,
}

/// `history`.
#[derive(Args, Clone, Debug)]
#[command(override_usage = "kubectl informers history [OPTIONS] [KIND[,KIND…] [NAME]] FILE")]
pub struct HistoryArgs {
    /// Kinds and a name, as for watch, and the recording
    #[arg(value_name = "[KIND [NAME]] FILE", required = true, num_args = 1..=3)]
    pub target: Vec<String>,

    /// From this time on: 2026-01-31T12:00:00Z, '2026-01-31 13:00' or 13:00 in local time, or 10m before the end
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,

    /// Up to this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,

    /// Output format: text, brief (one line per change), or json (one event per line)
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub output: Output,

    /// Which changes are printed, and what of them.
    #[command(flatten)]
    pub changes: ChangeArgs,
}

/// `at`.
#[derive(Args, Clone, Debug)]
pub struct AtArgs {
    /// The moment: 2026-01-31T12:00:00Z, '2026-01-31 13:00' or 13:00 in local time, 10m before the end, start, or end
    #[arg(value_name = "TIME")]
    pub time: String,

    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Comma-separated kinds [default: all of the recording]
    #[arg(value_name = "KIND")]
    pub kinds: Option<String>,

    /// Only the object with this name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Output format: yaml, json, or name
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "yaml",
        hide_possible_values = true
    )]
    pub output: ObjectOutput,
}

/// How `at` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ObjectOutput {
    /// YAML documents.
    #[default]
    Yaml,
    /// One JSON object per line.
    Json,
    /// One name per line.
    Name,
}

/// `replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where and how fast.
    #[command(flatten)]
    pub pace: Pace,

    /// The port to listen on; 0 selects a free port
    #[arg(long, default_value_t = 0)]
    pub port: u16,

    /// The loopback address to listen on
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,

    /// Write the kubeconfig to this file instead of a temporary one
    #[arg(long, value_name = "FILE")]
    pub write_kubeconfig: Option<PathBuf>,
}

/// Where a replay begins, and how fast it is.
#[derive(Args, Clone, Debug, Default)]
pub struct Pace {
    /// How many times faster than recorded; 0 stays at the first moment
    #[arg(long, value_name = "N", default_value_t = Speed(1.0))]
    pub speed: Speed,

    /// The first moment [default: the end of the first lists]
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
}
