//! Writes a recording: collects records in blocks, adds keyframes, and rotates files.
//!
//! Every block is written with one call. A process that is killed leaves at most one incomplete block at the end, which
//! readers skip and the next session removes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube_informers::ObjectKey;

use super::block::{self, BlockKind, Packing};
use super::record::{NO_KIND, Record, RecordKind, SessionHead};
use super::scan::scan;
use crate::changes::{Change, What};
use crate::objects::item::{Contents, Item};
use crate::objects::kinds::Kind;
use crate::process::failure::Failure;

/// The content of a block before compression. Larger blocks compress better, and take longer to read for one change.
const BLOCK: usize = 256 << 10;
/// The least number of bytes between two keyframes.
const KEYFRAME_AFTER: u64 = 1 << 20;
/// Between two keyframes there are at least this many times the bytes of a keyframe, so that keyframes are at most a third
/// of the file.
const KEYFRAME_RATIO: u64 = 2;

/// When another file is begun, and how many are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The size of a file.
    pub max_size: u64,
    /// The age of a file.
    pub max_age: Option<Duration>,
    /// How many earlier files are kept.
    pub keep: usize,
}

/// What was written so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Objects in the state.
    pub objects: usize,
    /// Changes, without the initial objects.
    pub changes: u64,
    /// Bytes on disk, of all files of this session.
    pub bytes: u64,
    /// Objects and changes that are too large for the format.
    pub too_large: u64,
    /// How many files were begun because of their size or age.
    pub rotations: u64,
}

/// How the file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is new.
    New,
    /// It is a recording that is continued.
    Continued {
        /// The bytes of an incomplete block that were removed from its end.
        removed: u64,
    },
}

/// Writes one session.
pub struct Writer {
    path: PathBuf,
    file: File,
    /// The end of the last complete block.
    offset: u64,
    /// The time of the first block of this file that this session has written.
    began: i64,
    session: SessionHead,
    session_tag: u16,
    indexes: HashMap<Arc<Kind>, u16>,
    /// The last recorded state of every object: shared with the caches of the informers.
    state: BTreeMap<(u16, ObjectKey), Arc<Item>>,
    rotation: Rotation,
    content: Vec<u8>,
    times: Option<(i64, i64)>,
    /// Times never go back, even if the clock does.
    latest: i64,
    unsynced: usize,
    keyframe_after: u64,
    keyframe_bytes: u64,
    since_keyframe: u64,
    written: Written,
}

