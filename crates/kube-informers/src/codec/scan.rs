//! Finds the end of one JSON value in a stream of bytes, and on the way where its identity stands.
//!
//! A byte machine without recursion and without a tree. It can stop at any byte and go on in the next chunk.
//! It does not judge: a value that is no valid JSON is found out when it is decoded.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// A range of bytes, counted from the first byte of the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    /// The bytes of this range, unless the value was cut off before its end.
    pub fn of<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        value.get(self.start..self.end)
    }

    /// The range as text, where it is the inside of a JSON string.
    pub fn text<'a>(&self, value: &'a [u8]) -> Option<Cow<'a, str>> {
        unescape(self.of(value)?)
    }
}

/// What sort of JSON value it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    #[default]
    Scalar,
    Text,
    Array,
    Object,
}

/// Where the interesting parts of an object are. Texts are ranges without their quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    pub shape: Shape,
    pub api_version: Option<Span>,
    pub kind: Option<Span>,
    pub name: Option<Span>,
    pub namespace: Option<Span>,
    pub uid: Option<Span>,
    pub resource_version: Option<Span>,
    /// `metadata.managedFields` with the comma that can go with it.
    pub managed_fields: Option<Span>,
}

/// The members we look for; each can stand at one level only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field {
    #[default]
    Other,
    ApiVersion,
    Kind,
    Metadata,
    Name,
    Namespace,
    Uid,
    ResourceVersion,
    ManagedFields,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Nothing seen yet.
    #[default]
    Start,
    /// In a number or a word.
    Scalar,
    /// Inside a string.
    Text,
    /// Between the members of the object itself, or of its metadata.
    Members,
    /// Deeper than anything of interest: only quotes and brackets count.
    Deep,
}

/// Longest key that is compared, with every character of the longest name written as an escape.
const LONGEST_KEY: usize = 128;

/// Finds the end of one value. Feed it from the value's first byte on.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    pub outline: Outline,
    mode: Mode,
    /// Bytes of earlier chunks.
    base: usize,
    /// Open brackets and braces.
    depth: usize,
    /// The depth whose members are looked at: 1 in an object, 2 in its metadata, 0 in anything else.
    floor: usize,
    /// The last byte was a backslash inside a string.
    escaped: bool,
    /// Where the string begins.
    text_start: usize,
    /// The part of a key that was in earlier chunks.
    carry: Vec<u8>,
    /// The member being scanned, where it begins, and whether its colon has been seen.
    field: Field,
    member_start: usize,
    colon: bool,
    /// The member's value, if it is a string.
    value: Option<Span>,
    /// The comma before this member.
    comma: Option<usize>,
    /// `managedFields` stood there more than once: then it is left alone.
    repeated: bool,
}

impl Scanner {
    /// Makes it ready for the next value, keeping its memory.
    pub fn reset(&mut self) {
        let carry = std::mem::take(&mut self.carry);
        *self = Self::default();
        self.carry = carry;
        self.carry.clear();
    }

