//! `record`: writes everything that is observed to a file.
//!
//! Encoding and writing happen on a thread of their own. Between it and the informers is a bounded queue: a disk that is too
//! slow makes changes of the same object merge, which the recording says, and never costs unlimited memory.

pub mod measure;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::changes::{Change, What};
use crate::cli::Global;
use crate::cli::limits::Timeout;
use crate::cli::recording::RecordArgs;
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::objects::kinds::{Catalogue, Kind};
use crate::output::notes::Notes;
use crate::output::writer::Output;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::recording::record::{RecordKind, SessionHead};
use crate::recording::writer::{Found, Rotation, Writer, Written};
use crate::session::observe::{Note, NoteText};
use crate::session::{Feed, FeedItem, Reach, Session};
use crate::text::safe::SafeText;
use crate::text::units::bytes;

/// Changes that wait for the writing thread.
const QUEUE: usize = 8192;
/// How often what was collected is written: what a kill costs.
const FLUSH: Duration = Duration::from_millis(500);
/// How often progress is printed where it cannot be redrawn.
const LINES_EVERY: Duration = Duration::from_secs(60);
/// How long the last block may take to be written when the program is stopped.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Moves to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[K";

/// Records until it is stopped.
///
/// # Errors
///
/// A kind is unknown, no kind may be watched, or the file cannot be written.
pub async fn run(args: RecordArgs, global: &Global) -> Result<Exit, Failure> {
    let stopped = signals::stopped();
    let mut global = global.clone();
    // Managed fields are needed to say who changed something.
    global.showing.show_noise = true;
    // The file has patches, which are computed when it is written. What changed for a reader is computed when it is read.
    global.showing.skip_diffs = true;
    let notes = Notes::new(&global.showing);
    let cluster = Cluster::connect(&global.connection, &notes).await?;
    let names = match &args.kinds {
        Some(names) => names.clone(),
        None => every_kind(&cluster, &global).await?,
    };
    let (session, feed) = Session::open(cluster, &names, &global, Reach::Everywhere).await?;
    let rotation = Rotation {
        max_size: args.max_size.bytes() as u64,
        max_age: args.max_age.duration(),
        keep: usize::from(args.keep),
    };
    let head = head(&session, !global.showing.show_secrets);
    let (writer, found) = Writer::open(&args.file, head, rotation, Timestamp::now())?;
    match found {
        Found::Continued { removed: 0 } => notes.say(&format!("Continuing {}", args.file.display())),
        Found::Continued { removed } => notes.warn(&format!(
            "Continuing {}; its last {removed} bytes were an incomplete block and are removed",
            args.file.display()
        )),
        Found::New => {}
    }
    if global.showing.show_secrets {
        notes.warn("--show-secrets: the recording contains the values of Secrets");
    }
    let several = session.observed().len();
    let place = args.file.display();
    notes.say(&format!("Recording {several} kinds to {place}; Ctrl-C stops"));
    let file = WriterThread::start(writer)?;
    let recorder = Recorder {
        out: Output::start()?,
        progress: Progress::new(&args.file, global.showing.quiet),
        notes,
        session,
        refused: BTreeSet::new(),
        listed: BTreeSet::new(),
        objects: 0,
    };
    let duration = args.duration.and_then(Timeout::duration);
    recorder.run(feed, file, stopped, duration).await
}

/// The kinds that can be watched. Leases change all the time and say nothing; Events are served by two groups.
async fn every_kind(cluster: &Cluster, global: &Global) -> Result<String, Failure> {
    let discovery = Discovery::new(cluster.client.clone(), &cluster.server, cluster.cache_dir.clone())
        .limits(global.limits);
    let names = default_kinds(&discovery.fetch().await?);
    match names.is_empty() {
        false => Ok(names.join(",")),
        true => Err(Failure::error("the server has no kind that can be watched")),
    }
}

fn default_kinds(catalogue: &Catalogue) -> Vec<String> {
    let skipped = |kind: &Kind| match kind.group.as_str() {
        "coordination.k8s.io" => kind.plural == "leases",
        "events.k8s.io" => kind.plural == "events",
        _ => false,
    };
    catalogue
        .preferred()
        // Subresources have a slash in their name.
        .filter(|kind| kind.is_watchable() && !skipped(kind) && !kind.plural.contains('/'))
        .map(|kind| format!("{}.{}.{}", kind.plural, kind.version, kind.group))
        .collect()
}

/// The start of a session, now.
pub fn head(session: &Session, masked: bool) -> SessionHead {
    let kinds = session.observed().iter();
    SessionHead {
        program: concat!("kubectl-informers ", env!("CARGO_PKG_VERSION")).to_owned(),
        cluster: session.cluster().title(),
        kinds: kinds.map(|observed| Kind::clone(&observed.kind)).collect(),
        scope: scope(session),
        masked,
        began: Timestamp::now().as_microsecond(),
        continued: false,
    }
}

