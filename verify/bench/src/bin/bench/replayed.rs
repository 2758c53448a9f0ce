//! The jobs on the replay server: initial lists, unpaced updates, reads, and a relist during updates.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::Result;
use crate::book::Book;
use crate::opponent::{Job, Opponent, Peer, Programs, Server};
use crate::real::{SyncFigures, add, sync};

/// On the replay server, with managedFields.
const KEPT: SyncFigures = SyncFigures {
    cpu: "replay-kept-cpu",
    wall: "replay-kept-wall",
    peak: "replay-kept-peak",
    steady: "replay-kept-steady",
};

/// On the replay server, without managedFields.
const DROPPED: SyncFigures = SyncFigures {
    cpu: "replay-dropped-cpu",
    wall: "replay-dropped-wall",
    peak: "replay-dropped-peak",
    steady: "replay-dropped-steady",
};

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Objects in the collection.
    pub objects: usize,
    /// Unpaced updates.
    pub storm: usize,
    /// Updates per second in the paced rounds.
    pub per_second: u32,
    /// Duration of a paced round in seconds.
    pub seconds: u32,
}

/// A running replay server.
pub struct Replay {
    url: String,
    _child: Child,
}

impl Replay {
    /// Starts one, from a recording or with generated pods.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start(programs: &Programs, recording: Option<&Path>, objects: usize) -> Result<Self> {
        let program = programs.directory.join("bench-replay");
        let mut command = Command::new(&program);
        match recording {
            Some(directory) => command.arg("--recording").arg(directory),
            None => command.arg("--make").arg(objects.to_string()),
        };
        let mut child = command
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let stdout = child
            .stdout
            .take()
            .ok_or("the replay server has no standard output")?;
        let url = BufReader::new(stdout).lines().next_line().await?;
        Ok(Self {
            url: url.ok_or("the replay server ended before it was ready")?,
            _child: child,
        })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Executes a command of the benchmark.
    ///
    /// # Errors
    ///
    /// The server has ended, or has no such command.
    pub async fn command(&self, command: &str) -> Result<()> {
        let address = self
            .url
            .strip_prefix("http://")
            .ok_or("the replay server has an invalid URL")?;
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(format!("POST /bench/{command} HTTP/1.1\r\n\r\n").as_bytes())
            .await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        match answer.ends_with(b"200") {
            true => Ok(()),
            false => Err(format!("the replay server refuses {command:?}").into()),
        }
    }
}

/// All jobs of one peer, once.
///
/// # Errors
///
/// The peer or the replay server fail.
pub async fn run(
    programs: &Programs,
    peer: Peer,
    replay: &Replay,
    amount: Amount,
    book: &mut Book,
) -> Result<()> {
    replay.command("reset").await?;
    let pods = Job::pods(Server::Url(&replay.url), amount.objects);
    let kept = sync(programs, peer, pods.keep_managed_fields(), &KEPT, book).await?;
    kept.stop().await?;
    replay.command("reset").await?;
    let mut opponent = sync(programs, peer, pods, &DROPPED, book).await?;
    storm(&mut opponent, peer, replay, amount, book).await?;
    paced(&mut opponent, peer, replay, amount, book).await?;
    opponent.command(&format!("reads {}", amount.objects)).await?;
    let reads = opponent.says("reads").await?;
    add(book, "get", peer, &reads, "get_ns", 1.0);
    // The others have no view, and are compared by what they have.
    let view = if reads["view_ns"].is_null() {
        "get_ns"
    } else {
        "view_ns"
    };
    add(book, "view", peer, &reads, view, 1.0);
    add(book, "read", peer, &reads, "read_ns", 1.0);
    add(book, "by-name", peer, &reads, "name_ns", 1.0);
    add(book, "index", peer, &reads, "index_ns", 1.0);
    add(book, "list", peer, &reads, "list_us", 1.0);
    listed(&mut opponent, peer, replay, amount, book).await?;
    relist(&mut opponent, peer, replay, amount, book).await?;
    opponent.stop().await
}

