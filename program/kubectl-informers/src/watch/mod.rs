//! `watch`: a table of the initial objects, then every change as it happens.

mod condition;
mod table;
mod tree;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::changes::{Change, What, json};
use crate::cli::{Global, Output as Format, WatchArgs};
use crate::cluster::Cluster;
use crate::objects::item::Contents;
use crate::objects::kinds::Kind;
use crate::output::notes::Notes;
use crate::output::style::Colours;
use crate::output::writer::Output;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::session::{Feed, FeedItem, Reach, Session};
use crate::text::safe::SafeText;
use crate::view::filter::Filter;
use crate::view::progress::ProgressLine;
use crate::view::refusals::Refusals;
use crate::view::server_columns::ServerColumns;
use crate::view::text::Texts;
use condition::{Until, Where};
use table::Table;
use tree::Tree;

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
    // The objects of a tree have other names.
    if let Some(name) = name.as_ref().filter(|_| !args.tree) {
        let by_name = format!("metadata.name={name}");
        let selection = &mut global.selection.field_selector;
        *selection = Some(match selection.take() {
            Some(fields) => format!("{fields},{by_name}"),
            None => by_name,
        });
    }
    // Checked before anything is asked of the server.
    Filter::new(&args.changes, args.output)?;
    global.showing.ignore.clone_from(&args.changes.ignore);
    let notes = Notes::new(&global.showing);
    let deadline = Deadline::of(&args);
    let opening = async {
        let cluster = Cluster::connect(&global.connection, &notes).await?;
        if !args.tree {
            let (session, feed) = Session::open(cluster, &kinds, &global, Reach::Context).await?;
            return Ok((session, feed, None));
        }
        let roots = Session::find(&cluster, &kinds, &global).await?;
        let also = args.also.as_deref().unwrap_or_default();
        let all = format!("{kinds},{},{also}", tree::KINDS);
        let (session, feed) = Session::open(cluster, &all, &global, Reach::Context).await?;
        let tree = Tree::new(roots.iter().map(Kind::full_name), name);
        Ok((session, feed, Some(tree)))
    };
    let (session, feed, tree) = deadline.limit(opening).await?;
    let mut watch = Watch::new(args, &global, session, notes)?;
    if watch.args.output != Format::Json {
        let server = ServerColumns::start(&watch.session);
        if !watch.args.since_sync {
            server.listed().await;
        }
        watch.table.server = server.clone();
        watch.texts.server = server;
    }
    watch.tree = tree;
    watch.run(feed, deadline).await
}

/// The end of `--timeout`.
#[derive(Clone, Copy)]
struct Deadline {
    timeout: Option<Duration>,
    at: Instant,
}

impl Deadline {
    /// From now on.
    fn of(args: &WatchArgs) -> Self {
        let timeout = args.timeout.duration();
        Self {
            timeout,
            at: Instant::now() + timeout.unwrap_or_default(),
        }
    }

    /// The future, until the time is over.
    async fn limit<T>(self, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match self.timeout {
            None => future.await,
            Some(after) => match timeout_at(self.at, future).await {
                Ok(result) => result,
                Err(_) => Err(Failure::timed_out(format!(
                    "{}: the server has not answered",
                    condition::timed_out(after)
                ))),
            },
        }
    }

