//! `bench`: syncs some kinds, counts events for a while, and prints the cost.

mod child;
mod report;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::changes::What;
use crate::cli::{BenchArgs, Global};
use crate::cluster::Cluster;
use crate::output::notes::Notes;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::process::usage::Usage;
use crate::record::measure::Recorder;
use crate::session::observe::NoteText;
use crate::session::{Feed, FeedItem, Reach, Session};
use crate::view::progress;
use child::ServerProcess;
use report::Report;

/// The interval of the progress bar.
const REDRAW: Duration = Duration::from_millis(100);

/// Measures and prints.
///
/// # Errors
///
/// The server cannot be reached.
pub async fn run(args: BenchArgs, global: &Global) -> Result<Exit, Failure> {
    let stopped = signals::stopped();
    // Both are cancel-safe: what is measured is thrown away, and the signal is waited for once.
    tokio::select! {
        exit = stopped => Ok(exit),
        report = measure(&args, global) => {
            let report = report?;
            let mut out = io::stdout().lock();
            writeln!(out, "{}", if args.json { report.json() } else { report.text() })?;
            out.flush()?;
            Ok(Exit::Success)
        }
    }
}

async fn measure(args: &BenchArgs, global: &Global) -> Result<Report, Failure> {
    let notes = Notes::new(&global.showing);
    let mut global = global.clone();
    let mut server = None;
    if !Cluster::is_configured(&global.connection)? {
        let objects = population(&args.kinds, args.objects);
        notes.say(&format!("Starting the embedded server with {objects}"));
        let churn = if args.seconds > 0 { args.churn } else { 0 };
        let started = ServerProcess::start(&objects, churn).await?;
        global.connection.embedded = false;
        global.connection.kubeconfig = Some(started.kubeconfig());
        // Each run has a new server: nothing to cache.
        global.connection.cache_dir = Some(started.kubeconfig().with_file_name("cache"));
        server = Some(started);
    }
    let embedded = server.is_some();
    let cluster = Cluster::connect(&global.connection, &notes).await?;
    let before = Usage::now();
    let began = Instant::now();
    // A recording has managed fields and no diffs, as from `record`.
    global.showing.show_noise |= args.record.is_some();
    global.showing.skip_diffs = args.record.is_some();
    let (session, mut feed) = Session::open(cluster, &args.kinds, &global, Reach::Everywhere).await?;
    let mut recorder = match &args.record {
        Some(path) => Some(Recorder::start(path, &session, args.changes)?),
        None => None,
    };
    let known = embedded.then_some(args.objects as u64);
    sync(&session, &mut feed, known, global.showing.quiet, &mut recorder).await?;
    if let Some(recorder) = &mut recorder {
        recorder.synced()?;
    }
    let (sync, synced) = (began.elapsed(), Usage::now());
    let views = session.informers();

    let mut report = Report {
        kinds: views.iter().map(|view| view.kind.full_name()).collect(),
        server: match embedded {
            true => "embedded".to_owned(),
            false => session.cluster().title(),
        },
        objects: views.iter().map(|view| view.objects).sum(),
        bytes: views.iter().map(|view| view.bytes).sum(),
        lists: views.iter().map(|view| view.lists).sum(),
        sync,
        sync_usage: (before, synced),
        events: 0,
        counted: Duration::ZERO,
        event_usage: (synced, synced),
        peak: None,
        recording: None,
    };
    if args.seconds > 0 {
        notes.say(&format!("Counting events for {} s", args.seconds));
        let began = Instant::now();
        report.events = count(&mut feed, Duration::from_secs(args.seconds), &mut recorder).await?;
        report.counted = began.elapsed();
        report.event_usage = (synced, Usage::now());
    }
    report.peak = Usage::now().peak;
    session.close().await;
    report.recording = recorder.map(Recorder::finish).transpose()?;
    Ok(report)
}

/// `pods,cm` as `pods=1000,cm=1000`: the server knows the names.
fn population(kinds: &str, objects: usize) -> String {
    let parts: Vec<String> = kinds
        .split(',')
        .map(str::trim)
        .filter(|kind| !kind.is_empty())
        .map(|kind| format!("{kind}={objects}"))
        .collect();
    parts.join(",")
}

/// Runs until every kind has delivered its initial objects.
async fn sync(
    session: &Session,
    feed: &mut Feed,
    known: Option<u64>,
    quiet: bool,
    recorder: &mut Option<Recorder>,
) -> Result<(), Failure> {
    let draws = io::stderr().is_terminal() && !quiet;
    let total = known.map(|each| each.saturating_mul(session.observed().len() as u64));
    let mut redraw = interval(REDRAW);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut synced, mut delivered) = (0, 0u64);
    let began = Instant::now();
    while synced < session.observed().len() {
        // Both are cancel-safe: the feed keeps what is not taken, a tick may be missed.
        tokio::select! {
            next = feed.next() => match next {
                Some(FeedItem::Change(change)) => {
                    if let Some(recorder) = recorder {
                        recorder.change(&change)?;
                    }
                    match change.event {
                        What::Synced { .. } => synced += 1,
                        _ => delivered += 1,
                    }
                }
                Some(FeedItem::Coalesced(_)) => {}
                Some(FeedItem::Note(note)) => match note.text {
                    NoteText::Forbidden(text) => return Err(Failure::verbatim(text)),
                    NoteText::Hopeless(failure) => return Err(failure),
                    NoteText::Trouble(_) | NoteText::Recovered(_) => {}
                },
                None => return Err(Failure::error("the informers stopped before they had synced")),
            },
            _ = redraw.tick(), if draws => {
                let views = session.informers();
                let listed: u64 = views.iter().filter_map(|view| Some(view.progress?.items)).sum();
                let of = total.or_else(|| views.iter().map(|view| view.progress?.of).sum());
                let line = progress::bar(listed.max(delivered), of, began.elapsed());
                // A closed standard error is not an error.
                let _ = write!(io::stderr().lock(), "\r\u{1b}[K{line}").and_then(|()| io::stderr().flush());
            }
        }
    }
    if draws {
        let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
    }
    Ok(())
}

/// The number of changes in this time.
async fn count(feed: &mut Feed, time: Duration, recorder: &mut Option<Recorder>) -> Result<u64, Failure> {
    let mut events = 0;
    // More than a century would overflow the clock.
    let end = Instant::now() + time.min(Duration::from_secs(100 * 365 * 24 * 3600));
    // Cancel-safe: what is not taken when the time is up is not counted.
    while let Ok(next) = tokio::time::timeout_at(end, feed.next()).await {
        match next {
            Some(FeedItem::Change(change)) => {
                events += 1;
                if let Some(recorder) = recorder {
                    recorder.change(&change)?;
                }
            }
            Some(FeedItem::Note(_)) => {}
            Some(FeedItem::Coalesced(coalesced)) => events += coalesced.merged + 2 * coalesced.vanished,
            None => return Err(Failure::error("the informers stopped while events were counted")),
        }
    }
    Ok(events)
}
