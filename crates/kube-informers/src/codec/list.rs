//! Splits a list body into its items while it arrives.
//!
//! Chunks in, items out; what stands around the items is kept in a small buffer and given back at the end.
//! The body is never held as a whole: an item inside one chunk is a slice of it, and only an item across
//! chunks is copied. Items are found, not judged.

use bytes::Bytes;

use super::members::{Broken, Found, ItemReader, Members, RawItem};
use super::scan::{Scanner, is_space, starts_value};

/// More than this around the items is no list.
const LARGEST_ENVELOPE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the outer object, between values.
    Outside,
    /// In a value that is not `items`.
    Skip,
    /// Behind `[`, or behind a comma (then an item must follow), or behind an item.
    First,
    Next,
    After,
    /// In an item.
    Item,
    /// Behind the outer object.
    End,
}

/// Splits one list body.
#[derive(Debug)]
pub(crate) struct ListSplitter {
    chunk: Bytes,
    at: usize,
    /// Bytes of earlier chunks.
    base: usize,
    state: State,
    members: Members,
    scanner: Scanner,
    item: ItemReader,
    /// The body without its items.
    envelope: Vec<u8>,
    seen_items: bool,
}

impl ListSplitter {
    pub fn new(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            at: 0,
            base: 0,
            state: State::Outside,
            members: Members::default(),
            scanner: Scanner::default(),
            item: ItemReader::new(limit),
            envelope: Vec::new(),
            seen_items: false,
        }
    }

    /// The next bytes of the body. Take all items of the chunk before it first.
    pub fn push(&mut self, chunk: Bytes) {
        self.base += self.chunk.len();
        self.chunk = chunk;
        self.at = 0;
    }

    /// The next item; `None` when another chunk is needed for it.
    pub fn next(&mut self) -> Result<Option<RawItem<'_>>, Broken> {
        while let Some(byte) = self.chunk.get(self.at).copied() {
            match self.state {
                State::Outside => self.outside()?,
                State::Skip => {
                    let length = self.scanner.feed(self.chunk.get(self.at..).unwrap_or_default());
                    let end = length.map_or(self.chunk.len(), |length| self.at + length);
                    self.keep_until(end)?;
                    if length.is_some() {
                        self.members.value_done();
                        self.state = State::Outside;
                    }
                }
                State::Item => {
                    let start = self.at;
                    let rest = self.chunk.get(start..).unwrap_or_default();
                    match self.item.feed(rest) {
                        None => {
                            self.item.hold(rest);
                            self.at = self.chunk.len();
                        }
                        Some(length) => {
                            self.at = start + length;
                            self.state = State::After;
                            let tail = self.chunk.get(start..self.at).unwrap_or_default();
                            return Ok(Some(self.item.item(tail)));
                        }
                    }
                }
                _ if is_space(byte) => self.at += 1,
                State::First | State::Next if starts_value(byte) => {
                    self.item.begin();
                    self.state = State::Item;
                }
                State::First | State::After if byte == b']' => {
                    self.keep_until(self.at + 1)?;
                    self.members.value_done();
                    self.state = State::Outside;
                }
                State::After if byte == b',' => {
                    self.at += 1;
                    self.state = State::Next;
                }
                State::End => return Err(Broken::Trailing(self.base + self.at)),
                _ => return Err(Broken::Garbage(self.base + self.at)),
            }
        }
        Ok(None)
    }

    /// The body without its items, if it is complete.
    pub fn envelope(&self) -> Option<&[u8]> {
        (self.state == State::End).then_some(&self.envelope)
    }

    /// How many bytes have been seen.
    pub fn size(&self) -> usize {
        self.base + self.chunk.len()
    }

    fn outside(&mut self) -> Result<(), Broken> {
        match self.members.walk(&self.chunk, self.at) {
            Found::More => self.keep_until(self.chunk.len()),
            Found::Closed(end) => {
                self.state = State::End;
                self.keep_until(end)
            }
            Found::Garbage(at) => Err(self.members.broken(&self.chunk, self.base, at)),
            Found::Value(at) => {
                self.keep_until(at)?;
                let is_items = self.members.key().as_deref() == Some("items");
                if is_items && std::mem::replace(&mut self.seen_items, true) {
                    return Err(Broken::Twice("items"));
                }
                if is_items && self.chunk.get(at) == Some(&b'[') {
                    self.state = State::First;
                    return self.keep_until(at + 1);
                }
                self.scanner.reset();
                self.state = State::Skip;
                Ok(())
            }
        }
    }

    fn keep_until(&mut self, end: usize) -> Result<(), Broken> {
        self.envelope
            .extend_from_slice(self.chunk.get(self.at..end).unwrap_or_default());
        self.at = end;
        if self.envelope.len() > LARGEST_ENVELOPE {
            return Err(Broken::Envelope(std::mem::take(&mut self.envelope)));
        }
        Ok(())
    }
}
