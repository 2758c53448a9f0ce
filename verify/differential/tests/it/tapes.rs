//! Runs client-go's informer and ours on the same server during seeded tapes.
//!
//! `TAPES=3,17` plays only these seeds; `verify/scenarios/run` also plays them at a real kube-apiserver.

use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use kube_differential::{Outcome, Report, Tape, go, run};
use kube_informers_e2e::{NoServer, Server, Setup};

/// Tapes that can share a server.
const GENTLE: std::ops::Range<u64> = 0..20;
/// Tapes that restart the server, so each needs a separate one.
const VIOLENT: std::ops::Range<u64> = 100..105;
/// The number of concurrent tapes on the shared server: mostly they wait for the informers' backoff.
const AT_ONCE: usize = 10;
/// The number of concurrent separate servers.
const OWN_AT_ONCE: usize = 2;

fn ours() -> PathBuf {
    env!("CARGO_BIN_EXE_informer-lines").into()
}

fn chosen(seeds: std::ops::Range<u64>) -> Vec<u64> {
    let wanted = std::env::var("TAPES").unwrap_or_default();
    let wanted: Vec<u64> = wanted
        .split(',')
        .filter_map(|seed| seed.trim().parse().ok())
        .collect();
    seeds
        .filter(|seed| wanted.is_empty() || wanted.contains(seed))
        .collect()
}

/// Plays the gentle tapes at one server and each violent one at a separate server.
async fn compare(
    gentle: Result<Server, NoServer>,
    own: impl AsyncFn() -> Result<Server, NoServer>,
) -> Result<Report, NoServer> {
    if !go::is_installed() {
        return Err(NoServer::Skipped(
            "building client-go's informer needs a Go toolchain".into(),
        ));
    }
    let theirs = &go::build("client-go");
    let server = gentle?;
    let server = &server;
    let mut report = Report::default();
    let plays = chosen(GENTLE).into_iter().map(|seed| async move {
        let outcome = run(server, Tape::new(seed, false), &ours(), theirs).await;
        (seed, outcome)
    });
    let mut plays = futures_util::stream::iter(plays).buffer_unordered(AT_ONCE);
    while let Some((seed, outcome)) = plays.next().await {
        add(&mut report, server.name(), seed, outcome);
    }
    let own = &own;
    let plays = chosen(VIOLENT).into_iter().map(|seed| async move {
        let server = own().await?;
        let outcome = run(&server, Tape::new(seed, true), &ours(), theirs).await;
        Ok((seed, server.name(), outcome))
    });
    let mut plays = futures_util::stream::iter(plays).buffer_unordered(OWN_AT_ONCE);
    while let Some(played) = plays.next().await {
        match played {
            Ok((seed, name, outcome)) => add(&mut report, name, seed, outcome),
            Err(error) => NoServer::skip_loudly(error, "a tape that restarts its server")?,
        }
    }
    Ok(report)
}

fn add(report: &mut Report, server: &str, seed: u64, outcome: Result<Outcome, String>) {
    match outcome {
        Ok(outcome) => report.add(server, &outcome),
        Err(error) => report.add_failure(server, seed, &error),
    }
}

/// Prints the report, saves it under `target/e2e`, and fails on violations.
fn finish(report: Result<Report, NoServer>, server: &str) {
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            let failed = error.skip_loudly(&format!("client-go beside ours on the {server} server"));
            return failed.expect("a server and both informers");
        }
    };
    let page = report.page();
    println!("{page}");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/e2e");
    let path = directory.join(format!("differential-{server}.md"));
    std::fs::create_dir_all(&directory).expect("a directory for the report");
    std::fs::write(&path, page).expect("the report can be saved");
    assert!(
        report.failures.is_empty(),
        "{} of {} tapes failed:\n\n{}",
        report.failures.len(),
        report.len(),
        report.failures.join("\n\n")
    );
}

pub async fn on_the_embedded_server() {
    let shared = Server::embedded(&Setup::shared()).await;
    let own = async || Server::embedded(&Setup::own()).await;
    finish(compare(shared, own).await, "embedded");
}

pub async fn on_a_real_server() {
    let shared = Server::real(&Setup::shared()).await;
    let own = async || Server::real(&Setup::own()).await;
    finish(compare(shared, own).await, "real");
}
