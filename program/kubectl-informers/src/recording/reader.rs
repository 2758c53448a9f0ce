//! Opens a recording: its files in order, their blocks, and what is damaged.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::block::{BLOCK_HEAD, BlockHead, BlockKind};
use super::moment::moment;
use super::record::SessionHead;
use super::scan::{Place, scan};
use super::writer::{cannot, numbered};
use crate::process::failure::Failure;

/// More rotated files than this are not looked for.
const MOST_FILES: usize = 10_000;

/// More damage than this is not described.
const MOST_REPORTED: usize = 100;

/// A recording: one file, and the earlier ones that rotation has renamed.
pub struct Recording {
    path: PathBuf,
    files: Vec<(PathBuf, File)>,
    blocks: Vec<Block>,
    damage: Vec<String>,
    /// How much of the damage was taken.
    taken: usize,
}

/// One block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    file: usize,
    place: Place,
    /// Whether bytes before it are missing, so that the state is not known.
    pub after_damage: bool,
}

impl Block {
    /// Its head.
    pub fn head(&self) -> &BlockHead {
        &self.place.head
    }

    /// Whether reading can start here: the state is complete without what comes before.
    pub fn is_start(&self) -> bool {
        let head = self.head();
        head.kind == BlockKind::Session || head.kind == BlockKind::Keyframe && head.first
    }
}

impl Recording {
    /// Opens `FILE`, and `FILE.1`, `FILE.2` … if they exist.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the recording contains nothing.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let mut recording = Self {
            path: path.to_owned(),
            files: Vec::new(),
            blocks: Vec::new(),
            damage: Vec::new(),
            taken: 0,
        };
        let rotated = (1..MOST_FILES)
            .map(|number| numbered(path, number))
            .take_while(|path| path.is_file());
        let mut paths: Vec<PathBuf> = rotated.collect();
        paths.reverse();
        paths.push(path.to_owned());
        for path in paths {
            recording.add(path)?;
        }
        match recording.blocks.iter().any(Block::is_start) {
            true => Ok(recording),
            false => Err(Failure::error(format!(
                "the recording {} contains nothing{}",
                path.display(),
                match recording.damage.first() {
                    Some(damage) => format!(" that can be read: {damage}"),
                    None => String::new(),
                }
            ))),
        }
    }

    fn add(&mut self, path: PathBuf) -> Result<(), Failure> {
        let failed = |error: io::Error| cannot("read", &path, &error);
        let mut file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::error(format!(
                "cannot read {}: it is not a regular file",
                path.display()
            )));
        }
        let scan = match scan(&mut file, metadata.len()).map_err(failed)? {
            Ok(scan) => scan,
            // A rotated file that is damaged does not hide the others.
            Err(error) if path != self.path => {
                self.damage
                    .push(format!("{} is skipped: {error}", path.display()));
                return Ok(());
            }
            Err(error) => {
                return Err(Failure::error(format!("cannot read {}: {error}", path.display())));
            }
        };
        let index = self.files.len();
        for place in &scan.blocks {
            let after_damage = scan.damaged.iter().any(|range| range.end == place.offset);
            self.blocks.push(Block {
                file: index,
                place: *place,
                after_damage,
            });
        }
        for range in scan.damaged.iter().take(MOST_REPORTED) {
            self.damage.push(format!(
                "{} bytes at {} of {} are damaged; the recording goes on at the next keyframe",
                range.end - range.start,
                range.start,
                path.display()
            ));
        }
        if scan.torn > 0 {
            self.damage.push(format!(
                "the last {} bytes of {} are incomplete: it ends before them",
                scan.torn,
                path.display()
            ));
        }
        self.files.push((path, file));
        Ok(())
    }

    /// Its blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// What cannot be read, in words. Each is given once.
    pub fn take_damage(&mut self) -> Vec<String> {
        let new = self.damage.get(self.taken..).unwrap_or_default().to_vec();
        self.taken = self.damage.len();
        new
    }

    /// Something in a block does not fit.
    pub fn report_damage(&mut self, index: usize, what: &str) {
        if let Some(block) = self.blocks.get(index) {
            let (offset, path) = (block.place.offset, self.files.get(block.file));
            let path = path
                .map(|(path, _)| path.display().to_string())
                .unwrap_or_default();
            let text = format!("the block at {offset} of {path} {what}");
            if !self.damage.contains(&text) && self.damage.len() < MOST_REPORTED {
                self.damage.push(text);
            }
        }
    }

    /// The times of the first and the last record.
    pub fn times(&self) -> (Timestamp, Timestamp) {
        let begins = self.blocks.first().map_or(0, |block| block.head().begins);
        let ends = self.blocks.iter().map(|block| block.head().ends).max();
        (timestamp(begins), timestamp(ends.unwrap_or(begins)))
    }

    /// A moment of the recording, in microseconds since 1970.
    ///
    /// # Errors
    ///
    /// The text is no time.
    pub fn moment(&self, text: &str) -> Result<i64, Failure> {
        let time = moment(text, self.times(), &TimeZone::system())?;
        Ok(time.as_microsecond())
    }

    /// The content of a block; `None` if it is damaged, which is reported.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn content(&mut self, index: usize) -> Result<Option<Vec<u8>>, Failure> {
        let Some(block) = self.blocks.get(index).copied() else {
            return Ok(None);
        };
        let Some((path, file)) = self.files.get_mut(block.file) else {
            return Ok(None);
        };
        let mut stored = Vec::new();
        file.seek(SeekFrom::Start(block.place.offset + BLOCK_HEAD as u64))
            .and_then(|_| file.take(u64::from(block.head().stored)).read_to_end(&mut stored))
            .map_err(|error| cannot("read", path, &error))?;
        let content = block.head().unpack(&stored);
        if content.is_none() {
            self.report_damage(index, "is damaged; the recording goes on at the next keyframe");
        }
        Ok(content)
    }

    /// The start of the session that a block belongs to; `None` if it cannot be read.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn session_of(&mut self, index: usize) -> Result<Option<SessionHead>, Failure> {
        let before = self.blocks.get(..=index).unwrap_or_default();
        let Some(session) = before.last().map(|block| block.head().session) else {
            return Ok(None);
        };
        let starts =
            |block: &Block| block.head().kind == BlockKind::Session && block.head().session == session;
        match before.iter().rposition(starts) {
            Some(at) => self.session(at),
            None => Ok(None),
        }
    }

    /// The content of a session block; `None` if it cannot be read.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn session(&mut self, index: usize) -> Result<Option<SessionHead>, Failure> {
        let Some(content) = self.content(index)? else {
            return Ok(None);
        };
        let head = serde_json::from_slice(&content).ok();
        if head.is_none() {
            self.report_damage(index, "does not describe a session; what follows is skipped");
        }
        Ok(head)
    }

    /// The kinds of all sessions, without duplicates.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn kinds(&mut self) -> Result<Vec<crate::objects::kinds::Kind>, Failure> {
        let mut kinds = Vec::new();
        for index in 0..self.blocks.len() {
            if self
                .blocks
                .get(index)
                .is_some_and(|block| block.head().kind == BlockKind::Session)
                && let Some(session) = self.session(index)?
            {
                for kind in session.kinds {
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                }
            }
        }
        Ok(kinds)
    }
}

/// Microseconds since 1970 as a time; times that do not exist become 1970.
pub fn timestamp(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(microseconds).unwrap_or_default()
}
