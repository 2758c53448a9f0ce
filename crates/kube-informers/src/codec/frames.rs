//! Splits a watch body into its frames while it arrives.
//!
//! A watch is a sequence of JSON objects, `{"type":…,"object":…}`, with or without newlines between them, and
//! chunk borders mean nothing. A frame exists once its last brace has been seen; what is left over at the end
//! of the stream never happened.

use bytes::Bytes;

use super::members::{Broken, Found, ItemReader, Members, RawItem};
use super::scan::Scanner;

/// More than this around the object of a frame is no watch.
const LARGEST_HEAD: usize = 64 << 10;

/// One complete frame.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// The frame with `null` in the place of its object.
    pub head: &'a [u8],
    /// Its object.
    pub object: Option<RawItem<'a>>,
}

/// Where the object of the current frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    None,
    /// In this chunk, from here to there.
    Here(usize, usize),
    /// Held by the reader.
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    Skip,
    Object,
    /// The frame was handed out.
    Done,
}

/// Splits one watch body.
#[derive(Debug)]
pub(crate) struct FrameSplitter {
    chunk: Bytes,
    at: usize,
    base: usize,
    state: State,
    members: Members,
    scanner: Scanner,
    item: ItemReader,
    object: Object,
    head: Vec<u8>,
}

impl FrameSplitter {
    pub fn new(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            at: 0,
            base: 0,
            state: State::Outside,
            members: Members::default(),
            scanner: Scanner::default(),
            item: ItemReader::new(limit),
            object: Object::None,
            head: Vec::new(),
        }
    }

    /// The next bytes of the body. Take all frames of the chunk before it first.
    pub fn push(&mut self, chunk: Bytes) {
        self.base += self.chunk.len();
        self.chunk = chunk;
        self.at = 0;
    }

    /// The next frame; `None` when another chunk is needed for it.
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        if self.state == State::Done {
            self.members.reset();
            self.head.clear();
            self.object = Object::None;
            self.state = State::Outside;
        }
        while self.at < self.chunk.len() {
            match self.state {
                State::Outside => match self.members.walk(&self.chunk, self.at) {
                    Found::More if self.members.is_before() => self.at = self.chunk.len(),
                    Found::More => self.keep_until(self.chunk.len())?,
                    Found::Garbage(at) => {
                        return Err(self.members.broken(&self.chunk, self.base, at));
                    }
                    Found::Value(at) => self.value(at)?,
                    Found::Closed(end) => {
                        self.keep_until(end)?;
                        self.state = State::Done;
                        return Ok(Some(self.frame()));
                    }
                },
                State::Skip => {
                    let length = self.scanner.feed(self.chunk.get(self.at..).unwrap_or_default());
                    let end = length.map_or(self.chunk.len(), |length| self.at + length);
                    self.keep_until(end)?;
                    self.value_done(length.is_some());
                }
                State::Object => {
                    let start = self.at;
                    let rest = self.chunk.get(start..).unwrap_or_default();
                    let length = self.item.feed(rest);
                    self.at = length.map_or(self.chunk.len(), |length| start + length);
                    if length.is_some() && self.object == Object::None {
                        self.object = Object::Here(start, self.at);
                    } else {
                        let part = rest.get(..self.at - start).unwrap_or_default();
                        self.item.hold(part);
                        self.object = Object::Held;
                    }
                    self.value_done(length.is_some());
                }
                State::Done => break,
            }
        }
        // The object is complete and its frame is not: the chunk goes, the object must stay.
        if let (State::Outside | State::Skip, Object::Here(start, end)) = (self.state, self.object) {
            self.item.hold(self.chunk.get(start..end).unwrap_or_default());
            self.object = Object::Held;
        }
        Ok(None)
    }

    fn value(&mut self, at: usize) -> Result<(), Broken> {
        self.keep_until(at)?;
        if self.members.key().as_deref() != Some("object") {
            self.scanner.reset();
            self.state = State::Skip;
            return Ok(());
        }
        if self.object != Object::None {
            return Err(Broken::Twice("object"));
        }
        self.head.extend_from_slice(b"null");
        self.item.begin();
        self.state = State::Object;
        Ok(())
    }

    fn value_done(&mut self, done: bool) {
        if done {
            self.members.value_done();
            self.state = State::Outside;
        }
    }

    fn frame(&mut self) -> Frame<'_> {
        let object = match self.object {
            Object::None => None,
            Object::Here(start, end) => Some(self.item.item(self.chunk.get(start..end).unwrap_or_default())),
            Object::Held => Some(self.item.item(&[])),
        };
        Frame {
            head: &self.head,
            object,
        }
    }

    fn keep_until(&mut self, end: usize) -> Result<(), Broken> {
        // Newlines between frames are no part of any.
        let kept = self.chunk.get(self.at..end).unwrap_or_default();
        let kept = if self.head.is_empty() {
            kept.trim_ascii_start()
        } else {
            kept
        };
        self.head.extend_from_slice(kept);
        self.at = end;
        if self.head.len() > LARGEST_HEAD {
            return Err(Broken::Envelope(std::mem::take(&mut self.head)));
        }
        Ok(())
    }
}
