//! The common parts of the list splitter and the frame splitter. Both read a small object around large ones.
//!
//! `Members` walks the outer object and stops at the start of each value. `ItemReader` collects one inner object. It
//! copies the object only if it spans chunks, and stops holding it when it exceeds the limit.

use std::borrow::Cow;

use super::scan::{Outline, Scanner, is_space, starts_value, string_end, unescape};

/// What [`Members::walk`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The end of the chunk.
    More,
    /// The first byte of a value at this index.
    Value(usize),
    /// The end of the object before this index.
    Closed(usize),
    /// An unexpected byte at this index.
    Unexpected(usize),
}

/// Why a body cannot be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SplitError {
    /// The body does not start with an object, but with this byte.
    NotAnObject(u8),
    /// An unexpected byte at this offset of the body.
    UnexpectedByte(usize),
    /// Data after the end of the list, at this offset of the body.
    TrailingData(usize),
    /// Two members with this name.
    DuplicateMember(&'static str),
    /// Too much data around the items. Holds the beginning of it.
    EnvelopeTooLarge(Vec<u8>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Open,
    KeyOrClose,
    Key,
    InKey,
    Colon,
    Value,
    CommaOrClose,
}

/// The length to which keys are kept. The keys of interest are shorter, even with every character escaped.
const MAX_KEY: usize = 64;

/// Walks over the members of one object. The caller skips the values.
#[derive(Debug, Default)]
pub(crate) struct Members {
    expect: Expect,
    key: Vec<u8>,
    escaped: bool,
}

impl Members {
    /// Prepares for the next object.
    pub fn reset(&mut self) {
        self.expect = Expect::Open;
        self.escaped = false;
    }

    /// Whether no byte of the object has been read yet.
    pub fn is_at_start(&self) -> bool {
        self.expect == Expect::Open
    }

    /// The key of the last value found.
    pub fn key(&self) -> Option<Cow<'_, str>> {
        (self.key.len() <= MAX_KEY).then(|| unescape(&self.key)).flatten()
    }

    /// The caller has skipped the value.
    pub fn value_done(&mut self) {
        self.expect = Expect::CommaOrClose;
    }

    /// The error for an unexpected byte.
    pub fn unexpected(&self, chunk: &[u8], base: usize, at: usize) -> SplitError {
        match chunk.get(at) {
            Some(byte) if self.is_at_start() => SplitError::NotAnObject(*byte),
            _ => SplitError::UnexpectedByte(base + at),
        }
    }

    /// Continues at an index of a chunk.
    pub fn walk(&mut self, bytes: &[u8], mut at: usize) -> Found {
        while let Some(byte) = bytes.get(at).copied() {
            if self.expect == Expect::InKey {
                let rest = bytes.get(at..).unwrap_or_default();
                let end = string_end(rest, &mut self.escaped);
                let part = end.map_or(rest.len(), |end| end - 1);
                let room = (MAX_KEY + 1).saturating_sub(self.key.len());
                self.key.extend(rest.iter().take(part.min(room)));
                match end {
                    Some(end) => at += end,
                    None => return Found::More,
                }
                self.expect = Expect::Colon;
                continue;
            }
            if is_space(byte) {
                at += 1;
                continue;
            }
            self.expect = match (self.expect, byte) {
                (Expect::Open, b'{') => Expect::KeyOrClose,
                (Expect::KeyOrClose | Expect::Key, b'"') => {
                    self.key.clear();
                    Expect::InKey
                }
                (Expect::KeyOrClose | Expect::CommaOrClose, b'}') => return Found::Closed(at + 1),
                (Expect::Colon, b':') => Expect::Value,
                (Expect::Value, _) if starts_value(byte) => return Found::Value(at),
                (Expect::CommaOrClose, b',') => Expect::Key,
                _ => return Found::Unexpected(at),
            };
            at += 1;
        }
        Found::More
    }
}

/// One encoded object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawItem<'a> {
    /// The bytes. Only the first of them if the object is over the limit.
    pub bytes: &'a [u8],
    /// The positions of its identity.
    pub outline: Outline,
    /// The full size.
    pub size: usize,
    /// Whether the object is over the limit.
    pub too_large: bool,
}

/// How many bytes are kept of an object over the limit: enough for its identity.
const MAX_PREFIX: usize = 1 << 20;

/// Collects one object at a time from chunks.
#[derive(Debug)]
pub(crate) struct ItemReader {
    scanner: Scanner,
    held: Vec<u8>,
    size: usize,
    limit: usize,
}

impl ItemReader {
    pub fn new(limit: usize) -> Self {
        Self {
            scanner: Scanner::default(),
            held: Vec::new(),
            size: 0,
            limit,
        }
    }

    /// Starts the next object.
    pub fn begin(&mut self) {
        self.scanner.reset();
        self.held.clear();
        // Frees the memory of a huge object.
        self.held.shrink_to(MAX_PREFIX);
        self.size = 0;
    }

    /// Consumes bytes up to the end of the object, like [`Scanner::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scanner.feed(bytes)
    }

    /// Holds bytes of the object beyond the lifetime of their chunk.
    pub fn hold(&mut self, bytes: &[u8]) {
        self.size += bytes.len();
        if self.size <= self.limit {
            self.held.extend_from_slice(bytes);
        } else {
            let kept = MAX_PREFIX.min(self.limit);
            if self.held.len() > kept {
                self.held.truncate(kept);
                self.held.shrink_to_fit();
            }
            let room = kept - self.held.len();
            self.held.extend(bytes.iter().take(room));
        }
    }

    /// Returns the object, given its last bytes, or all of them if none are held.
    pub fn item<'a>(&'a mut self, tail: &'a [u8]) -> RawItem<'a> {
        if self.size == 0 {
            return RawItem {
                bytes: tail,
                outline: self.scanner.outline,
                size: tail.len(),
                too_large: tail.len() > self.limit,
            };
        }
        self.hold(tail);
        RawItem {
            bytes: &self.held,
            outline: self.scanner.outline,
            size: self.size,
            too_large: self.size > self.limit,
        }
    }
}
