//! The state of the screen: consumes changes, stats and keys; draws nothing and reads no clock.

use std::collections::VecDeque;

use jiff::Timestamp;
use tokio::time::Instant;

use super::look::Look;
use super::object::Opened;
use crate::board::{Board, Churner, FieldId, KindBoard, LogEntry, ObjectId};
use crate::changes::Change;
use crate::session::observe::{InformerView, Note, NoteText};

/// The number of notes kept: failures are shown on the screen while they last, and in the list of changes afterwards.
const NOTES: usize = 50;
/// The number of rows in the lists of what changes most.
const CHURNERS: usize = 50;

/// The lists below the informers. On a wide screen all of them are shown, and this one can be scrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// What changes.
    Changes,
    /// The objects that change most.
    Objects,
    /// The fields that change most.
    Fields,
    /// Loops and fights.
    Trouble,
}

/// The sort order of the informers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The order requested.
    Given,
    /// Most events first.
    Events,
    /// Most objects first.
    Objects,
    /// Most bytes first.
    Bytes,
    /// Most errors first.
    Errors,
}

impl Sort {
    pub(super) const ALL: [Self; 5] = [
        Self::Given,
        Self::Events,
        Self::Objects,
        Self::Bytes,
        Self::Errors,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "as given",
            Self::Events => "events/s",
            Self::Objects => "objects",
            Self::Bytes => "received",
            Self::Errors => "errors",
        }
    }
}

/// A note with its time.
pub(super) struct Noted {
    pub when: Timestamp,
    /// The number of the last change before it.
    pub after: u64,
    pub trouble: bool,
    pub text: String,
}

/// What was on the screen when it was paused.
pub(super) struct Frozen {
    pub last: u64,
    pub objects: Vec<Churner<ObjectId>>,
    pub fields: Vec<Churner<FieldId>>,
}

/// Everything the screen shows.
pub struct Model {
    pub(super) board: Board,
    pub(super) title: String,
    pub(super) look: Look,
    pub(super) notes: VecDeque<Noted>,
    pub(super) pane: Pane,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) typing: bool,
    pub(super) help: bool,
    pub(super) diffs: bool,
    pub(super) scroll: usize,
    pub(super) frozen: Option<Frozen>,
    /// The object that is shown instead of the lists.
    pub(super) opened: Option<Opened>,
    /// The command that is being typed after `:`.
    pub(super) command: Option<String>,
    /// What is shown instead of the keys, and whether it is an error.
    pub(super) message: Option<(String, bool)>,
    pub(super) now: Instant,
}

impl Model {
    /// An empty screen about this cluster.
    pub fn new(board: Board, title: impl Into<String>, colours: bool, now: Instant) -> Self {
        Self {
            board,
            title: title.into(),
            look: Look::new(colours),
            notes: VecDeque::new(),
            pane: Pane::Changes,
            sort: Sort::Given,
            filter: String::new(),
            typing: false,
            help: false,
            diffs: true,
            scroll: 0,
            frozen: None,
            opened: None,
            command: None,
            message: None,
            now,
        }
    }

    /// Shows a message in the last line, until a key is pressed.
    pub fn say(&mut self, text: &str) {
        self.message = Some((text.to_owned(), false));
    }

    /// The same for an error, of which the first line is shown.
    pub fn complain(&mut self, text: &str) {
        let first = text.lines().next().unwrap_or_default();
        self.message = Some((first.to_owned(), true));
    }

    /// Applies a change.
    pub fn apply(&mut self, change: Change, now: Instant) {
        self.now = now;
        self.board.apply(change, now);
    }

    /// Adds a note of an informer.
    pub fn note(&mut self, note: &Note, when: Timestamp) {
        if self.notes.len() >= NOTES {
            self.notes.pop_back();
        }
        self.notes.push_front(Noted {
            when,
            after: self.board.log.last(),
            trouble: !matches!(note.text, NoteText::Recovered(_)),
            text: note.text(),
        });
    }

    /// Called periodically with the state of the informers.
    pub fn tick(&mut self, views: Vec<InformerView>, now: Instant) {
        self.now = now;
        self.board.tick(views, now);
    }

    /// The informers in the selected order.
    pub(super) fn informers(&self) -> Vec<&KindBoard> {
        let mut kinds: Vec<&KindBoard> = self.board.kinds.iter().collect();
        let by = |kind: &KindBoard| -> f64 {
            let view = |read: fn(&InformerView) -> f64| kind.view.as_ref().map_or(0.0, read);
            match self.sort {
                Sort::Given => 0.0,
                Sort::Events => kind.series.rate(),
                Sort::Objects => view(|view| view.objects as f64),
                Sort::Bytes => view(|view| view.bytes as f64),
                Sort::Errors => view(|view| view.errors as f64),
            }
        };
        // Stable: equal elements keep the requested order.
        kinds.sort_by(|a, b| by(b).total_cmp(&by(a)));
        kinds
    }

    /// The visible informers: all, or those that match the filter.
    pub(super) fn found(&self, entry: &LogEntry) -> bool {
        if entry.change.key.is_none() {
            return self.filter.is_empty();
        }
        let mut texts = vec![
            self.id(entry.kind),
            entry.change.name(),
            entry.change.event.name(),
        ];
        texts.extend(entry.change.diff.iter().map(|field| field.field.as_str()));
        let by = entry.change.by.as_deref().unwrap_or_default();
        texts.extend(by.iter().map(|one| &*one.author.manager));
        self.matches(&texts)
    }

    /// Whether every word of the filter is in one of the texts, and no word after `!`.
    pub(super) fn matches(&self, texts: &[&str]) -> bool {
        self.filter.split_whitespace().all(|word| {
            let word = word.to_lowercase();
            let has = |word: &str| texts.iter().any(|text| text.to_lowercase().contains(word));
            match word.strip_prefix('!') {
                // Still being typed.
                Some("") => true,
                Some(word) => !has(word),
                None => has(&word),
            }
        })
    }

    /// What a kind is called.
    pub(super) fn id(&self, kind: usize) -> &str {
        self.board.kinds.get(kind).map_or("", |kind| kind.short.as_str())
    }

    /// The changes that are shown, the newest first: without the new ones while paused.
    pub(super) fn changes(&self) -> impl Iterator<Item = &LogEntry> {
        let last = self.frozen.as_ref().map_or(u64::MAX, |frozen| frozen.last);
        self.board
            .log
            .newest_first()
            .map(|entry| &**entry)
            .skip_while(move |entry| entry.number > last)
            .filter(|entry| self.found(entry))
    }

    /// The number of changes that arrived while paused.
    pub(super) fn held_back(&self) -> Option<u64> {
        let frozen = self.frozen.as_ref()?;
        Some(self.board.log.last().saturating_sub(frozen.last))
    }

    /// The objects that change most.
    pub(super) fn objects(&self) -> Vec<Churner<ObjectId>> {
        match &self.frozen {
            Some(frozen) => frozen.objects.clone(),
            None => self.board.objects.top(CHURNERS, self.now),
        }
    }

    /// The fields that change most.
    pub(super) fn fields(&self) -> Vec<Churner<FieldId>> {
        match &self.frozen {
            Some(frozen) => frozen.fields.clone(),
            None => self.board.fields.top(CHURNERS, self.now),
        }
    }
}