    /// Takes bytes up to the end of the value: how many of them belong to it, or `None` when all of them do
    /// and the end has not come. A number or word ends before the first byte that is not part of it.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.mode {
                Mode::Start => {
                    at += 1;
                    self.start(rest.first().copied().unwrap_or_default());
                }
                Mode::Scalar => match rest.iter().position(|byte| ends_scalar(*byte)) {
                    Some(length) => return Some(at + length),
                    None => break,
                },
                Mode::Text => match string_end(rest, &mut self.escaped) {
                    Some(length) => {
                        at += length;
                        if self.depth == 0 {
                            return Some(at);
                        }
                        if self.depth == self.floor {
                            let tail = rest.get(..length - 1).unwrap_or_default();
                            self.end_text(tail, self.base + at - 1);
                            self.mode = Mode::Members;
                        } else {
                            self.mode = Mode::Deep;
                        }
                    }
                    None => {
                        self.carry_key(rest);
                        break;
                    }
                },
                Mode::Members => {
                    at = self.members(bytes, at);
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
                Mode::Deep => {
                    at = self.deep(bytes, at);
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
            }
        }
        self.base += bytes.len();
        None
    }

    fn start(&mut self, byte: u8) {
        (self.outline.shape, self.mode) = match byte {
            b'{' => (Shape::Object, Mode::Members),
            b'[' => (Shape::Array, Mode::Deep),
            b'"' => (Shape::Text, Mode::Text),
            _ => (Shape::Scalar, Mode::Scalar),
        };
        self.depth = usize::from(matches!(byte, b'{' | b'['));
        self.floor = usize::from(byte == b'{');
    }

    /// Goes through members until a string begins, a value goes deeper, or the object ends.
    fn members(&mut self, bytes: &[u8], mut at: usize) -> usize {
        while let Some(byte) = bytes.get(at) {
            let here = self.base + at;
            at += 1;
            match byte {
                b'"' => {
                    if !self.colon {
                        self.member_start = here;
                        self.carry.clear();
                    }
                    self.text_start = here + 1;
                    self.mode = Mode::Text;
                    return at;
                }
                b':' => self.colon = true,
                b',' => {
                    self.end_member(here, false);
                    self.comma = Some(here);
                }
                b'{' if self.colon && self.field == Field::Metadata => {
                    self.depth = 2;
                    self.floor = 2;
                    self.next_member();
                    self.comma = None;
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    self.mode = Mode::Deep;
                    return at;
                }
                b'}' | b']' => {
                    self.end_member(here, true);
                    self.depth -= 1;
                    self.floor = self.depth;
                    if self.depth == 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
        at
    }

    /// Goes through what lies deeper until it is left again.
    fn deep(&mut self, bytes: &[u8], mut at: usize) -> usize {
        let mut depth = self.depth;
        while let Some(byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'"' => match string_end(bytes.get(at..).unwrap_or_default(), &mut self.escaped) {
                    Some(length) => at += length,
                    None => {
                        self.mode = Mode::Text;
                        at = bytes.len();
                    }
                },
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == self.floor {
                        self.mode = Mode::Members;
                        break;
                    }
                }
                _ => {}
            }
        }
        self.depth = depth;
        at
    }

    /// A string between members has ended: it is a key before the colon and a value after it.
    fn end_text(&mut self, tail: &[u8], end: usize) {
        if self.colon {
            self.value = Some(Span {
                start: self.text_start,
                end,
            });
            return;
        }
        self.field = if self.carry.is_empty() {
            field(self.floor, tail)
        } else {
            self.carry_key(tail);
            field(self.floor, &self.carry)
        };
    }

    /// Keeps the part of a key that ends with a chunk. Keys too long to be of interest are kept no further.
    fn carry_key(&mut self, part: &[u8]) {
        if self.depth == self.floor && !self.colon {
            let room = (LONGEST_KEY + 1).saturating_sub(self.carry.len());
            self.carry.extend(part.iter().take(room));
        }
    }

    fn next_member(&mut self) {
        self.field = Field::Other;
        self.colon = false;
        self.value = None;
    }

    /// A comma, or the closing brace, ends the member.
    fn end_member(&mut self, here: usize, last: bool) {
        if self.colon {
            let outline = &mut self.outline;
            match self.field {
                Field::Other | Field::Metadata => {}
                Field::ApiVersion => outline.api_version = self.value,
                Field::Kind => outline.kind = self.value,
                Field::Name => outline.name = self.value,
                Field::Namespace => outline.namespace = self.value,
                Field::Uid => outline.uid = self.value,
                Field::ResourceVersion => outline.resource_version = self.value,
                Field::ManagedFields => {
                    // One comma goes with it: the one behind, or in front when there is none behind.
                    let (start, end) = match last {
                        false => (self.member_start, here + 1),
                        true => (self.comma.unwrap_or(self.member_start), here),
                    };
                    self.repeated |= outline.managed_fields.is_some();
                    outline.managed_fields = (!self.repeated).then_some(Span { start, end });
                }
            }
        }
        self.next_member();
    }
}

/// Which member a raw key names. At depth 1 it is one of the object, at depth 2 one of its metadata.
fn field(depth: usize, raw: &[u8]) -> Field {
    match (depth, raw) {
        (1, b"apiVersion") => Field::ApiVersion,
        (1, b"kind") => Field::Kind,
        (1, b"metadata") => Field::Metadata,
        (2, b"name") => Field::Name,
        (2, b"namespace") => Field::Namespace,
        (2, b"uid") => Field::Uid,
        (2, b"resourceVersion") => Field::ResourceVersion,
        (2, b"managedFields") => Field::ManagedFields,
        _ if raw.len() <= LONGEST_KEY && memchr(b'\\', raw).is_some() => match unescape(raw) {
            // What is unescaped may still contain a backslash: then it is no name of ours.
            Some(key) if !key.contains('\\') => field(depth, key.as_bytes()),
            _ => Field::Other,
        },
        _ => Field::Other,
    }
}

/// The text of a JSON string, given what stands between its quotes. `None` when it is no valid string.
pub(crate) fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    if memchr(b'\\', raw).is_none() {
        return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    serde_json::from_slice(&quoted).ok().map(Cow::Owned)
}

/// The length of the rest of a string, closing quote included; `None` when it goes on in the next chunk.
///
/// Most strings in an object are short, where a plain loop is faster; long ones are searched in large steps.
#[inline]
pub(crate) fn string_end(bytes: &[u8], escaped: &mut bool) -> Option<usize> {
    let mut at = usize::from(std::mem::take(escaped));
    let near = at + 16;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ if at < near => at += 1,
            _ => at += memchr2(b'"', b'\\', bytes.get(at..)?)?,
        }
    }
    // The byte after a backslash belongs to it, whichever it is.
    *escaped = at > bytes.len();
    None
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Whether a JSON value can begin with this byte.
pub(crate) fn starts_value(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b':' | b'{' | b'[' | b'"') || is_space(byte)
}
