//! The same numbers for Prometheus, in its text format.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use http::StatusCode;

use super::answer::{self, Answer};
use super::app::App;
use crate::bench::usage::Usage;
use crate::board::{Board, KindBoard};
use crate::observe::{Health, InformerView};

type Read = fn(&InformerView) -> f64;

/// Name, type, help text, value.
const METRICS: [(&str, &str, &str, Read); 15] = [
    ("objects", "gauge", "Objects in the cache.", |view| {
        view.objects as f64
    }),
    (
        "quarantined_objects",
        "gauge",
        "Objects that could not be read.",
        |view| view.quarantined as f64,
    ),
    (
        "synced",
        "gauge",
        "Whether everything that was there is in the cache.",
        |view| f64::from(u8::from(view.synced)),
    ),
    (
        "open_watches",
        "gauge",
        "Watches held open on the server.",
        |view| view.members as f64,
    ),
    (
        "received_bytes_total",
        "counter",
        "Bytes received from the server.",
        |view| view.bytes as f64,
    ),
    ("events_total", "counter", "Events received by watches.", |view| {
        view.events as f64
    }),
    ("lists_total", "counter", "Complete lists.", |view| {
        view.lists as f64
    }),
    (
        "relists_total",
        "counter",
        "Lists that had to be repeated.",
        |view| view.relists as f64,
    ),
    ("watches_total", "counter", "Watches opened.", |view| {
        view.watches as f64
    }),
    ("errors_total", "counter", "Failed lists and watches.", |view| {
        view.errors as f64
    }),
    (
        "backlog",
        "gauge",
        "Events that this program has not taken yet.",
        |view| view.backlog as f64,
    ),
    (
        "version_age_seconds",
        "gauge",
        "Age of the last proof that the cache is current.",
        |view| view.version_age.map_or(f64::NAN, |age| age.as_secs_f64()),
    ),
    (
        "live",
        "gauge",
        "Whether the server has accepted the watch and nothing is known to be missing.",
        |view| f64::from(u8::from(view.health == Health::Live)),
    ),
    (
        "disconnected_seconds",
        "gauge",
        "Time since the contact with the server was lost; 0 while there is contact.",
        |view| match view.health {
            Health::Disconnected { since } => since.elapsed().as_secs_f64(),
            Health::Live | Health::CatchingUp => 0.0,
        },
    ),
    (
        "failing",
        "gauge",
        "Whether the last list or watch failed.",
        |view| f64::from(u8::from(view.last_error.is_some())),
    ),
];