    /// Waits for the end of the time; gives the time. Cancel-safe.
    async fn passed(self) -> Duration {
        match self.timeout {
            None => std::future::pending().await,
            Some(after) => {
                tokio::time::sleep_until(self.at).await;
                after
            }
        }
    }
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

/// Waits for the server's columns of a change.
async fn arrived(server: &ServerColumns, item: Option<&FeedItem>) {
    if let Some(FeedItem::Change(change)) = item {
        server.arrived(change).await;
    }
}

struct Watch {
    args: WatchArgs,
    session: Session,
    notes: Notes,
    progress: ProgressLine,
    texts: Texts,
    filter: Filter,
    condition: Option<Where>,
    until: Option<Until>,
    tree: Option<Tree>,
    /// The kinds whose initial objects have been received.
    synced: BTreeSet<String>,
    table: Table,
    refusals: Refusals,
    out: Output,
    /// A change that waits for the server's columns.
    held: Option<FeedItem>,
    printed_table: bool,
    show_noise: bool,
}

/// Changes in one batch of output.
const BATCH: usize = 1000;

impl Watch {
    fn new(args: WatchArgs, global: &Global, session: Session, notes: Notes) -> Result<Self, Failure> {
        let colours = Colours::on(&io::stdout(), global.showing.color);
        let several_kinds = session.observed().len() > 1;
        let kinds = || {
            session
                .observed()
                .iter()
                .map(|observed| observed.kind.full_name())
        };
        Ok(Self {
            table: Table::new(args.output == Format::Wide, session.spans_namespaces(), colours),
            texts: Texts {
                colours,
                several_kinds,
                server: ServerColumns::default(),
            },
            filter: Filter::new(&args.changes, args.output)?,
            condition: args.condition.clone().map(Where::new),
            until: args
                .until
                .clone()
                .map(|until| Until::new(until, kinds()))
                .transpose()?,
            progress: ProgressLine::new(&global.showing),
            refusals: Refusals::default(),
            tree: None,
            synced: BTreeSet::new(),
            out: Output::start()?,
            held: None,
            printed_table: false,
            show_noise: global.showing.show_noise,
            args,
            session,
            notes,
        })
    }

    async fn run(mut self, mut feed: Feed, deadline: Deadline) -> Result<Exit, Failure> {
        let stopped = signals::stopped();
        let passed = deadline.passed();
        tokio::pin!(stopped, passed);
        let mut redraw = interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut syncing = true;
        let ended = loop {
            // All are cancel-safe: the signal is waited for once, the feed keeps what is not taken, a tick may be missed.
            // While a batch is being written nothing is taken from the feed, which coalesces what is pending.
            let item = tokio::select! {
                biased;
                exit = &mut stopped => break Ok(exit),
                after = &mut passed => {
                    let timed_out = self.until.as_ref().map(|until| until.timed_out(after));
                    break timed_out.map_or(Ok(Exit::Success), Err);
                }
                written = self.out.written(), if self.out.is_busy() => {
                    written?;
                    self.out.submit();
                    continue;
                }
                () = arrived(&self.texts.server, self.held.as_ref()), if self.held.is_some() && !self.out.is_busy() => {
                    self.held.take()
                }
                item = feed.next(), if self.held.is_none() && !self.out.is_busy() => item,
                _ = redraw.tick(), if syncing && self.held.is_none() && !self.out.is_busy() => {
                    self.progress.show(&self.session.informers(), &mut self.out);
                    self.out.submit();
                    syncing = self.session.observed().iter().any(|observed| !observed.informer.has_synced());
                    continue;
                }
            };
            let Some(item) = item else { break Ok(Exit::Success) };
            if self.is_awaited(&item) {
                self.held = Some(item);
                continue;
            }
            self.progress.clear(&mut self.out);
            if let Some(ended) = self.batch(item, &mut feed) {
                break ended;
            }
            self.out.submit();
        };
        self.progress.clear(&mut self.out);
        self.unevaluated();
        self.session.close().await;
        // What precedes a failure is still printed.
        self.out.shutdown().await?;
        ended
    }

    /// Prints an item and those that are pending. Returns how the program ends, if it does.
    fn batch(&mut self, item: FeedItem, feed: &mut Feed) -> Option<Result<Exit, Failure>> {
        let mut next = Some(item);
        for _ in 0..BATCH {
            let item = next.take().or_else(|| feed.try_next())?;
            if self.is_awaited(&item) {
                self.held = Some(item);
                return None;
            }
            if let Err(failure) = self.show(item) {
                return Some(Err(failure));
            }
            if let Some(until) = self.until.as_ref().filter(|until| until.holds()) {
                self.notes.say_to(&mut self.out, &until.success());
                return Some(Ok(Exit::Success));
            }
        }
        None
    }

    /// Whether the server's columns of a change are still on their way.
    fn is_awaited(&self, item: &FeedItem) -> bool {
        matches!(item, FeedItem::Change(change) if self.texts.server.is_awaited(change))
    }

