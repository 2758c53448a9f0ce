//! Controllers on the embedded server: latency from a change to finished work.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informers_bench::controller::{name, source};
use kube_informers_bench::pod::{self, SENT, now_nanos};
use kube_testserver::TestServer;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Result;
use crate::book::Book;
use crate::opponent::{Opponent, Peer, Programs, Server};
use crate::real::add;

const PER_SECOND: u32 = 1_000;

/// Runs both controllers once.
///
/// # Errors
///
/// The server does not start, or a controller fails.
pub async fn run(programs: &Programs, quick: bool, work: &Path, book: &mut Book) -> Result<()> {
    let (objects, changes) = if quick { (500, 500) } else { (10_000, 5_000) };
    for peer in [Peer::Ours, Peer::KubeRuntime] {
        // A separate server for each, so that they do not see each other's objects.
        let server = TestServer::start().await?;
        server
            .try_load((0..objects).map(source))
            .map_err(|error| format!("the embedded server: {error}"))?;
        let kubeconfig = work.join("embedded.kubeconfig");
        std::fs::write(
            &kubeconfig,
            server.kubeconfig().ok_or("the embedded server has no address")?,
        )?;
        let mut opponent = Opponent::controller(programs, peer, Server::Kubeconfig(&kubeconfig))?;
        let (first, _) = opponent.synced(objects).await?;
        book.add("controller-first", peer, first);
        sleep(Duration::from_secs(1)).await;
        measure(&mut opponent, peer, &server, (objects, changes), book).await?;
        opponent.stop().await?;
        server.shutdown().await;
    }
    Ok(())
}

async fn measure(
    opponent: &mut Opponent,
    peer: Peer,
    server: &TestServer,
    (objects, changes): (usize, usize),
    book: &mut Book,
) -> Result<()> {
    opponent.command(&format!("measure 1 {changes}")).await?;
    opponent.says("ready").await?;
    server.clear_requests();
    let before = opponent.usage()?;
    let (began, gap) = (Instant::now(), Duration::from_secs(1) / PER_SECOND);
    for change in 0..changes {
        sleep_until(began + gap * u32::try_from(change)?).await;
        let number = change % objects;
        server.modify::<ConfigMap>(&*pod::namespace(number), &name(number), |source| {
            let annotations = source.metadata.annotations.get_or_insert_default();
            annotations.insert(SENT.to_owned(), pod::sent(1, now_nanos()));
        });
    }
    let measured = opponent.says("measured").await?;
    let after = opponent.usage()?;
    book.add(
        "controller-cpu",
        peer,
        (after.cpu_seconds - before.cpu_seconds) * 1e6 / changes as f64,
    );
    book.add("controller-memory", peer, after.resident_mb);
    book.add(
        "controller-requests",
        peer,
        server.requests().len() as f64 / changes as f64,
    );
    add(book, "controller-p50", peer, &measured, "p50_us", 1e-3);
    add(book, "controller-p99", peer, &measured, "p99_us", 1e-3);
    Ok(())
}
