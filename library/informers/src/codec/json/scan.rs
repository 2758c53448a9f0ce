//! Finds the end of one JSON value in a stream of bytes, and the position of its identity.
//!
//! A state machine over bytes, without recursion and without a tree. It can stop at any byte and continue in the
//! next chunk. It does not validate: invalid JSON is detected when the value is decoded.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// A range of bytes, relative to the first byte of the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    /// The bytes of this range, unless the value is truncated before its end.
    pub fn of<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        value.get(self.start..self.end)
    }

    /// The range as text, if it is the contents of a JSON string.
    pub fn text<'a>(&self, value: &'a [u8]) -> Option<Cow<'a, str>> {
        unescape(self.of(value)?)
    }
}

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    #[default]
    Scalar,
    Text,
    Array,
    Object,
}

/// The positions of the parts of interest. Ranges of strings exclude the quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    pub shape: Shape,
    pub api_version: Option<Span>,
    pub kind: Option<Span>,
    pub name: Option<Span>,
    pub namespace: Option<Span>,
    pub uid: Option<Span>,
    pub resource_version: Option<Span>,
    /// `metadata.managedFields`, including one adjacent comma.
    pub managed_fields: Option<Span>,
}

/// The members of interest. Each exists at one level only.
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
    /// Before the first byte.
    #[default]
    Start,
    /// In a number or a literal.
    Scalar,
    /// In a string.
    Text,
    /// Between the members of the object or of its metadata.
    Members,
    /// In a nested value, where only quotes and brackets matter.
    Deep,
}

/// The length to which keys are compared: that of the longest name with every character escaped.
const MAX_KEY: usize = 128;

/// Finds the end of one value. The first byte fed is the first byte of the value.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    pub outline: Outline,
    mode: Mode,
    /// The size of the earlier chunks.
    base: usize,
    /// The number of open brackets and braces.
    depth: usize,
    /// The depth whose members are examined: 1 in an object, 2 in its metadata, 0 in any other value.
    floor: usize,
    /// The previous byte was a backslash in a string.
    escaped: bool,
    /// The start of the current string.
    text_start: usize,
    /// The part of the current key in earlier chunks.
    carry: Vec<u8>,
    /// The current member, its start, and whether its colon has been read.
    field: Field,
    member_start: usize,
    colon: bool,
    /// The value of the current member, if it is a string.
    value: Option<Span>,
    /// The comma before the current member.
    comma: Option<usize>,
    /// `managedFields` occurs more than once. It is then not removed.
    repeated: bool,
}

impl Scanner {
    /// Prepares for the next value. Keeps the allocation.
    pub fn reset(&mut self) {
        let carry = std::mem::take(&mut self.carry);
        *self = Self::default();
        self.carry = carry;
        self.carry.clear();
    }

    /// Consumes bytes up to the end of the value and returns their number; `None` if the value continues in the next
    /// chunk. A number or literal ends before the first byte that is not part of it.
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

    /// Scans members until a string starts, a nested value starts, or the object ends.
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

    /// Scans a nested value to its end.
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

    /// Handles the end of a string at member level: a key before the colon, a value after it.
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

    /// Keeps the part of a key at the end of a chunk, up to the length of interest.
    fn carry_key(&mut self, part: &[u8]) {
        if self.depth == self.floor && !self.colon {
            let room = (MAX_KEY + 1).saturating_sub(self.carry.len());
            self.carry.extend(part.iter().take(room));
        }
    }

    fn next_member(&mut self) {
        self.field = Field::Other;
        self.colon = false;
        self.value = None;
    }

    /// Handles the end of a member: a comma or the closing brace.
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
                    // Includes one comma: the one after it, or the one before it in the last member.
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

/// The member a raw key names: of the object at depth 1, of its metadata at depth 2.
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
        _ if raw.len() <= MAX_KEY && memchr(b'\\', raw).is_some() => match unescape(raw) {
            // A key that contains a backslash after unescaping is none of these.
            Some(key) if !key.contains('\\') => field(depth, key.as_bytes()),
            _ => Field::Other,
        },
        _ => Field::Other,
    }
}

/// The text of a JSON string, given the bytes between its quotes. `None` if the string is invalid.
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

/// The length of the rest of a string including the closing quote; `None` if it continues in the next chunk.
///
/// Most strings are short, where a plain loop is faster than `memchr`.
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
    // The byte after a backslash is always part of the string.
    *escaped = at > bytes.len();
    None
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Whether a JSON value can start with this byte.
pub(crate) fn starts_value(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b':' | b'{' | b'[' | b'"') || is_space(byte)
}
