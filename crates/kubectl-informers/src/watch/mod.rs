//! `watch`: a table of the initial objects, then every change as it happens.

pub mod filter;
mod table;
pub mod text;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::changes::{Change, What, json};
use crate::cli::{Global, Output as Format, WatchArgs};
use crate::cluster::Cluster;
use crate::failure::{Exit, Failure};
use crate::item::Contents;
use crate::notes::Notes;
use crate::observe::{Note, NoteText};
use crate::output::Output;
use crate::path::FieldPattern;
use crate::progress::ProgressLine;
use crate::safe::SafeText;
use crate::session::{Feed, FeedItem, Reach, Session};
use crate::signals;
use crate::style::Colours;
use filter::Filter;
use table::Table;
use text::Texts;

/// How often progress is shown.
const REDRAW: Duration = Duration::from_millis(100);

/// Prints the initial objects, then every change, until it is stopped.
///
/// # Errors
///
/// A kind is unknown or may not be watched, or the server cannot be reached.
pub async fn run(args: WatchArgs, global: &Global) -> Result<Exit, Failure> {
    let (kinds, name) = target(&args)?;
    let mut global = global.clone();
    if let Some(name) = name {
        let by_name = format!("metadata.name={name}");
        let selection = &mut global.selection.field_selector;
        *selection = Some(match selection.take() {
            Some(fields) => format!("{fields},{by_name}"),
            None => by_name,
        });
    }
    if args.with_object && args.output != Format::Json {
        return Err(Failure::error(
            "--with-object needs -o json: only JSON lines carry objects",
        ));
    }
    // Checked before anything is asked of the server.
    Filter::new(&args)?;
    for path in &args.ignore {
        FieldPattern::parse(path).map_err(Failure::error)?;
    }
    global.showing.ignore.clone_from(&args.ignore);
    let notes = Notes::new(&global.showing);
    let cluster = Cluster::connect(&global.connection, &notes).await?;
    let (session, feed) = Session::open(cluster, &kinds, &global, Reach::Context).await?;
    Watch::new(args, &global, session, notes)?.run(feed).await
}

/// `pods`, `pods cart`, `pod/cart`.
fn target(args: &WatchArgs) -> Result<(String, Option<String>), Failure> {
    match (args.kinds.split_once('/'), &args.name) {
        (None, name) => Ok((args.kinds.clone(), name.clone())),
        (Some((kind, name)), None) if !kind.is_empty() && !name.is_empty() && !name.contains(['/', ',']) => {
            Ok((kind.to_owned(), Some(name.to_owned())))
        }
        _ => Err(Failure::error(format!(
            "{:?} names no kind: write pods, pods NAME, or pod/NAME",
            args.kinds
        ))),
    }
}

struct Watch {
    args: WatchArgs,
    session: Session,
    notes: Notes,
    progress: ProgressLine,
    texts: Texts,
    filter: Filter,
    table: Table,
    /// Kinds that may not be watched.
    refused: BTreeSet<String>,
    out: Output,
    printed_table: bool,
    show_noise: bool,
}

/// Changes in one batch of output.
const BATCH: usize = 1000;

impl Watch {
    fn new(args: WatchArgs, global: &Global, session: Session, notes: Notes) -> Result<Self, Failure> {
        let colours = Colours::on(&io::stdout(), global.showing.color);
        let several_kinds = session.observed().len() > 1;
        Ok(Self {
            table: Table::new(args.output == Format::Wide, session.spans_namespaces(), colours),
            texts: Texts {
                colours,
                several_kinds,
            },
            filter: Filter::new(&args)?,
            progress: ProgressLine::new(&global.showing),
            refused: BTreeSet::new(),
            out: Output::start()?,
            printed_table: false,
            show_noise: global.showing.show_noise,
            args,
            session,
            notes,
        })
    }

