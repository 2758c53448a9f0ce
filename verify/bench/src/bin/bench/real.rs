//! The jobs on a real server: initial lists, and updates written through it.

use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Result;
use crate::book::Book;
use crate::opponent::{Job, Opponent, Peer, Programs};
use kube_informers_bench::pod::{self, SENT, now_nanos};

/// The time after the initial list at which memory is read again.
pub const SETTLE: Duration = Duration::from_secs(2);
/// The number of concurrent writes.
const WRITERS: usize = 16;

/// The figures of an initial list.
pub struct SyncFigures {
    /// CPU seconds until the handler has received everything.
    pub cpu: &'static str,
    /// Seconds until then, since the start of the process.
    pub wall: &'static str,
    /// Peak memory.
    pub peak: &'static str,
    /// Memory after [`SETTLE`].
    pub steady: &'static str,
}

/// On the real server, with managedFields.
pub const KEPT: SyncFigures = SyncFigures {
    cpu: "real-kept-cpu",
    wall: "real-kept-wall",
    peak: "real-kept-peak",
    steady: "real-kept-steady",
};

/// On the real server, without managedFields.
pub const DROPPED: SyncFigures = SyncFigures {
    cpu: "real-dropped-cpu",
    wall: "real-dropped-wall",
    peak: "real-dropped-peak",
    steady: "real-dropped-steady",
};

/// Starts a peer, waits for its initial list and records its usage. It keeps running.
///
/// # Errors
///
/// The peer fails.
pub async fn sync(
    programs: &Programs,
    peer: Peer,
    job: Job<'_>,
    figures: &SyncFigures,
    book: &mut Book,
) -> Result<Opponent> {
    let mut opponent = Opponent::start(programs, peer, job)?;
    let (wall, usage) = opponent.synced(job.objects).await?;
    book.add(figures.wall, peer, wall);
    book.add(figures.cpu, peer, usage.cpu_seconds);
    sleep(SETTLE).await;
    let usage = opponent.usage()?;
    book.add(figures.peak, peer, usage.peak_mb);
    book.add(figures.steady, peer, usage.resident_mb);
    Ok(opponent)
}

/// Updates through the server at an even rate, and their latency to the handlers. All peers watch at the same time: the
/// server needs most of the time, and not the same for two runs.
///
/// # Errors
///
/// A peer fails, or the server rejects a write.
pub async fn updates(
    opponents: &mut [Opponent],
    client: &Client,
    (round, objects, count, per_second): (u16, usize, usize, u32),
    book: &mut Book,
) -> Result<()> {
    let mut before = Vec::new();
    for opponent in opponents.iter_mut() {
        opponent.command(&format!("measure {round} {count}")).await?;
        opponent.says("ready").await?;
        before.push(opponent.usage()?);
    }
    let began = Instant::now();
    let gap = Duration::from_secs(1) / per_second.max(1);
    let writes = stream::iter(0..count).map(|number| async move {
        sleep_until(began + gap * u32::try_from(number).unwrap_or(u32::MAX)).await;
        let number = number % objects.max(1);
        let sent = pod::sent(round, now_nanos());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {SENT: sent}}}));
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod::namespace(number));
        pods.patch_metadata(&pod::name(number), &PatchParams::default(), &patch)
            .await
            .map(|_| ())
    });
    let writing = writes.buffer_unordered(WRITERS).try_collect::<Vec<()>>();
    let measuring = try_join_all(opponents.iter_mut().map(|opponent| opponent.says("measured")));
    let (written, measured) = tokio::join!(writing, measuring);
    written?;
    for ((opponent, before), measured) in opponents.iter().zip(before).zip(measured?) {
        let peer = opponent.peer();
        let cpu = opponent.usage()?.cpu_seconds - before.cpu_seconds;
        book.add("real-updates-cpu", peer, cpu * 1e6 / count as f64);
        add(book, "real-updates-p50", peer, &measured, "p50_us", 1e-3);
        add(book, "real-updates-p99", peer, &measured, "p99_us", 1e-3);
    }
    Ok(())
}

/// Records a number of a line, if present.
pub fn add(book: &mut Book, figure: &'static str, peer: Peer, line: &Value, name: &str, scale: f64) {
    if let Some(value) = line.get(name).and_then(Value::as_f64) {
        book.add(figure, peer, value * scale);
    }
}
