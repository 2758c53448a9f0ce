//! `trouble`: finds objects that are rewritten in a loop, field managers that overwrite each other, managers that write too
//! much, and stale watches.

mod report;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use kube_controller::LoopOptions;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::board::{Board, Writer};
use crate::cli::{Global, TroubleArgs};
use crate::output::notes::Notes;
use crate::output::style::Colours;
use crate::output::writer::Output;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::session::observe::{Health, InformerView};
use crate::session::{Feed, FeedItem, Session};
use crate::view::refusals::Refusals;
use report::{Report, Trouble};

/// The exit code if there is trouble.
const TROUBLE: u8 = 2;
/// The interval at which informers and rates are checked.
const TICK: Duration = Duration::from_secs(1);
/// Rates of managers are not judged before: a rollout at the start would be extrapolated.
const FIRST_RATE: Duration = Duration::from_secs(30);
/// Field managers in the summary.
const WRITERS: usize = 10;
/// Changes applied before timers and signals are checked again.
const BATCH: usize = 1000;
/// Changes applied at the end, at most: a busy cluster must not keep the program from ending.
const REST: usize = 100_000;

/// Observes until the time is over or a signal stops it.
///
/// # Errors
///
/// No kind may be watched, or the output is closed.
pub async fn run(
    args: TroubleArgs,
    global: &Global,
    session: Session,
    mut feed: Feed,
) -> Result<Exit, Failure> {
    let mut search = Search::new(&args, global, &session);
    let mut out = Output::start()?;
    let notes = Notes::new(&global.showing);
    let mut refusals = Refusals::default();
    let stopped = signals::stopped();
    tokio::pin!(stopped);
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end: Option<Instant> = None;
    let ended = loop {
        let over = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        // All are cancel-safe: the signal is waited for once, the feed keeps what is not taken, the rest may be late.
        // While a batch is being written nothing is taken from the feed, which coalesces what is pending.
        tokio::select! {
            biased;
            exit = &mut stopped => break Ok(Some(exit)),
            written = out.written(), if out.is_busy() => written?,
            () = over => break Ok(None),
            item = feed.next(), if !out.is_busy() => {
                let Some(item) = item else { break Ok(None) };
                let more = std::iter::from_fn(|| feed.try_next()).take(BATCH);
                let mut failure = None;
                for item in std::iter::once(item).chain(more) {
                    match item {
                        FeedItem::Change(change) => {
                            search.board.apply(change, Instant::now());
                        }
                        FeedItem::Note(note) => {
                            failure = refusals.note(&note, &session, notes, &mut out).err();
                            if failure.is_some() {
                                break;
                            }
                        }
                        FeedItem::Coalesced(coalesced) => notes.warn_to(&mut out, &coalesced.to_string()),
                    }
                }
                if let Some(failure) = failure {
                    break Err(failure);
                }
            }
            _ = tick.tick(), if !out.is_busy() => {
                search.tick(session.informers(), Instant::now());
                let synced = |view: &InformerView| view.synced || refusals.contains(&view.kind.full_name());
                if end.is_none() && session.informers().iter().all(synced) {
                    end = args.period.duration().map(|period| Instant::now() + period);
                    search.synced(&notes, &mut out);
                }
            }
        }
        search.print(&mut out);
        out.submit();
    };
    if ended.is_ok() {
        // What was received before the end is part of the result. Notes are not: the summary has the state of each watch.
        for item in std::iter::from_fn(|| feed.try_next()).take(REST) {
            if let FeedItem::Change(change) = item {
                search.board.apply(change, Instant::now());
            }
        }
        search.tick(session.informers(), Instant::now());
        search.print(&mut out);
        search.summary(&mut out);
    }
    session.close().await;
    out.shutdown().await?;
    Ok(ended?.unwrap_or_else(|| search.exit()))
}

/// What was found so far.
struct Search {
    board: Board,
    report: Report,
    stale: Option<Duration>,
    max_churn: u32,
    period: Option<Duration>,
    announced: bool,
    began: Instant,
    /// Loops and fights that were printed.
    printed: usize,
    /// Kinds whose watch is stale, as it was printed.
    stale_kinds: BTreeSet<usize>,
    /// Managers that write too much, as they were printed.
    busy_writers: BTreeSet<Writer>,
    pending: Vec<Trouble>,
    count: usize,
}