    async fn run(mut self, mut feed: Feed) -> Result<Exit, Failure> {
        let stopped = signals::stopped();
        tokio::pin!(stopped);
        let mut redraw = interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut syncing = true;
        let exit = loop {
            // All are cancel-safe: the signal is waited for once, the feed keeps what is not taken, a tick may be missed.
            // While a batch is being written nothing is taken from the feed, which coalesces what is pending.
            let item = tokio::select! {
                biased;
                exit = &mut stopped => break exit,
                written = self.out.written(), if self.out.is_busy() => {
                    written?;
                    self.out.submit();
                    continue;
                }
                item = feed.next(), if !self.out.is_busy() => item,
                _ = redraw.tick(), if syncing && !self.out.is_busy() => {
                    self.progress.show(&self.session.informers(), &mut self.out);
                    self.out.submit();
                    syncing = self.session.observed().iter().any(|observed| !observed.informer.has_synced());
                    continue;
                }
            };
            let Some(item) = item else { break Exit::Success };
            self.progress.clear(&mut self.out);
            let mut next = Some(item);
            for _ in 0..BATCH {
                let Some(item) = next.take().or_else(|| feed.try_next()) else {
                    break;
                };
                if let Err(failure) = self.show(item) {
                    // What precedes the failure is still printed.
                    self.out.shutdown().await?;
                    return Err(failure);
                }
            }
            self.out.submit();
        };
        self.progress.clear(&mut self.out);
        self.session.close().await;
        self.out.shutdown().await?;
        Ok(exit)
    }

    fn show(&mut self, item: FeedItem) -> Result<(), Failure> {
        match item {
            FeedItem::Note(note) => self.note(&note)?,
            FeedItem::Change(mut change) => {
                if self.filter.admit(&mut change) {
                    self.change(&change);
                }
            }
            FeedItem::Coalesced(coalesced) => self.notes.warn_to(&mut self.out, &coalesced.to_string()),
        }
        Ok(())
    }

    /// A kind that may not be watched ends the program when there is no other.
    fn note(&mut self, note: &Note) -> Result<(), Failure> {
        let failure = match &note.text {
            NoteText::Forbidden(text) => Failure::verbatim(text.clone()),
            NoteText::Hopeless(failure) => failure.clone(),
            NoteText::Trouble(_) | NoteText::Recovered(_) => {
                self.notes.warn_to(&mut self.out, &note.stamped());
                return Ok(());
            }
        };
        let synced = |kind: &str| {
            self.session
                .observed()
                .iter()
                .any(|observed| observed.kind.full_name() == kind && observed.informer.has_synced())
        };
        let name = note.kind.full_name();
        if synced(&name) {
            // It worked before and may work again.
            self.notes.warn_to(&mut self.out, failure.text());
            return Ok(());
        }
        self.refused.insert(name);
        if self.refused.len() == self.session.observed().len() {
            return Err(failure);
        }
        self.notes.warn_to(&mut self.out, failure.text());
        Ok(())
    }

    fn change(&mut self, change: &Change) {
        if change.event.is_initial() && self.args.since_sync {
            return;
        }
        match self.args.output {
            Format::Json => {
                self.out.line(&json::line(change, self.args.with_object));
                return;
            }
            Format::Brief if change.event.is_initial() || self.is_noise(change) => return,
            Format::Brief if change.key.is_some() => {
                self.out.line(&self.texts.brief(change));
                return;
            }
            Format::Text | Format::Wide | Format::Brief => {}
        }
        match (change.event, &change.object) {
            (What::Added { initial: true }, Some(object)) => {
                self.table.add(&change.kind, &object.tree());
            }
            (What::Synced { objects }, _) => {
                let table = self.table.take(&change.kind);
                if !table.is_empty() {
                    // An empty line between two tables.
                    if std::mem::replace(&mut self.printed_table, true) {
                        self.out.line(&SafeText::default());
                    }
                    self.out.line(&table);
                }
                let place = match self.session.scope().selected_namespaces() {
                    Some(names) if change.kind.namespaced => {
                        format!(" in {}", names.iter().cloned().collect::<Vec<_>>().join(", "))
                    }
                    _ => String::new(),
                };
                let text = format!(
                    "{objects} {}{place}; watching for changes",
                    change.kind.full_name()
                );
                self.notes.say_to(&mut self.out, &text);
            }
            _ if self.is_noise(change) => {}
            _ => self.out.line(&self.texts.change(change)),
        }
    }

    /// Whether nothing changed but noise. Only JSON lines carry such updates.
    fn is_noise(&self, change: &Change) -> bool {
        matches!(change.event, What::Updated { .. }) && change.diff.is_empty() && !self.show_noise
    }
}
