//! Splits a watch body into frames while it arrives.
//!
//! A watch is a sequence of JSON objects, `{"type":…,"object":…}`, with or without newlines between them, in chunks
//! that end anywhere. A frame is returned after its last brace. An incomplete frame at the end of the stream is
//! discarded.

use bytes::Bytes;

use super::members::{Found, ItemReader, Members, RawItem, SplitError};
use super::scan::Scanner;

/// The size limit of a frame without its object.
const MAX_HEAD: usize = 64 << 10;

/// One complete frame.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// The frame with `null` instead of its object.
    pub head: &'a [u8],
    /// The object.
    pub object: Option<RawItem<'a>>,
}

/// Where the object of the current frame is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    None,
    /// In this range of the chunk.
    Chunk(usize, usize),
    /// In the buffer of the item reader.
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Outside,
    Skip,
    Object,
    /// After a frame that was returned.
    Done,
}

/// Splits one watch body.
#[derive(Debug)]
pub(crate) struct FrameSplitter {
    chunk: Bytes,
    at: usize,
    base: usize,
    position: Position,
    members: Members,
    scanner: Scanner,
    item: ItemReader,
    object: Location,
    head: Vec<u8>,
}

impl FrameSplitter {
    pub fn new(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            at: 0,
            base: 0,
            position: Position::Outside,
            members: Members::default(),
            scanner: Scanner::default(),
            item: ItemReader::new(limit),
            object: Location::None,
            head: Vec::new(),
        }
    }

    /// Adds the next bytes, after all frames of the previous chunk have been returned.
    pub fn push(&mut self, chunk: Bytes) {
        self.base += self.chunk.len();
        self.chunk = chunk;
        self.at = 0;
    }

    /// Returns the next frame; `None` when more bytes are needed.
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, SplitError> {
        if self.position == Position::Done {
            self.members.reset();
            self.head.clear();
            self.object = Location::None;
            self.position = Position::Outside;
        }
        while self.at < self.chunk.len() {
            match self.position {
                Position::Outside => match self.members.walk(&self.chunk, self.at) {
                    Found::More if self.members.is_at_start() => self.at = self.chunk.len(),
                    Found::More => self.keep_until(self.chunk.len())?,
                    Found::Unexpected(at) => {
                        return Err(self.members.unexpected(&self.chunk, self.base, at));
                    }
                    Found::Value(at) => self.value(at)?,
                    Found::Closed(end) => {
                        self.keep_until(end)?;
                        self.position = Position::Done;
                        return Ok(Some(self.frame()));
                    }
                },
                Position::Skip => {
                    let length = self.scanner.feed(self.chunk.get(self.at..).unwrap_or_default());
                    let end = length.map_or(self.chunk.len(), |length| self.at + length);
                    self.keep_until(end)?;
                    self.value_done(length.is_some());
                }
                Position::Object => {
                    let start = self.at;
                    let rest = self.chunk.get(start..).unwrap_or_default();
                    let length = self.item.feed(rest);
                    self.at = length.map_or(self.chunk.len(), |length| start + length);
                    if length.is_some() && self.object == Location::None {
                        self.object = Location::Chunk(start, self.at);
                    } else {
                        let part = rest.get(..self.at - start).unwrap_or_default();
                        self.item.hold(part);
                        self.object = Location::Held;
                    }
                    self.value_done(length.is_some());
                }
                Position::Done => break,
            }
        }
        // The object is complete and its frame is not: hold the object beyond the chunk.
        if let (Position::Outside | Position::Skip, Location::Chunk(start, end)) =
            (self.position, self.object)
        {
            self.item.hold(self.chunk.get(start..end).unwrap_or_default());
            self.object = Location::Held;
        }
        Ok(None)
    }

    fn value(&mut self, at: usize) -> Result<(), SplitError> {
        self.keep_until(at)?;
        if self.members.key().as_deref() != Some("object") {
            self.scanner.reset();
            self.position = Position::Skip;
            return Ok(());
        }
        if self.object != Location::None {
            return Err(SplitError::DuplicateMember("object"));
        }
        self.head.extend_from_slice(b"null");
        self.item.begin();
        self.position = Position::Object;
        Ok(())
    }

    fn value_done(&mut self, done: bool) {
        if done {
            self.members.value_done();
            self.position = Position::Outside;
        }
    }

    fn frame(&mut self) -> Frame<'_> {
        let object = match self.object {
            Location::None => None,
            Location::Chunk(start, end) => {
                Some(self.item.item(self.chunk.get(start..end).unwrap_or_default()))
            }
            Location::Held => Some(self.item.item(&[])),
        };
        Frame {
            head: &self.head,
            object,
        }
    }

    fn keep_until(&mut self, end: usize) -> Result<(), SplitError> {
        // Newlines between frames belong to none.
        let kept = self.chunk.get(self.at..end).unwrap_or_default();
        let kept = if self.head.is_empty() {
            kept.trim_ascii_start()
        } else {
            kept
        };
        self.head.extend_from_slice(kept);
        self.at = end;
        if self.head.len() > MAX_HEAD {
            return Err(SplitError::EnvelopeTooLarge(std::mem::take(&mut self.head)));
        }
        Ok(())
    }
}
