//! Splits a list body into items while it arrives.
//!
//! Chunks in, items out. The rest of the body, the envelope, is kept and returned at the end. The body is never
//! held as a whole: an item within one chunk is a slice of it, and only an item that spans chunks is copied. Items
//! are not validated.

use bytes::Bytes;

use super::members::{Found, ItemReader, Members, RawItem, SplitError};
use super::scan::{Scanner, is_space, starts_value};

/// The size limit of the body without its items.
const MAX_ENVELOPE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// In the envelope, between values.
    Outside,
    /// In a value of the envelope.
    Skip,
    /// After `[`, after a comma (an item must follow), or after an item.
    First,
    Next,
    After,
    /// In an item.
    Item,
    /// After the envelope.
    End,
}

/// Splits one list body.
#[derive(Debug)]
pub(crate) struct ListSplitter {
    chunk: Bytes,
    at: usize,
    /// The size of the earlier chunks.
    base: usize,
    position: Position,
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
            position: Position::Outside,
            members: Members::default(),
            scanner: Scanner::default(),
            item: ItemReader::new(limit),
            envelope: Vec::new(),
            seen_items: false,
        }
    }

    /// Adds the next bytes, after all items of the previous chunk have been returned.
    pub fn push(&mut self, chunk: Bytes) {
        self.base += self.chunk.len();
        self.chunk = chunk;
        self.at = 0;
    }

    /// Returns the next item; `None` when more bytes are needed.
    pub fn next(&mut self) -> Result<Option<RawItem<'_>>, SplitError> {
        while let Some(byte) = self.chunk.get(self.at).copied() {
            match self.position {
                Position::Outside => self.outside()?,
                Position::Skip => {
                    let length = self.scanner.feed(self.chunk.get(self.at..).unwrap_or_default());
                    let end = length.map_or(self.chunk.len(), |length| self.at + length);
                    self.keep_until(end)?;
                    if length.is_some() {
                        self.members.value_done();
                        self.position = Position::Outside;
                    }
                }
                Position::Item => {
                    let start = self.at;
                    let rest = self.chunk.get(start..).unwrap_or_default();
                    match self.item.feed(rest) {
                        None => {
                            self.item.hold(rest);
                            self.at = self.chunk.len();
                        }
                        Some(length) => {
                            self.at = start + length;
                            self.position = Position::After;
                            let tail = self.chunk.get(start..self.at).unwrap_or_default();
                            return Ok(Some(self.item.item(tail)));
                        }
                    }
                }
                _ if is_space(byte) => self.at += 1,
                Position::First | Position::Next if starts_value(byte) => {
                    self.item.begin();
                    self.position = Position::Item;
                }
                Position::First | Position::After if byte == b']' => {
                    self.keep_until(self.at + 1)?;
                    self.members.value_done();
                    self.position = Position::Outside;
                }
                Position::After if byte == b',' => {
                    self.at += 1;
                    self.position = Position::Next;
                }
                Position::End => return Err(SplitError::TrailingData(self.base + self.at)),
                _ => return Err(SplitError::UnexpectedByte(self.base + self.at)),
            }
        }
        Ok(None)
    }

    /// The body without its items, if the body is complete.
    pub fn envelope(&self) -> Option<&[u8]> {
        (self.position == Position::End).then_some(&self.envelope)
    }

    /// The number of bytes received.
    pub fn size(&self) -> usize {
        self.base + self.chunk.len()
    }

    fn outside(&mut self) -> Result<(), SplitError> {
        match self.members.walk(&self.chunk, self.at) {
            Found::More => self.keep_until(self.chunk.len()),
            Found::Closed(end) => {
                self.position = Position::End;
                self.keep_until(end)
            }
            Found::Unexpected(at) => Err(self.members.unexpected(&self.chunk, self.base, at)),
            Found::Value(at) => {
                self.keep_until(at)?;
                let is_items = self.members.key().as_deref() == Some("items");
                if is_items && std::mem::replace(&mut self.seen_items, true) {
                    return Err(SplitError::DuplicateMember("items"));
                }
                if is_items && self.chunk.get(at) == Some(&b'[') {
                    self.position = Position::First;
                    return self.keep_until(at + 1);
                }
                self.scanner.reset();
                self.position = Position::Skip;
                Ok(())
            }
        }
    }

    fn keep_until(&mut self, end: usize) -> Result<(), SplitError> {
        self.envelope
            .extend_from_slice(self.chunk.get(self.at..end).unwrap_or_default());
        self.at = end;
        if self.envelope.len() > MAX_ENVELOPE {
            return Err(SplitError::EnvelopeTooLarge(std::mem::take(&mut self.envelope)));
        }
        Ok(())
    }
}
