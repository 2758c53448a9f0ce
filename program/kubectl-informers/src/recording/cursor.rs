//! Reads a recording from a moment on, step by step, with the state before and after every change.
//!
//! The state is known from a session or a keyframe on. After damage it is not, until the next of them: a patch must never be
//! applied to another state than the one it was made for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube_informers::{Cause, ObjectKey};

use super::block::BlockKind;
use super::reader::Recording;
use super::record::{Record, RecordKind, SessionHead};
use super::state::{Held, RecordedState, Since, Unusable};
use crate::objects::kinds::Kind;
use crate::process::failure::Failure;

/// Which objects are read; the others cost no memory.
pub type Keep = Box<dyn Fn(&Kind, &ObjectKey) -> bool + Send>;

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It appeared.
    Added {
        /// Its state.
        new: Arc<Held>,
        /// It was there when the recording began.
        initial: bool,
    },
    /// It changed.
    Updated {
        /// The state before.
        old: Arc<Held>,
        /// The state after.
        new: Arc<Held>,
    },
    /// It is gone.
    Deleted {
        /// Its last state.
        old: Arc<Held>,
        /// How the recorder knew.
        cause: Cause,
    },
}

/// One step of a recording.
#[derive(Clone, Debug)]
pub enum Step {
    /// A session began.
    Began {
        /// When.
        time: i64,
        /// The end of the session before, and whether it ended cleanly.
        previous: Option<(i64, bool)>,
    },
    /// An object changed.
    Change {
        /// When.
        time: i64,
        /// Of which kind.
        kind: Arc<Kind>,
        /// Its key.
        key: ObjectKey,
        /// What happened.
        happened: Happened,
        /// How many earlier changes were merged into it.
        merged: u32,
        /// Whether values of Secrets were masked by the recorder.
        masked: bool,
    },
    /// A note: an interruption, its end, or a remark.
    Note {
        /// When.
        time: i64,
        /// Which.
        kind: RecordKind,
        /// The message.
        text: String,
    },
}

impl Step {
    /// When it happened, in microseconds since 1970.
    pub fn time(&self) -> i64 {
        match self {
            Self::Began { time, .. } | Self::Change { time, .. } | Self::Note { time, .. } => *time,
        }
    }
}

struct Session {
    head: SessionHead,
    kinds: Vec<Arc<Kind>>,
    tag: u16,
}

/// Reads a recording.
pub struct Cursor {
    recording: Recording,
    keep: Keep,
    /// The next block.
    next: usize,
    /// The content of the current block, and how much of it was read.
    content: Vec<u8>,
    read: usize,
    session: Option<Session>,
    state: RecordedState,
    /// Whether the state is complete.
    valid: bool,
    /// Whether a keyframe is being read.
    loading: bool,
    /// The kinds that a later session lists anew, with the objects listed so far.
    relisting: HashMap<Arc<Kind>, HashSet<ObjectKey>>,
    /// The kinds whose initial list is not complete.
    listing: HashSet<Arc<Kind>>,
    steps: VecDeque<Step>,
    time: i64,
    /// The last moment at which the state was complete.
    known: i64,
    /// Set by a seek that could not reach its moment.
    damaged_after: Option<i64>,
    stopped: bool,
}

impl Cursor {
    /// At the start of a recording.
    pub fn new(recording: Recording, keep: Keep) -> Self {
        Self {
            recording,
            keep,
            next: 0,
            content: Vec::new(),
            read: 0,
            session: None,
            state: RecordedState::default(),
            valid: false,
            loading: false,
            relisting: HashMap::new(),
            listing: HashSet::new(),
            steps: VecDeque::new(),
            time: i64::MIN,
            known: i64::MIN,
            damaged_after: None,
            stopped: false,
        }
    }