impl Writer {
    /// Creates the file or continues it, and begins a session.
    ///
    /// # Errors
    ///
    /// The file exists and is not a recording, another process writes it, or it cannot be written.
    pub fn open(
        path: &Path,
        session: SessionHead,
        rotation: Rotation,
        now: Timestamp,
    ) -> Result<(Self, Found), Failure> {
        let failed = |error: io::Error| cannot("open", path, &error);
        let mut file = open_private(path).map_err(failed)?;
        lock(&file, path)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::error(format!(
                "cannot record to {}: it is not a regular file",
                path.display()
            )));
        }
        let (offset, found) = match metadata.len() {
            0 => (0, Found::New),
            length => {
                let end = intact_end(&mut file, path, length)?;
                file.set_len(end).map_err(failed)?;
                (
                    end,
                    Found::Continued {
                        removed: length - end,
                    },
                )
            }
        };
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let indexes = (0..NO_KIND)
            .zip(&session.kinds)
            .map(|(index, kind)| (Arc::new(kind.clone()), index))
            .collect();
        let now = now.as_microsecond();
        let mut writer = Self {
            path: path.to_owned(),
            file,
            offset,
            began: now,
            unsynced: session.kinds.len(),
            session,
            session_tag: 0,
            indexes,
            state: BTreeMap::new(),
            rotation,
            content: Vec::new(),
            times: None,
            latest: now,
            keyframe_after: KEYFRAME_AFTER,
            keyframe_bytes: 0,
            since_keyframe: 0,
            written: Written::default(),
        };
        if found == Found::New {
            writer.write_bytes(&block::file_head())?;
        }
        writer.write_session()?;
        Ok((writer, found))
    }

    /// Writes keyframes more often.
    #[cfg(test)]
    pub fn keyframe_after(&mut self, bytes: u64) {
        (self.keyframe_after, self.keyframe_bytes) = (bytes, 0);
    }

    /// What was written so far.
    pub fn written(&self) -> Written {
        Written {
            objects: self.state.len(),
            ..self.written
        }
    }

    /// Adds a change.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn change(&mut self, change: &Change) -> Result<(), Failure> {
        let Some(&index) = self.indexes.get(&change.kind) else {
            return Ok(());
        };
        let time = self.time(change.when);
        let mut record = Record {
            kind: RecordKind::Synced,
            time,
            object_kind: index,
            merged: u32::try_from(change.coalesced).unwrap_or(u32::MAX),
            key: "",
            marks: &[],
            content: &[],
        };
        let (Some(key), Some(object)) = (&change.key, &change.object) else {
            self.add(&record)?;
            self.unsynced = self.unsynced.saturating_sub(1);
            // What was written so far can be read like a keyframe.
            self.keyframe_bytes = self.written.bytes;
            self.since_keyframe = 0;
            return Ok(());
        };
        record.key = key.as_str();
        let place = (index, key.clone());
        let (kind, content, marks) = match change.event {
            What::Deleted { cause } => {
                self.state.remove(&place);
                (RecordKind::Deleted(cause), Vec::new(), Vec::new())
            }
            event => {
                let old = self.state.insert(place.clone(), object.clone());
                let (new, marks) = (object.tree().0, marks(object));
                match (old, event) {
                    (Some(old), What::Updated { .. }) => {
                        let patch = json_patch::diff(&old.tree().0, &new);
                        (RecordKind::Updated, json(&patch), marks)
                    }
                    (_, What::Added { initial: true }) => (RecordKind::Initial, json(&new), marks),
                    _ => (RecordKind::Added, json(&new), marks),
                }
            }
        };
        record.kind = kind;
        record.content = &content;
        record.marks = &marks;
        if kind != RecordKind::Initial {
            self.written.changes += 1;
        }
        if !self.add(&record)? {
            // The reader does not know this state, so no patch may refer to it.
            self.state.remove(&place);
        }
        Ok(())
    }

    /// Adds a note.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn note(&mut self, kind: RecordKind, when: Timestamp, text: &str) -> Result<(), Failure> {
        let time = self.time(when);
        self.add(&Record::note(kind, time, text)).map(drop)
    }

    /// Writes what was collected. Another file is begun if this one is full.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.write_changes()?;
        let due = self.since_keyframe >= self.keyframe_after.max(KEYFRAME_RATIO * self.keyframe_bytes);
        if self.is_full() && self.unsynced == 0 {
            self.rotate()
        } else if due && self.unsynced == 0 {
            self.write_keyframe()
        } else {
            Ok(())
        }
    }

    /// Ends the session.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn finish(mut self, when: Timestamp) -> Result<Written, Failure> {
        self.note(RecordKind::Stopped, when, "")?;
        self.write_changes()?;
        self.file
            .sync_data()
            .map_err(|error| cannot("write", &self.path, &error))?;
        Ok(self.written())
    }

    fn time(&mut self, when: Timestamp) -> i64 {
        self.latest = self.latest.max(when.as_microsecond());
        self.latest
    }

    /// Adds a record; `false` if it is too large.
    fn add(&mut self, record: &Record<'_>) -> Result<bool, Failure> {
        if self.content.len() >= BLOCK {
            self.flush()?;
        }
        let before = self.content.len();
        if !record.write(&mut self.content) {
            self.written.too_large += 1;
            return Ok(false);
        }
        // A large record gets a block of its own, which limits the size of blocks.
        if before > 0 && self.content.len() > 2 * BLOCK {
            let large = self.content.split_off(before);
            self.write_changes()?;
            self.content = large;
        }
        let times = self.times.get_or_insert((record.time, record.time));
        times.1 = record.time;
        Ok(true)
    }

    fn write_changes(&mut self) -> Result<(), Failure> {
        let Some(times) = self.times.take() else {
            return Ok(());
        };
        let content = std::mem::take(&mut self.content);
        let before = self.written.bytes;
        self.write_block(BlockKind::Changes, (false, false), times, &content)?;
        self.since_keyframe += self.written.bytes - before;
        // Keeps the memory, unless one record was very large.
        if content.capacity() <= 4 * BLOCK {
            self.content = content;
            self.content.clear();
        }
        Ok(())
    }

    fn write_session(&mut self) -> Result<(), Failure> {
        let content = json(&self.session);
        self.session_tag = crc32fast::hash(&content) as u16;
        let times = (self.latest, self.latest);
        self.write_block(BlockKind::Session, (false, false), times, &content)
    }

    /// The state of every object at the time of the last record.
    fn write_keyframe(&mut self) -> Result<(), Failure> {
        let before = self.written.bytes;
        let (time, mut first) = (self.latest, true);
        let mut content = Vec::new();
        let state = std::mem::take(&mut self.state);
        let mut result = Ok(());
        for ((kind, key), item) in &state {
            let (object, marks) = (json(&item.tree().0), marks(item));
            let record = Record {
                kind: RecordKind::Initial,
                time,
                object_kind: *kind,
                merged: 0,
                key: key.as_str(),
                marks: &marks,
                content: &object,
            };
            // It was written before, so it is not too large.
            record.write(&mut content);
            if content.len() >= BLOCK {
                result = self.write_block(BlockKind::Keyframe, (first, false), (time, time), &content);
                if result.is_err() {
                    break;
                }
                first = false;
                content.clear();
            }
        }
        self.state = state;
        result?;
        self.write_block(BlockKind::Keyframe, (first, true), (time, time), &content)?;
        self.keyframe_bytes = self.written.bytes - before;
        self.since_keyframe = 0;
        Ok(())
    }

    fn is_full(&self) -> bool {
        let age = self.latest.saturating_sub(self.began);
        let old = self.rotation.max_age.is_some_and(|max| {
            // An idle cluster does not need another file.
            i64::try_from(max.as_micros()).is_ok_and(|max| age >= max) && self.since_keyframe > 0
        });
        self.offset >= self.rotation.max_size || old
    }

    /// Renames this file to `FILE.1`, earlier ones to the next number, and begins another one.
    fn rotate(&mut self) -> Result<(), Failure> {
        let path = self.path.clone();
        let failed = |error: io::Error| cannot("rotate", &path, &error);
        self.file.sync_data().map_err(failed)?;
        let keep = self.rotation.keep;
        remove(&numbered(&path, keep.max(1))).map_err(failed)?;
        for number in (1..keep).rev() {
            rename(&numbered(&path, number), &numbered(&path, number + 1)).map_err(failed)?;
        }
        match keep {
            0 => remove(&path).map_err(failed)?,
            _ => rename(&path, &numbered(&path, 1)).map_err(failed)?,
        }
        self.file = open_private(&path).map_err(failed)?;
        lock(&self.file, &path)?;
        self.offset = 0;
        self.began = self.latest;
        self.written.rotations += 1;
        self.session.continued = true;
        self.write_bytes(&block::file_head())?;
        self.write_session()?;
        self.write_keyframe()
    }

    fn write_block(
        &mut self,
        kind: BlockKind,
        (first, last): (bool, bool),
        times: (i64, i64),
        content: &[u8],
    ) -> Result<(), Failure> {
        let packing = Packing {
            kind,
            first,
            last,
            times,
            session: self.session_tag,
        };
        match block::pack(packing, content) {
            Some(block) => self.write_bytes(&block),
            None => Err(Failure::error(format!(
                "cannot write {}: a block of {} bytes is too large",
                self.path.display(),
                content.len()
            ))),
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Err(error) = self.file.write_all(bytes) {
            // Best effort: a reader skips an incomplete block as well.
            let _ = self.file.set_len(self.offset);
            return Err(cannot("write", &self.path, &error));
        }
        self.offset += bytes.len() as u64;
        self.written.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// `FILE.1`.
pub fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A file that only its owner can read: it contains the objects of a cluster.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Failure::error(format!(
            "cannot record to {}: another process is writing it",
            path.display()
        ))),
        // Some file systems have no locks.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The end of the last intact block.
fn intact_end(file: &mut File, path: &Path, length: u64) -> Result<u64, Failure> {
    let failed = |error: io::Error| cannot("read", path, &error);
    let scan = scan(file, length)
        .map_err(failed)?
        .map_err(|error| Failure::error(format!("cannot record to {}: {error}", path.display())))?;
    let mut end = scan.end();
    if let Some(last) = scan.blocks.last() {
        let mut stored = vec![0; last.head.stored as usize];
        file.seek(SeekFrom::Start(last.offset + block::BLOCK_HEAD as u64))
            .map_err(failed)?;
        io::Read::read_exact(file, &mut stored).map_err(failed)?;
        if !last.head.is_intact(&stored) {
            end = last.offset;
        }
    }
    Ok(end)
}

/// What can be done about it is said for a full disk, the usual cause.
pub fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; make room and start `record` again: it continues this file. --max-size and --keep limit the size"
        }
        _ => "",
    };
    Failure::error(format!("cannot {what} {}: {error}{fix}", path.display()))
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    // Writing these types into memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

fn marks(item: &Item) -> Vec<u8> {
    let marks = item.summary().marks;
    match marks.is_empty() {
        true => Vec::new(),
        false => json(&marks),
    }
}