    fn show(&mut self, item: FeedItem) -> Result<(), Failure> {
        match item {
            FeedItem::Note(note) => {
                self.refusals
                    .note(&note, &self.session, self.notes, &mut self.out)?;
                let kind = note.kind.full_name();
                if let Some(until) = &mut self.until
                    && self.tree.is_some()
                    && self.refusals.contains(&kind)
                {
                    until.leave_out(&kind);
                }
                self.complete_tree()?;
            }
            FeedItem::Change(change) if change.key.is_none() => {
                self.synced.insert(change.kind.full_name());
                self.observe(change)?;
                self.complete_tree()?;
            }
            FeedItem::Change(change) => match &mut self.tree {
                None => self.observe(change)?,
                Some(tree) => {
                    for change in tree.take(change) {
                        self.observe(change)?;
                    }
                }
            },
            FeedItem::Coalesced(coalesced) => self.notes.warn_to(&mut self.out, &coalesced.to_string()),
        }
        Ok(())
    }

    /// Prints the tree when the lists of all kinds are complete, as far as they may be listed.
    fn complete_tree(&mut self) -> Result<(), Failure> {
        let is_done = |kind: String| self.synced.contains(&kind) || self.refusals.contains(&kind);
        let mut kinds = self
            .session
            .observed()
            .iter()
            .map(|observed| observed.kind.full_name());
        let Some(tree) = self
            .tree
            .as_mut()
            .filter(|tree| !tree.is_complete() && kinds.all(is_done))
        else {
            return Ok(());
        };
        let mut initial = tree.complete();
        let events = tree.past_events();
        if self.args.output == Format::Json {
            initial.extend(events);
        } else if !self.args.since_sync {
            let text = tree.text(self.texts.colours, &self.texts.server);
            if !text.is_empty() {
                self.out.line(&text);
            }
            for event in &events {
                self.out.line(&self.texts.past_event(event));
            }
        }
        let text = match tree.len() {
            0 => "there is no such object yet; watching for changes".to_owned(),
            1 => "1 object; watching for changes".to_owned(),
            several => format!("{several} objects; watching for changes"),
        };
        self.notes.say_to(&mut self.out, &text);
        for change in initial {
            self.observe(change)?;
        }
        Ok(())
    }

    fn observe(&mut self, mut change: Change) -> Result<(), Failure> {
        // The Events of a tree are reports about its objects.
        let is_object = self.tree.is_none() || change.kind.kind != "Event" || change.key.is_none();
        if let Some(until) = &mut self.until
            && is_object
            && self.filter.selects(&change)
            && let Some(report) = until.observe(&change)?
        {
            self.notes.warn_to(&mut self.out, &report);
        }
        if self.filter.admit(&mut change) && self.meets_condition(&change)? {
            self.change(&change);
        }
        if matches!(change.event, What::Synced { .. }) {
            self.unevaluated();
        }
        Ok(())
    }

    /// Whether `--where` holds for the change.
    fn meets_condition(&mut self, change: &Change) -> Result<bool, Failure> {
        let Some(condition) = &mut self.condition else {
            return Ok(true);
        };
        let (admitted, report) = condition.admit(change)?;
        if let Some(report) = report {
            self.notes.warn_to(&mut self.out, &report);
        }
        Ok(admitted)
    }

    /// Reports for how many objects the expressions could not be evaluated, besides those that were named.
    fn unevaluated(&mut self) {
        let of_condition = self.condition.as_mut().and_then(Where::unreported);
        let of_until = self.until.as_mut().and_then(Until::unreported);
        for report in of_condition.into_iter().chain(of_until) {
            self.notes.warn_to(&mut self.out, &report);
        }
    }

    fn change(&mut self, change: &Change) {
        if change.event.is_initial() && self.args.since_sync {
            return;
        }
        match self.args.output {
            Format::Json => {
                self.out.line(&json::line(change, self.args.changes.with_object));
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
            // The tree is printed instead.
            (What::Added { initial: true } | What::Synced { .. }, _) if self.tree.is_some() => {}
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