    /// At a moment: everything up to and including it is part of the state. If the recording is damaged before that moment, at
    /// the [last one](Self::damaged_after) before the damage.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn seek(recording: Recording, keep: Keep, time: i64) -> Result<Self, Failure> {
        let mut cursor = Self::new(recording, keep);
        let starts = |cursor: &Self| -> Vec<usize> {
            let blocks = cursor.recording.blocks().iter().enumerate();
            blocks
                .filter(|(_, block)| block.is_start() && block.head().begins <= time)
                .map(|(index, _)| index)
                .collect()
        };
        // The last keyframe may be damaged: then an earlier one is used.
        for start in starts(&cursor).into_iter().rev() {
            // The second time it ends before the damage.
            for end in [Some(time), None] {
                let known = cursor.known;
                cursor.restart(start)?;
                cursor.skip_to(end.unwrap_or(known))?;
                if cursor.valid {
                    cursor.damaged_after = end.is_none().then_some(known);
                    return Ok(cursor);
                }
            }
        }
        cursor.restart(0)?;
        Ok(cursor)
    }

    fn restart(&mut self, block: usize) -> Result<(), Failure> {
        let head = self.recording.blocks().get(block).map(|block| *block.head());
        self.session = match (head, self.recording.session_of(block)?) {
            (Some(block), Some(head)) => Some(Session::new(head, block.session)),
            _ => None,
        };
        self.next = block;
        self.content.clear();
        self.read = 0;
        self.state.clear();
        (self.valid, self.loading, self.stopped) = (false, false, false);
        self.relisting.clear();
        self.listing.clear();
        self.steps.clear();
        (self.time, self.known) = (i64::MIN, i64::MIN);
        Ok(())
    }

    /// The recording.
    pub fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    /// The objects now.
    pub fn state(&mut self) -> &mut RecordedState {
        &mut self.state
    }

    /// Whether values of Secrets are masked in the current session.
    pub fn is_masked(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.head.masked)
    }

    /// The kinds whose initial list is not complete at this moment, by name.
    pub fn listing(&self) -> Vec<String> {
        let mut names: Vec<String> = self.listing.iter().map(|kind| kind.full_name()).collect();
        names.sort_unstable();
        names
    }

    /// The time of what was read last, in microseconds since 1970.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// The moment of the state after a seek, in microseconds since 1970, if what follows up to the requested one is damaged.
    pub fn damaged_after(&self) -> Option<i64> {
        self.damaged_after
    }

    /// Whether the state is complete.
    pub fn is_complete(&self) -> bool {
        self.valid
    }

    /// Applies the initial lists at the start, up to the first change.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn skip_initial(&mut self) -> Result<(), Failure> {
        while self.has_record(i64::MAX)? {
            let rest = self.content.get(self.read..).unwrap_or_default();
            let is_initial = |(record, _): (Record<'_>, _)| {
                matches!(record.kind, RecordKind::Initial | RecordKind::Synced)
            };
            // Between two blocks there is a step, but no record.
            if !rest.is_empty() && !Record::read(rest).is_some_and(is_initial) {
                break;
            }
            self.step(true);
            self.steps.clear();
        }
        self.steps.clear();
        Ok(())
    }

    /// The next step; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn next(&mut self) -> Result<Option<Step>, Failure> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Ok(Some(step));
            }
            if !self.has_record(i64::MAX)? {
                return Ok(None);
            }
            self.step(false);
        }
    }

    /// Applies everything up to and including a moment.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn skip_to(&mut self, time: i64) -> Result<(), Failure> {
        while self.has_record(time)? {
            self.step(true);
        }
        self.steps.clear();
        Ok(())
    }

    /// Whether there is a record up to this time. Reads blocks until there is one.
    fn has_record(&mut self, until: i64) -> Result<bool, Failure> {
        loop {
            let rest = self.content.get(self.read..).unwrap_or_default();
            if let Some((record, _)) = Record::read(rest) {
                return Ok(record.time <= until);
            }
            if !rest.is_empty() {
                self.recording.report_damage(
                    self.next.saturating_sub(1),
                    "contains a record that cannot be read",
                );
                self.valid = false;
            }
            self.content.clear();
            self.read = 0;
            let Some(block) = self.recording.blocks().get(self.next).copied() else {
                return Ok(false);
            };
            let head = *block.head();
            if head.begins > until {
                return Ok(false);
            }
            let index = self.next;
            self.next += 1;
            if block.after_damage {
                (self.valid, self.loading) = (false, false);
            }
            match head.kind {
                BlockKind::Session => {
                    self.begin(index, head.begins)?;
                    if !self.steps.is_empty() {
                        // A step without a record.
                        self.time = self.time.max(head.ends);
                        return Ok(true);
                    }
                }
                BlockKind::Keyframe if self.valid => {}
                BlockKind::Changes if !self.valid => {}
                BlockKind::Keyframe | BlockKind::Changes => self.load(index, &head)?,
            }
            self.time = self.time.max(head.ends);
        }
    }

    /// Reads a block of changes, or of a keyframe that is needed.
    fn load(&mut self, index: usize, head: &super::block::BlockHead) -> Result<(), Failure> {
        let of_session = self
            .session
            .as_ref()
            .is_some_and(|session| session.tag == head.session);
        if head.kind == BlockKind::Keyframe && head.first && of_session {
            self.state.clear();
            self.listing.clear();
            self.loading = true;
        }
        let usable = of_session && (head.kind == BlockKind::Changes || self.loading);
        let content = match usable {
            true => self.recording.content(index)?,
            false => None,
        };
        match (content, head.kind) {
            (None, _) => (self.valid, self.loading) = (false, false),
            (Some(content), BlockKind::Changes) => self.content = content,
            (Some(content), _) => {
                let mut rest = content.as_slice();
                while let Some((record, next)) = Record::read(rest) {
                    self.apply(&record, true);
                    rest = next;
                }
                if head.last {
                    (self.valid, self.loading) = (true, false);
                    self.known = self.known.max(head.ends);
                }
            }
        }
        Ok(())
    }

    /// A session block.
    fn begin(&mut self, index: usize, time: i64) -> Result<(), Failure> {
        let Some(head) = self.recording.session(index)? else {
            (self.session, self.valid, self.loading) = (None, false, false);
            return Ok(());
        };
        let tag = self
            .recording
            .blocks()
            .get(index)
            .map_or(0, |block| block.head().session);
        let session = Session::new(head, tag);
        let same_scope = self
            .session
            .as_ref()
            .is_some_and(|before| before.head.scope == session.head.scope);
        let same_session = self
            .session
            .as_ref()
            .is_some_and(|before| before.head.began == session.head.began);
        if session.head.continued {
            // Without the file before, the keyframe that follows is the start.
            self.valid &= same_session;
            self.session = Some(session);
            return Ok(());
        }
        let previous = (self.time > i64::MIN).then_some((self.time, self.stopped));
        self.steps.push_back(Step::Began { time, previous });
        self.relisting.clear();
        match self.valid && same_scope {
            true => {
                self.state.retain_kinds(&session.kinds);
                self.state.drop_marks();
                let kinds = session.kinds.iter();
                self.relisting = kinds.map(|kind| (kind.clone(), HashSet::new())).collect();
            }
            false => self.state.clear(),
        }
        self.listing = session.kinds.iter().cloned().collect();
        self.session = Some(session);
        (self.valid, self.loading, self.stopped) = (true, false, false);
        Ok(())
    }

    /// Applies the next record of the current block.
    fn step(&mut self, quiet: bool) {
        let content = std::mem::take(&mut self.content);
        if let Some((record, rest)) = Record::read(content.get(self.read..).unwrap_or_default()) {
            self.read = content.len() - rest.len();
            self.time = self.time.max(record.time);
            self.apply(&record, quiet);
            if self.valid {
                self.known = self.known.max(record.time);
            }
        }
        self.content = content;
    }

    fn apply(&mut self, record: &Record<'_>, quiet: bool) {
        let note = match record.kind {
            RecordKind::Interrupted | RecordKind::Recovered | RecordKind::Remark => true,
            RecordKind::Stopped => {
                self.stopped = true;
                return;
            }
            _ => false,
        };
        if note {
            if !quiet {
                self.steps.push_back(Step::Note {
                    time: record.time,
                    kind: record.kind,
                    text: record.text(),
                });
            }
            return;
        }
        let kinds = self.session.as_ref().map(|session| &session.kinds);
        let Some(kind) = kinds.and_then(|kinds| kinds.get(usize::from(record.object_kind)).cloned()) else {
            return;
        };
        if record.kind == RecordKind::Synced {
            self.listing.remove(&kind);
            if let Some(seen) = self.relisting.remove(&kind) {
                for key in self.state.keys_without(&kind, &seen) {
                    let missed = RecordKind::Deleted(Cause::Missed);
                    self.change(record, missed, &kind, key, quiet);
                }
            }
            return;
        }
        if let Some(key) = record.object_key().filter(|key| (self.keep)(&kind, key)) {
            self.change(record, record.kind, &kind, key, quiet);
        }
    }

    fn change(
        &mut self,
        record: &Record<'_>,
        what: RecordKind,
        kind: &Arc<Kind>,
        key: ObjectKey,
        quiet: bool,
    ) {
        let happened = match self.happened(record, what, kind, &key, quiet) {
            Ok(happened) => happened,
            Err(Unusable) => {
                // Its later changes cannot be applied either, until it is recorded as a whole again.
                self.state.forget(kind, &key);
                let what = format!(
                    "contains a change of {} {key} that does not fit the state before it",
                    kind.label()
                );
                self.recording.report_damage(self.next.saturating_sub(1), &what);
                return;
            }
        };
        if quiet {
            return;
        }
        for happened in happened {
            self.steps.push_back(Step::Change {
                time: record.time,
                kind: kind.clone(),
                key: key.clone(),
                happened,
                merged: record.merged,
                masked: self.is_masked(),
            });
        }
    }

    /// Applies a record to the state; gives what happened, unless that is not needed.
    fn happened(
        &mut self,
        record: &Record<'_>,
        what: RecordKind,
        kind: &Arc<Kind>,
        key: &ObjectKey,
        quiet: bool,
    ) -> Result<Vec<Happened>, Unusable> {
        match what {
            RecordKind::Updated if quiet => {
                self.state.patch_later(kind, key, record.content, record.marks)?;
                Ok(Vec::new())
            }
            RecordKind::Updated => {
                let (old, new) = self.state.patch(kind, key, record.content, record.marks)?;
                Ok(vec![Happened::Updated { old, new }])
            }
            RecordKind::Deleted(_) if quiet => {
                self.state.forget(kind, key);
                Ok(Vec::new())
            }
            RecordKind::Deleted(cause) => {
                let old = self.state.remove(kind, key)?;
                Ok(old
                    .map(|old| Happened::Deleted { old, cause })
                    .into_iter()
                    .collect())
            }
            _ => {
                let new = Arc::new(Held {
                    object: record.content.into(),
                    marks: record.marks.into(),
                });
                let first = !self.relisting.contains_key(kind);
                if let Some(seen) = self.relisting.get_mut(kind) {
                    seen.insert(key.clone());
                }
                if quiet {
                    self.state.forget(kind, key);
                }
                let old = self.state.put(kind, key.clone(), new.clone())?;
                let initial = what == RecordKind::Initial && first;
                Ok(match old.map(|old| (new.since(&old), old)) {
                    None => vec![Happened::Added { new, initial }],
                    Some((Since::Same, _)) => Vec::new(),
                    Some((Since::Changed, old)) => vec![Happened::Updated { old, new }],
                    Some((Since::Another, old)) => vec![
                        Happened::Deleted {
                            old,
                            cause: Cause::Missed,
                        },
                        Happened::Added { new, initial },
                    ],
                })
            }
        }
    }
}

impl Session {
    fn new(head: SessionHead, tag: u16) -> Self {
        let kinds = head.kinds.iter().cloned().map(Arc::new).collect();
        Self { head, kinds, tag }
    }
}
