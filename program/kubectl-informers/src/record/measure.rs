//! What a recording costs, for `bench --record`: bytes per change, and the time of a seek.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::head;
use crate::changes::Change;
use crate::process::failure::Failure;
use crate::recording::cursor::Cursor;
use crate::recording::reader::Recording;
use crate::recording::record::{Record, RecordKind};
use crate::recording::writer::{Rotation, Writer};
use crate::session::Session;

/// How many moments are looked up.
const SEEKS: i64 = 20;
/// How often what was collected is written, as by `record`.
const FLUSH: Duration = Duration::from_millis(500);

/// Changes that are kept to be repeated.
const REPEATED: usize = 20_000;
/// The time between two repeated changes: a thousand a second.
const SPACING: SignedDuration = SignedDuration::from_millis(1);
/// Repeated changes between two flushes.
const PER_FLUSH: u32 = 500;

/// Records what `bench` counts.
pub struct Recorder {
    path: PathBuf,
    writer: Writer,
    flushed: Instant,
    initial_bytes: u64,
    /// How many changes the file shall have at least.
    wanted: u64,
    /// The first changes, which are written again until there are enough.
    observed: Vec<Change>,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Changes in the file.
    pub changes: u64,
    /// The size of the file.
    pub bytes: u64,
    /// Without the initial objects, keyframes included.
    pub bytes_of_changes: u64,
    /// The median time of opening the file and reading the state at one moment.
    pub seek: Duration,
    /// The longest.
    pub slowest_seek: Duration,
}

impl Recorder {
    /// Begins a new file.
    ///
    /// # Errors
    ///
    /// The file exists, or cannot be written.
    pub fn start(path: &Path, session: &Session, wanted: u64) -> Result<Self, Failure> {
        if path.exists() {
            return Err(Failure::error(format!(
                "{} exists: --record measures a new file",
                path.display()
            )));
        }
        let rotation = Rotation {
            max_size: u64::MAX,
            max_age: None,
            keep: 0,
        };
        let (writer, _) = Writer::open(path, head(session, true), rotation, Timestamp::now())?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            flushed: Instant::now(),
            initial_bytes: 0,
            wanted,
            observed: Vec::new(),
        })
    }

    /// Adds a change.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn change(&mut self, change: &Change) -> Result<(), Failure> {
        self.writer.change(change)?;
        let kept = change.key.is_some() && !change.event.is_initial();
        if kept && self.wanted > 0 && self.observed.len() < REPEATED {
            self.observed.push(change.clone());
        }
        if self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            self.writer.flush()?;
        }
        Ok(())
    }

    /// The initial objects are written.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn synced(&mut self) -> Result<(), Failure> {
        self.writer.flush()?;
        self.initial_bytes = self.writer.written().bytes;
        Ok(())
    }

    /// Ends the file and measures it.
    ///
    /// # Errors
    ///
    /// The file cannot be written or read.
    pub fn finish(mut self) -> Result<Measured, Failure> {
        let end = self.repeat()?;
        let written = self.writer.finish(end)?;
        let (mut times, changes) = (seeks(&self.path)?, count(&self.path)?);
        times.sort_unstable();
        Ok(Measured {
            changes,
            bytes: written.bytes,
            bytes_of_changes: written.bytes.saturating_sub(self.initial_bytes),
            seek: times.get(times.len() / 2).copied().unwrap_or_default(),
            slowest_seek: times.last().copied().unwrap_or_default(),
        })
    }
}

impl Recorder {
    /// Writes the observed changes again, one after the other in the times of the recording, until there are enough.
    /// Returns the end.
    fn repeat(&mut self) -> Result<Timestamp, Failure> {
        let mut now = Timestamp::now();
        let mut pending = 0;
        while self.writer.written().changes < self.wanted && !self.observed.is_empty() {
            for change in &mut self.observed {
                now = now.saturating_add(SPACING).unwrap_or(now);
                change.when = now;
                self.writer.change(change)?;
                pending += 1;
                // As often as by the clock, if it were that time.
                if pending >= PER_FLUSH {
                    pending = 0;
                    self.writer.flush()?;
                }
            }
        }
        Ok(now)
    }
}

/// The times of reading the state at moments all over the file.
fn seeks(path: &Path) -> Result<Vec<Duration>, Failure> {
    let (begins, ends) = Recording::open(path)?.times();
    let (begins, ends) = (begins.as_microsecond(), ends.as_microsecond());
    let mut times = Vec::new();
    for number in 1..=SEEKS {
        let time = begins + (ends - begins) / SEEKS * number;
        let began = Instant::now();
        let mut cursor = Cursor::seek(Recording::open(path)?, Box::new(|_, _| true), time)?;
        // Patches are applied when objects are read.
        cursor.state().objects();
        times.push(began.elapsed());
    }
    Ok(times)
}

/// The number of changes in a file, without the initial objects.
fn count(path: &Path) -> Result<u64, Failure> {
    let mut recording = Recording::open(path)?;
    let mut changes = 0;
    for index in 0..recording.blocks().len() {
        let content = recording.content(index)?.unwrap_or_default();
        let mut rest = content.as_slice();
        while let Some((record, next)) = Record::read(rest) {
            let is_change = matches!(
                record.kind,
                RecordKind::Added | RecordKind::Updated | RecordKind::Deleted(_)
            );
            changes += u64::from(is_change);
            rest = next;
        }
    }
    Ok(changes)
}