async fn storm(
    opponent: &mut Opponent,
    peer: Peer,
    replay: &Replay,
    amount: Amount,
    book: &mut Book,
) -> Result<()> {
    let updates = Updates {
        round: 1,
        events: amount.storm,
        per_second: None,
    };
    let (measured, cpu) = play(opponent, replay, updates).await?;
    book.add("storm-cpu", peer, cpu);
    add_rate(book, "storm-rate", peer, &measured, amount.storm);
    Ok(())
}

/// Updates that the replay server sends.
#[derive(Clone, Copy, Debug)]
pub struct Updates {
    /// The round that is written into them.
    pub round: u16,
    /// Their number.
    pub events: usize,
    /// How many are sent per second; `None` for as many as are read.
    pub per_second: Option<u32>,
}

/// Plays updates. Returns the line that the peer prints after them, and its CPU time per event in microseconds.
///
/// # Errors
///
/// The peer or the replay server fail.
pub async fn play(
    opponent: &mut Opponent,
    replay: &Replay,
    Updates {
        round,
        events,
        per_second,
    }: Updates,
) -> Result<(serde_json::Value, f64)> {
    opponent.command(&format!("measure {round} {events}")).await?;
    opponent.says("ready").await?;
    let before = opponent.usage()?;
    let pace = per_second.map_or(String::new(), |rate| format!("&per_second={rate}"));
    replay
        .command(&format!("play?round={round}&events={events}{pace}"))
        .await?;
    let measured = opponent.says("measured").await?;
    let cpu = opponent.usage()?.cpu_seconds - before.cpu_seconds;
    Ok((measured, cpu * 1e6 / events as f64))
}

/// Records the events per second of a line.
pub fn add_rate(book: &mut Book, figure: &'static str, peer: Peer, line: &serde_json::Value, events: usize) {
    if let Some(seconds) = line
        .get("seconds")
        .and_then(serde_json::Value::as_f64)
        .filter(|seconds| *seconds > 0.0)
    {
        book.add(figure, peer, events.saturating_sub(1) as f64 / seconds);
    }
}

async fn paced(
    opponent: &mut Opponent,
    peer: Peer,
    replay: &Replay,
    amount: Amount,
    book: &mut Book,
) -> Result<()> {
    let updates = Updates {
        round: 2,
        events: amount.per_second as usize * amount.seconds as usize,
        per_second: Some(amount.per_second),
    };
    let (measured, cpu) = play(opponent, replay, updates).await?;
    book.add("paced-cpu", peer, cpu);
    add(book, "paced-p50", peer, &measured, "p50_us", 1.0);
    add(book, "paced-p99", peer, &measured, "p99_us", 1.0);
    Ok(())
}

async fn listed(
    opponent: &mut Opponent,
    peer: Peer,
    replay: &Replay,
    amount: Amount,
    book: &mut Book,
) -> Result<()> {
    let events = amount.storm / 2;
    opponent.command(&format!("measure 3 {events} listing")).await?;
    opponent.says("ready").await?;
    replay.command(&format!("play?round=3&events={events}")).await?;
    let measured = opponent.says("measured").await?;
    add_rate(book, "listed-rate", peer, &measured, events);
    add(book, "listed-lists", peer, &measured, "lists_per_second", 1.0);
    Ok(())
}

/// The version expires during updates, and a tenth of the objects has changed in between. A last change shows that the
/// peer has recovered.
async fn relist(
    opponent: &mut Opponent,
    peer: Peer,
    replay: &Replay,
    amount: Amount,
    book: &mut Book,
) -> Result<()> {
    sleep(Duration::from_secs(1)).await;
    let steady = opponent.usage()?.resident_mb;
    opponent.forget_peak()?;
    opponent.command("measure 6 1").await?;
    opponent.says("ready").await?;
    let events = amount.per_second as usize;
    replay
        .command(&format!(
            "play?round=4&events={events}&per_second={}",
            amount.per_second
        ))
        .await?;
    sleep(Duration::from_millis(500)).await;
    replay.command("expire?round=5&every=10").await?;
    replay.command("play?round=6&events=1").await?;
    opponent.says("measured").await?;
    let peak = opponent.usage()?.peak_mb;
    book.add("relist-peak", peer, peak);
    book.add("relist-ratio", peer, peak / steady);
    Ok(())
}
