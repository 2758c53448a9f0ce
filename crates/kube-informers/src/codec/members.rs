//! What list bodies and watch frames have in common: a small object around large ones.
//!
//! `Members` walks the outer object and stops where a value begins; `ItemReader` collects one inner object,
//! copying it only when it crosses a chunk border and giving up its memory when it is over the limit.

use std::borrow::Cow;

use super::scan::{Outline, Scanner, is_space, starts_value, string_end, unescape};

/// What [`Members::walk`] came upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The end of the chunk.
    More,
    /// The first byte of a value, at this index.
    Value(usize),
    /// The end of the object, before this index.
    Closed(usize),
    /// A byte that cannot stand here, at this index.
    Garbage(usize),
}

/// Why a body cannot be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It does not begin with an object, but with this byte.
    NoObject(u8),
    /// A byte that cannot stand there, this many bytes into the body.
    Garbage(usize),
    /// Something follows where nothing can, this many bytes into the body.
    Trailing(usize),
    /// Two members of one name where there can be one.
    Twice(&'static str),
    /// Too much around the items; here is how it begins.
    Envelope(Vec<u8>),
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

/// Longest key that is kept; none of those looked for is longer, even with every character escaped.
const LONGEST_KEY: usize = 64;

/// Walks over the members of one object. Its values are the caller's to skip.
#[derive(Debug, Default)]
pub(crate) struct Members {
    expect: Expect,
    key: Vec<u8>,
    escaped: bool,
}

impl Members {
    /// Makes it ready for the next object.
    pub fn reset(&mut self) {
        self.expect = Expect::Open;
        self.escaped = false;
    }

    /// Whether nothing of the object has been seen yet.
    pub fn is_before(&self) -> bool {
        self.expect == Expect::Open
    }

    /// The key of the value found last.
    pub fn key(&self) -> Option<Cow<'_, str>> {
        (self.key.len() <= LONGEST_KEY)
            .then(|| unescape(&self.key))
            .flatten()
    }

    /// The caller has gone past the value.
    pub fn value_done(&mut self) {
        self.expect = Expect::CommaOrClose;
    }

    /// What to say of a byte that cannot stand there.
    pub fn broken(&self, chunk: &[u8], base: usize, at: usize) -> Broken {
        match chunk.get(at) {
            Some(byte) if self.is_before() => Broken::NoObject(*byte),
            _ => Broken::Garbage(base + at),
        }
    }

    /// Goes on from an index of a chunk.
    pub fn walk(&mut self, bytes: &[u8], mut at: usize) -> Found {
        while let Some(byte) = bytes.get(at).copied() {
            if self.expect == Expect::InKey {
                let rest = bytes.get(at..).unwrap_or_default();
                let end = string_end(rest, &mut self.escaped);
                let part = end.map_or(rest.len(), |end| end - 1);
                let room = (LONGEST_KEY + 1).saturating_sub(self.key.len());
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
                _ => return Found::Garbage(at),
            };
            at += 1;
        }
        Found::More
    }
}

/// One encoded object, as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawItem<'a> {
    /// Its bytes; only the first of them when it is over the limit.
    pub bytes: &'a [u8],
    /// What stands where in it.
    pub outline: Outline,
    /// Its whole size.
    pub size: usize,
    /// Whether it is over the limit.
    pub too_large: bool,
}

/// How much is kept of an object that is over the limit: enough for its identity.
const KEPT_OF_LARGE: usize = 1 << 20;

/// Collects one object at a time out of chunks.
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

    /// Forgets the last object and begins another.
    pub fn begin(&mut self) {
        self.scanner.reset();
        self.held.clear();
        // The memory of one huge object is not kept for the small ones after it.
        self.held.shrink_to(KEPT_OF_LARGE);
        self.size = 0;
    }

    /// Takes bytes up to the end of the object, as [`Scanner::feed`] does.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scanner.feed(bytes)
    }

    /// Keeps bytes of the object beyond their chunk.
    pub fn hold(&mut self, bytes: &[u8]) {
        self.size += bytes.len();
        if self.size <= self.limit {
            self.held.extend_from_slice(bytes);
        } else {
            let kept = KEPT_OF_LARGE.min(self.limit);
            if self.held.len() > kept {
                self.held.truncate(kept);
                self.held.shrink_to_fit();
            }
            let room = kept - self.held.len();
            self.held.extend(bytes.iter().take(room));
        }
    }

    /// The object, whose last bytes are these; they are all of it when nothing was held.
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