fn scope(session: &Session) -> String {
    let scope = session.scope();
    let namespaces: Vec<&str> = scope
        .selected_namespaces()
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let fields = scope.field_selector().unwrap_or_default();
    format!("{};{};{fields}", namespaces.join(","), scope.label_selector())
}

/// What the writing thread receives.
enum Message {
    Change(Box<Change>),
    Note(RecordKind, Timestamp, String),
    Flush,
}

/// The thread that writes.
struct WriterThread {
    messages: mpsc::Sender<Message>,
    written: Arc<Mutex<Written>>,
    result: oneshot::Receiver<Result<Written, Failure>>,
}

impl WriterThread {
    fn start(mut writer: Writer) -> Result<Self, Failure> {
        let (messages, mut incoming) = mpsc::channel::<Message>(QUEUE);
        let (done, result) = oneshot::channel();
        let written = Arc::new(Mutex::new(Written::default()));
        let shared = written.clone();
        kube_informers_core::tasks::spawn_thread("recorder", move || {
            let mut write = || -> Result<(), Failure> {
                while let Some(message) = incoming.blocking_recv() {
                    match message {
                        Message::Change(change) => writer.change(&change)?,
                        Message::Note(kind, when, text) => writer.note(kind, when, &text)?,
                        Message::Flush => {
                            writer.flush()?;
                            *shared.lock() = writer.written();
                        }
                    }
                }
                Ok(())
            };
            let result = match write() {
                Ok(()) => writer.finish(Timestamp::now()),
                Err(failure) => Err(failure),
            };
            // The receiver may have given up.
            let _ = done.send(result);
        })
        .map_err(|error| Failure::error(format!("cannot start the recorder thread: {error}")))?;
        Ok(Self {
            messages,
            written,
            result,
        })
    }
}

struct Recorder {
    out: Output,
    progress: Progress,
    notes: Notes,
    session: Session,
    /// Kinds that may not be watched.
    refused: BTreeSet<String>,
    /// Kinds whose initial list is complete, and how many objects they have.
    listed: BTreeSet<String>,
    objects: usize,
}

impl Recorder {
    async fn run(
        mut self,
        mut feed: Feed,
        mut file: WriterThread,
        stopped: impl Future<Output = Exit>,
        duration: Option<Duration>,
    ) -> Result<Exit, Failure> {
        tokio::pin!(stopped);
        let end = duration.map(|duration| Instant::now() + duration);
        let mut flush = interval(FLUSH);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pending: Option<Message> = None;
        let ended = loop {
            // All are cancel-safe: the signal is waited for once, the feed keeps what is not taken, a permit that is not used
            // is returned, a tick may be missed.
            tokio::select! {
                biased;
                exit = &mut stopped => break Ok(exit),
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => break Ok(Exit::Success),
                result = &mut file.result => return Err(failure_of(result)),
                written = self.out.written(), if self.out.is_busy() => {
                    written?;
                    self.out.submit();
                }
                _ = flush.tick() => {
                    // A full queue is flushed by its size.
                    let _ = file.messages.try_send(Message::Flush);
                    self.progress.show(*file.written.lock(), &mut self.out);
                    self.out.submit();
                }
                permit = file.messages.reserve(), if pending.is_some() => {
                    if let (Ok(permit), Some(message)) = (permit, pending.take()) {
                        permit.send(message);
                    }
                }
                item = feed.next(), if pending.is_none() => match item {
                    Some(item) => match self.message(item) {
                        Ok(message) => pending = message,
                        Err(failure) => break Err(failure),
                    },
                    None => break Ok(Exit::Success),
                },
            }
        };
        // What was observed until now is recorded, too.
        while let Some(message) = pending
            .take()
            .or_else(|| self.message(feed.try_next()?).ok().flatten())
        {
            if timeout(FINISH_TIMEOUT, file.messages.send(message))
                .await
                .is_err()
            {
                break;
            }
        }
        self.session.close().await;
        drop(file.messages);
        let written = match timeout(FINISH_TIMEOUT, file.result).await {
            Ok(Ok(result)) => result?,
            Ok(Err(_)) => return Err(Failure::error("the recorder thread ended")),
            Err(_) => return Err(Failure::error("the last changes could not be written in time")),
        };
        self.progress.finish(written, &mut self.out, &self.notes);
        self.out.shutdown().await?;
        ended
    }

    /// What is recorded of an item.
    fn message(&mut self, item: FeedItem) -> Result<Option<Message>, Failure> {
        match item {
            FeedItem::Change(change) => {
                if let What::Synced { objects } = change.event {
                    self.listed.insert(change.kind.full_name());
                    self.objects += objects;
                    self.say_listed();
                }
                Ok(Some(Message::Change(Box::new(change))))
            }
            FeedItem::Coalesced(coalesced) => {
                let text = format!("the disk was too slow: {coalesced}");
                self.warn(&text);
                Ok(Some(Message::Note(RecordKind::Remark, Timestamp::now(), text)))
            }
            FeedItem::Note(note) => {
                self.check(&note)?;
                self.warn(&note.stamped());
                let kind = match note.text {
                    NoteText::Trouble(_) => RecordKind::Interrupted,
                    NoteText::Recovered(_) => RecordKind::Recovered,
                    NoteText::Forbidden(_) | NoteText::Hopeless(_) => RecordKind::Remark,
                };
                Ok(Some(Message::Note(kind, note.when, note.text())))
            }
        }
    }