/// `/metrics`.
pub(super) fn metrics(app: &App) -> Answer {
    let text = {
        let board = app.board.lock();
        let mut text = render(&board.kinds);
        let changes = board.log.last();
        family(
            &mut text,
            "kubectl_informers_log_changes_total",
            "counter",
            "Changes put into the log.",
        );
        let _ = writeln!(text, "kubectl_informers_log_changes_total {changes}");
        for (name, help, value) in [
            (
                "kubectl_informers_write_timeouts_total",
                "Connections closed because the client did not read.",
                &app.write_timeouts,
            ),
            (
                "kubectl_informers_rejected_responses_total",
                "Large responses rejected because too many were being sent.",
                &app.rejected,
            ),
        ] {
            family(&mut text, name, "counter", help);
            let _ = writeln!(text, "{name} {}", value.load(Ordering::Relaxed));
        }
        let name = "kubectl_informers_manager_changes_total";
        family(
            &mut text,
            name,
            "counter",
            "Changes by field manager; `other` stands for all beyond the first 200.",
        );
        for ((kind, manager), count) in &board.managers {
            if let Some(kind) = board.kinds.get(*kind) {
                let _ = writeln!(
                    text,
                    "{name}{{{},manager=\"{}\"}} {count}",
                    labels(kind),
                    escape(manager)
                );
            }
        }
        findings(&mut text, &board);
        process(&mut text, app.started.as_millisecond());
        let coalesced = *app.coalesced.lock();
        family(
            &mut text,
            "kubectl_informers_coalesced_changes_total",
            "counter",
            "Changes that were merged or left out because they arrived faster than they were processed.",
        );
        let _ = writeln!(
            text,
            "kubectl_informers_coalesced_changes_total {}",
            coalesced.merged + 2 * coalesced.vanished
        );
        text
    };
    answer::of(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

fn render(kinds: &[KindBoard]) -> String {
    // Writing to a String cannot fail.
    let mut text = String::new();
    family(
        &mut text,
        "kubectl_informers_build_info",
        "gauge",
        "The version of the program.",
    );
    let _ = writeln!(
        text,
        "kubectl_informers_build_info{{version=\"{}\"}} 1",
        env!("CARGO_PKG_VERSION")
    );
    for (name, kind, help, read) in METRICS {
        let name = format!("kube_informers_{name}");
        family(&mut text, &name, kind, help);
        for board in kinds {
            if let Some(view) = &board.view {
                let _ = writeln!(text, "{name}{{{}}} {}", labels(board), number(read(view)));
            }
        }
    }
    let name = "kube_informers_changes_total";
    family(
        &mut text,
        name,
        "counter",
        "Changes of objects, the initial list left out.",
    );
    for board in kinds {
        for (event, count) in ["added", "updated", "deleted"].iter().zip(board.delivered) {
            let _ = writeln!(text, "{name}{{{},event=\"{event}\"}} {count}", labels(board));
        }
    }
    text
}

/// Objects rewritten in a loop, and managers that overwrite each other.
fn findings(text: &mut String, board: &Board) {
    let name = "kubectl_informers_findings_total";
    family(
        text,
        name,
        "counter",
        "Fields found in a loop or in a fight of managers.",
    );
    for (index, kind) in board.kinds.iter().enumerate() {
        let (loops, fights) = board.findings.counts(index);
        for (word, count) in [("loop", loops), ("fight", fights)] {
            let _ = writeln!(text, "{name}{{{},type=\"{word}\"}} {count}", labels(kind));
        }
    }
    let name = "kubectl_informers_findings";
    family(
        text,
        name,
        "gauge",
        "Fields that are in a loop or in a fight at the moment.",
    );
    for (index, kind) in board.kinds.iter().enumerate() {
        let _ = writeln!(
            text,
            "{name}{{{}}} {}",
            labels(kind),
            board.findings.current(index)
        );
    }
}

/// The usual metrics of a process; only on Linux.
fn process(text: &mut String, started_ms: i64) {
    let usage = Usage::now();
    let files = std::fs::read_dir("/proc/self/fd")
        .ok()
        .map(|files| files.count() as f64);
    let metrics = [
        (
            "process_cpu_seconds_total",
            "counter",
            "CPU time, user and system.",
            usage.cpu.map(|cpu| cpu.as_secs_f64()),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Memory in use.",
            usage.resident.map(|bytes| bytes as f64),
        ),
        ("process_open_fds", "gauge", "Open files.", files),
        (
            "process_start_time_seconds",
            "gauge",
            "Start, in seconds since 1970.",
            Some(started_ms as f64 / 1000.0),
        ),
    ];
    for (name, kind, help, value) in metrics {
        if let Some(value) = value {
            family(text, name, kind, help);
            let _ = writeln!(text, "{name} {value}");
        }
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels(board: &KindBoard) -> String {
    format!(
        "group=\"{}\",version=\"{}\",resource=\"{}\"",
        escape(&board.kind.group),
        escape(&board.kind.version),
        escape(&board.kind.plural)
    )
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value.is_nan() {
        true => "NaN".to_owned(),
        false => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::board::fixtures::{board, kinds, updated, view};

    #[tokio::test(start_paused = true)]
    async fn every_family_is_announced_once_and_has_a_line_for_each_kind() {
        let mut board = board();
        let [pods, nodes] = kinds();
        board.tick(vec![view(&pods), view(&nodes)], Instant::now());
        board.apply(updated("pods", "shop", "cart", &["/a"]), Instant::now());

        let text = render(&board.kinds);

        assert_eq!(text.matches("# TYPE kube_informers_objects gauge").count(), 1);
        assert!(
            text.contains("kube_informers_objects{group=\"\",version=\"v1\",resource=\"pods\"} 60\n"),
            "{text}"
        );
        assert!(
            text.contains("resource=\"pods\",event=\"updated\"} 1\n"),
            "{text}"
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let family = name.split('{').next().unwrap();
            assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
        }
    }
}
