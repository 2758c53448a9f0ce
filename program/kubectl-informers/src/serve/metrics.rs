//! `/metrics`: the informers as the exporter of `kube-controller` reports them, and what only this program knows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use kube_controller::metrics::{Metrics, Scrape};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::answer::{self, Answer};
use super::app::App;
use crate::board::{Board, KindBoard};
use crate::process::usage::Usage;
use crate::session::Session;
use crate::session::observe::{Health, InformerView};

/// The text format of Prometheus as it was standardised.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the program.
pub(super) struct Exporter {
    registry: Registry,
}

impl Exporter {
    pub fn new(session: &Session, app: Arc<App>) -> Self {
        let mut metrics = Metrics::new();
        for (observed, served) in session.observed().iter().zip(&app.kinds) {
            metrics = metrics.informer_as(&served.id, &observed.informer);
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.custom(move |scrape| program(&app, scrape))));
        Self { registry }
    }

    /// The response to a scrape.
    pub fn metrics(&self) -> Answer {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => answer::of(StatusCode::OK, OPEN_METRICS, text),
            Err(_) => answer::failure(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be encoded"),
        }
    }
}

fn program(app: &App, scrape: &mut Scrape) {
    scrape.gauge(
        "kubectl_informers_build_info",
        "The version of the program",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1.0,
    );
    let coalesced = *app.coalesced.lock();
    {
        let board = app.board.lock();
        dashboard(&board, scrape);
    }
    for (name, help, count) in [
        (
            "kubectl_informers_coalesced_changes",
            "Changes that were merged or left out because they arrived faster than they were processed",
            coalesced.merged + 2 * coalesced.vanished,
        ),
        (
            "kubectl_informers_write_timeouts",
            "Connections closed because the client did not read",
            app.write_timeouts.load(Ordering::Relaxed),
        ),
        (
            "kubectl_informers_rejected_responses",
            "Large responses rejected because too many were being sent",
            app.rejected.load(Ordering::Relaxed),
        ),
    ] {
        scrape.counter(name, help, &[], count);
    }
    process(app.started.as_millisecond(), scrape);
}

/// What the dashboard shows, by kind.
fn dashboard(board: &Board, scrape: &mut Scrape) {
    for (index, kind) in board.kinds.iter().enumerate() {
        if let Some(view) = &kind.view {
            connection(kind, view, scrape);
        }
        for (event, count) in ["added", "updated", "deleted"].into_iter().zip(kind.delivered) {
            scrape.counter(
                "kube_informers_changes",
                "Changes of objects, excluding the initial list",
                &with(kind, ("event", event)),
                count,
            );
        }
        let (loops, fights) = board.findings.counts(index);
        for (word, count) in [("loop", loops), ("fight", fights)] {
            scrape.counter(
                "kubectl_informers_findings",
                "Fields found in a loop, or overwritten by managers that fight",
                &with(kind, ("type", word)),
                count,
            );
        }
        scrape.gauge(
            "kubectl_informers_current_findings",
            "Fields that are currently in a loop or a fight",
            &labels(kind),
            board.findings.current(index) as f64,
        );
    }
    for ((kind, manager), count) in &board.managers {
        if let Some(kind) = board.kinds.get(*kind) {
            scrape.counter(
                "kubectl_informers_manager_changes",
                "Changes by field manager; other stands for all beyond the first 200",
                &with(kind, ("manager", manager)),
                *count,
            );
        }
    }
    scrape.counter(
        "kubectl_informers_log_changes",
        "Changes added to the log",
        &[],
        board.log.last(),
    );
}

/// How current the cache of a kind is.
fn connection(kind: &KindBoard, view: &InformerView, scrape: &mut Scrape) {
    let disconnected = match view.health {
        Health::Disconnected { since } => since.elapsed().as_secs_f64(),
        Health::Live | Health::CatchingUp => 0.0,
    };
    for (name, help, value) in [
        (
            "kube_informers_open_watches",
            "Watches held open on the server",
            view.members as f64,
        ),
        (
            "kube_informers_version_age_seconds",
            "Age of the last proof that the cache is current",
            view.version_age.map_or(f64::NAN, |age| age.as_secs_f64()),
        ),
        (
            "kube_informers_live",
            "Whether the server has accepted the watch and nothing is known to be missing",
            f64::from(u8::from(view.health == Health::Live)),
        ),
        (
            "kube_informers_disconnected_seconds",
            "Time since the connection to the server was lost; 0 while connected",
            disconnected,
        ),
        (
            "kube_informers_failing",
            "Whether the last list or watch failed",
            f64::from(u8::from(view.last_error.is_some())),
        ),
    ] {
        scrape.gauge(name, help, &labels(kind), value);
    }
}

/// The usual metrics of a process; only on Linux.
fn process(started_ms: i64, scrape: &mut Scrape) {
    let usage = Usage::now();
    if let Some(cpu) = usage.cpu {
        scrape.seconds("process_cpu_seconds", "CPU time, user and system", &[], cpu);
    }
    let files = std::fs::read_dir("/proc/self/fd").ok();
    for (name, help, value) in [
        (
            "process_resident_memory_bytes",
            "Memory in use",
            usage.resident.map(|bytes| bytes as f64),
        ),
        (
            "process_open_fds",
            "Open files",
            files.map(|files| files.count() as f64),
        ),
        (
            "process_start_time_seconds",
            "Start, in seconds since 1970",
            Some(started_ms as f64 / 1000.0),
        ),
    ] {
        if let Some(value) = value {
            scrape.gauge(name, help, &[], value);
        }
    }
}

/// The kind. `name` is the label that the metrics of its informer have.
fn labels(kind: &KindBoard) -> [(&'static str, &str); 4] {
    [
        ("name", &kind.id),
        ("group", &kind.kind.group),
        ("version", &kind.kind.version),
        ("resource", &kind.kind.plural),
    ]
}

/// The kind, and another label.
fn with<'a>(kind: &'a KindBoard, label: (&'static str, &'a str)) -> [(&'static str, &'a str); 5] {
    let [name, group, version, resource] = labels(kind);
    [name, group, version, resource, label]
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::board::fixtures::{board, by, kinds, updated, view};

    #[tokio::test(start_paused = true)]
    async fn every_family_is_announced_once_and_has_a_line_for_each_kind() {
        let mut board = board();
        let [pods, nodes] = kinds();
        board.tick(vec![view(&pods), view(&nodes)], Instant::now());
        let change = updated("pods", "shop", "cart", &["/a"]);
        board.apply(by("my \"tool\"", change), Instant::now());

        let mut registry = Registry::default();
        registry.register_collector(Box::new(
            Metrics::new().custom(move |scrape| dashboard(&board, scrape)),
        ));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();

        assert_eq!(text.matches("# TYPE kube_informers_live gauge").count(), 1);
        for line in [
            "kube_informers_live{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\"} 1.0",
            "kube_informers_live{name=\"nodes\",group=\"\",version=\"v1\",resource=\"nodes\"} 1.0",
            "kube_informers_changes_total{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\",event=\"updated\"} 1.0",
            "kubectl_informers_manager_changes_total{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\",manager=\"my \\\"tool\\\"\"} 1.0",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in:\n{text}"
            );
        }
    }
}