impl Search {
    fn new(args: &TroubleArgs, global: &Global, session: &Session) -> Self {
        let now = Instant::now();
        let kinds = session.observed().iter().map(|observed| observed.kind.clone());
        let defaults = LoopOptions::default();
        let options = LoopOptions {
            changes: args.changes.into(),
            window: args.window.duration().unwrap_or(defaults.window),
        };
        Self {
            board: Board::new(kinds, now).detect(options),
            report: Report {
                format: args.output,
                colours: Colours::on(&io::stdout(), global.showing.color),
            },
            stale: args.stale.duration(),
            max_churn: args.max_churn,
            period: args.period.duration(),
            announced: false,
            began: now,
            printed: 0,
            stale_kinds: BTreeSet::new(),
            busy_writers: BTreeSet::new(),
            pending: Vec::new(),
            count: 0,
        }
    }

    /// The lists are complete: what is observed, and for how long.
    fn synced(&mut self, notes: &Notes, out: &mut Output) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        let kinds = self.board.kinds.len();
        let period = match self.period {
            Some(period) => format!("for {period:?}"),
            None => "until it is stopped".to_owned(),
        };
        notes.say_to(out, &format!("observing {kinds} kinds {period}"));
    }

    /// Checks the watches and the rates of managers.
    fn tick(&mut self, views: Vec<InformerView>, now: Instant) {
        self.board.tick(views, now);
        for (kind, known) in self.board.kinds.iter().enumerate() {
            let Some((limit, age)) = self
                .stale
                .zip(known.view.as_ref().and_then(|view| age(view, now)))
            else {
                continue;
            };
            if age < limit {
                self.stale_kinds.remove(&kind);
            } else if self.stale_kinds.insert(kind) {
                self.pending.push(Trouble::Stale {
                    when: Timestamp::now(),
                    kind: known.kind.clone(),
                    age,
                    error: known.view.as_ref().and_then(|view| view.last_error.clone()),
                });
            }
        }
        if self.max_churn == 0 || now.saturating_duration_since(self.board.started) < FIRST_RATE {
            return;
        }
        for writer in self.board.writers.top(WRITERS, now) {
            if writer.per_minute > f64::from(self.max_churn)
                && let Some(known) = self.board.kinds.get(writer.what.kind)
                && self.busy_writers.len() < WRITERS * 10
                && self.busy_writers.insert(writer.what.clone())
            {
                self.pending.push(Trouble::Churn {
                    when: Timestamp::now(),
                    kind: known.kind.clone(),
                    manager: writer.what.manager.to_string(),
                    per_minute: writer.per_minute,
                });
            }
        }
    }

    /// Adds what is new to the output.
    fn print(&mut self, out: &mut Output) {
        let total = self.board.findings.total();
        let new = total.saturating_sub(std::mem::replace(&mut self.printed, total));
        let mut found: Vec<Trouble> = self
            .board
            .findings
            .newest_first()
            .take(new)
            .filter_map(|found| {
                let kind = self.board.kinds.get(found.kind)?.kind.clone();
                Some(Trouble::Loop {
                    kind,
                    found: found.clone(),
                })
            })
            .collect();
        found.reverse();
        self.count += new + self.pending.len();
        for trouble in found.iter().chain(&self.pending) {
            out.line(&self.report.trouble(trouble));
        }
        self.pending.clear();
    }

    fn summary(&self, out: &mut Output) {
        let now = Instant::now();
        let writers = self.board.writers.top(WRITERS, now);
        out.line(&self.report.summary(
            &self.board,
            &writers,
            self.count,
            now.saturating_duration_since(self.began),
        ));
    }

    fn exit(&self) -> Exit {
        match self.count {
            0 => Exit::Success,
            _ => Exit::Code(TROUBLE),
        }
    }
}

/// For how long the server has not confirmed the cache; `None` if it is being listed for the first time.
fn age(view: &InformerView, now: Instant) -> Option<Duration> {
    match view.health {
        Health::Disconnected { since } => Some(now.saturating_duration_since(since)),
        Health::Live | Health::CatchingUp => view.version_age,
    }
}