    /// The program ends if no kind may be watched.
    fn check(&mut self, note: &Note) -> Result<(), Failure> {
        let failure = match &note.text {
            NoteText::Forbidden(text) => Failure::verbatim(text.clone()),
            NoteText::Hopeless(failure) => failure.clone(),
            NoteText::Trouble(_) | NoteText::Recovered(_) => return Ok(()),
        };
        let mut observed = self.session.observed().iter();
        if observed.any(|observed| observed.kind == note.kind && observed.informer.has_synced()) {
            return Ok(());
        }
        self.refused.insert(note.kind.full_name());
        match self.refused.len() == self.session.observed().len() {
            true => Err(failure),
            false => {
                self.say_listed();
                Ok(())
            }
        }
    }

    /// Says once that every kind is listed or refused.
    fn say_listed(&mut self) {
        let mut kinds = self
            .session
            .observed()
            .iter()
            .map(|observed| observed.kind.full_name());
        if kinds.all(|kind| self.listed.contains(&kind) || self.refused.contains(&kind)) {
            let text = format!("{} objects listed; recording changes", self.objects);
            self.progress.clear(&mut self.out);
            self.notes.say_to(&mut self.out, &text);
        }
    }

    fn warn(&mut self, text: &str) {
        self.progress.clear(&mut self.out);
        self.notes.warn_to(&mut self.out, text);
    }
}

fn failure_of(result: Result<Result<Written, Failure>, oneshot::error::RecvError>) -> Failure {
    match result {
        Ok(Err(failure)) => failure,
        _ => Failure::error("the recorder thread ended"),
    }
}

/// The line that shows how much was recorded.
struct Progress {
    file: String,
    quiet: bool,
    redraws: bool,
    drawn: bool,
    next_line: Instant,
    began: Instant,
}

impl Progress {
    fn new(file: &Path, quiet: bool) -> Self {
        let now = Instant::now();
        Self {
            file: file.display().to_string(),
            quiet,
            redraws: io::stderr().is_terminal(),
            drawn: false,
            next_line: now + LINES_EVERY,
            began: now,
        }
    }

    fn show(&mut self, written: Written, out: &mut Output) {
        if self.quiet || out.is_busy() {
            return;
        }
        let line = SafeText::line(format!("recording: {}", self.text(written)));
        if self.redraws {
            let mut text = SafeText::from(CLEAR_LINE);
            text.push(line);
            out.error_text(&text);
            self.drawn = true;
        } else if Instant::now() >= self.next_line {
            out.error_line(&line);
            self.next_line = Instant::now() + LINES_EVERY;
        }
    }

    fn clear(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.drawn) {
            out.error_text(&CLEAR_LINE.into());
        }
    }

    fn finish(&mut self, written: Written, out: &mut Output, notes: &Notes) {
        self.clear(out);
        notes.say_to(out, &format!("Recorded {}", self.text(written)));
        if written.too_large > 0 {
            let text = format!("{} objects were too large to be recorded", written.too_large);
            notes.warn_to(out, &text);
        }
    }

    /// `1200 objects, 34567 changes, 5.1 MB in incident.rec after 120 s`.
    fn text(&self, written: Written) -> String {
        let files = match written.rotations {
            0 => String::new(),
            rotations => format!(" and {rotations} earlier files"),
        };
        format!(
            "{} objects, {} changes, {} in {}{files} after {} s",
            written.objects,
            written.changes,
            bytes(written.bytes),
            self.file,
            self.began.elapsed().as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::kinds::Group;

    #[test]
    fn every_kind_is_recorded_except_leases_and_the_second_copy_of_events() {
        let group = |name: &str, version: &str, plurals: &[&str]| Group {
            name: name.to_owned(),
            versions: vec![(
                version.to_owned(),
                plurals
                    .iter()
                    .map(|plural| Kind::for_tests(name, version, "X", plural))
                    .collect(),
            )],
        };
        let catalogue = Catalogue {
            groups: vec![
                group("", "v1", &["pods", "pods/status", "events"]),
                group("coordination.k8s.io", "v1", &["leases"]),
                group("events.k8s.io", "v1", &["events"]),
                group("example.com", "v1beta1", &["widgets"]),
            ],
        };
        assert_eq!(
            default_kinds(&catalogue),
            ["pods.v1.", "events.v1.", "widgets.v1beta1.example.com"]
        );
    }
}
