//! A list body, split into its items while it arrives.

use bytes::Bytes;

use super::chunks::Chunks;
use super::{Envelope, MAGIC};
use crate::error::Error;
use crate::wire::{self, LENGTH_DELIMITED};

/// The largest type, list metadata or unknown field that is read.
const MAX_SMALL: u64 = 1 << 20;
/// How much of an item that is too large is kept, to learn its key.
const PREFIX: usize = 4096;

/// `meta/v1.ListMeta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListMeta {
    /// `resourceVersion`.
    pub resource_version: String,
    /// `continue`.
    pub continue_token: String,
    /// `remainingItemCount`.
    pub remaining_item_count: Option<i64>,
    /// `shardInfo.selector`.
    pub shard_selector: Option<String>,
}

impl ListMeta {
    /// List metadata with a resource version.
    pub fn new(resource_version: impl Into<String>) -> Self {
        Self {
            resource_version: resource_version.into(),
            ..Self::default()
        }
    }

    /// Reads the bytes of a `ListMeta` message.
    ///
    /// # Errors
    ///
    /// The bytes are malformed.
    pub fn parse(mut rest: &[u8]) -> Result<Self, Error> {
        let mut meta = Self::default();
        while let Some(part) = wire::next(&mut rest)? {
            match part.field {
                2 => meta.resource_version = part.text()?.to_owned(),
                3 => meta.continue_token = part.text()?.to_owned(),
                4 => meta.remaining_item_count = Some(part.number.cast_signed()),
                5 => {
                    let (mut selector, mut rest) = ("", part.message()?);
                    while let Some(part) = wire::next(&mut rest)? {
                        if part.field == 1 {
                            selector = part.text()?;
                        }
                    }
                    meta.shard_selector = Some(selector.to_owned());
                }
                _ => {}
            }
        }
        Ok(meta)
    }

    /// The bytes of the message, as Go writes them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_bytes(&mut out, 1, b"");
        wire::put_bytes(&mut out, 2, self.resource_version.as_bytes());
        wire::put_bytes(&mut out, 3, self.continue_token.as_bytes());
        if let Some(count) = self.remaining_item_count {
            wire::put_tag(&mut out, 4, wire::VARINT);
            wire::put_varint(&mut out, count.cast_unsigned());
        }
        if let Some(selector) = &self.shard_selector {
            let mut shard = Vec::new();
            wire::put_bytes(&mut shard, 1, selector.as_bytes());
            wire::put_bytes(&mut out, 5, &shard);
        }
        out
    }
}

/// An item of a list.
#[derive(Clone, PartialEq, Eq)]
pub enum ListItem {
    /// The bytes of its message.
    Object(Bytes),
    /// It is larger than the limit and was skipped.
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// Its first bytes, for [`raw::header_of_prefix`](crate::raw::header_of_prefix).
        prefix: Bytes,
    },
}

impl std::fmt::Debug for ListItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(bytes) => write!(f, "Object({} bytes)", bytes.len()),
            Self::TooLarge { size, .. } => write!(f, "TooLarge({size} bytes)"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    Magic,
    /// Between the fields of the envelope.
    Envelope,
    /// Between the fields of the list; so many bytes of it are left.
    List(u64),
    /// A field is skipped; so many bytes are left of it, and then of the list if it is within the list.
    Skip {
        left: u64,
        list: Option<u64>,
    },
    /// An item is collected; so many bytes of the list follow it.
    Item {
        length: usize,
        list: u64,
    },
    /// Nothing more is expected of this body.
    Failed,
}

/// Splits a list body into its items while it arrives. Holds at most one item and the chunks not yet consumed.
#[derive(Debug)]
pub struct ListSplitter {
    chunks: Chunks,
    state: ListState,
    max_item_size: usize,
    api_version: String,
    kind: String,
    meta: ListMeta,
    has_list: bool,
}

/// A field to read in one piece.
enum Field {
    Bytes(u32, u64, usize),
    Other,
    Incomplete,
}

impl ListSplitter {
    /// A splitter for one body. Items larger than `max_item_size` are skipped.
    pub fn new(max_item_size: usize) -> Self {
        Self {
            chunks: Chunks::default(),
            state: ListState::Magic,
            max_item_size,
            api_version: String::new(),
            kind: String::new(),
            meta: ListMeta::default(),
            has_list: false,
        }
    }

    /// Adds the bytes that arrived next.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// The API version of the list; empty until it has arrived, which is before the first item.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind of the list, such as `PodList`; empty until it has arrived, which is before the first item.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The list metadata as far as it has arrived. API servers send it before the items.
    pub fn meta(&self) -> &ListMeta {
        &self.meta
    }

    /// The next item, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// The body is not a list. It is of no further use.
    pub fn next_item(&mut self) -> Result<Option<ListItem>, Error> {
        let result = self.advance();
        if result.is_err() {
            self.state = ListState::Failed;
        }
        result
    }

    /// Ends the body, and returns the list metadata.
    ///
    /// # Errors
    ///
    /// The body is incomplete or not a list.
    pub fn finish(self) -> Result<ListMeta, Error> {
        if self.state == ListState::Envelope && self.chunks.is_empty() && self.has_list {
            return Ok(self.meta);
        }
        Err(Error::malformed("the list ends too early"))
    }

    fn check_kind(&self) -> Result<(), Error> {
        if self.kind.ends_with("List") {
            Ok(())
        } else {
            Err(Error::not_a_list(&self.kind))
        }
    }

    fn advance(&mut self) -> Result<Option<ListItem>, Error> {
        loop {
            match self.state {
                ListState::Failed => return Err(Error::malformed("the body is not a list")),
                ListState::Magic => match self.chunks.take(4) {
                    Some(magic) if magic[..] == MAGIC => self.state = ListState::Envelope,
                    Some(_) => return Err(Error::malformed("the body does not start with k8s\\0")),
                    None => return Ok(None),
                },
                ListState::Skip { left, list } => {
                    let left = left - self.chunks.skip(left);
                    if left > 0 {
                        self.state = ListState::Skip { left, list };
                        return Ok(None);
                    }
                    self.state = list.map_or(ListState::Envelope, ListState::List);
                }
                ListState::Envelope => {
                    if !self.advance_envelope()? {
                        return Ok(None);
                    }
                }
                ListState::Item { length, list } => {
                    let Some(item) = self.chunks.take(length) else {
                        return Ok(None);
                    };
                    self.state = ListState::List(list);
                    return Ok(Some(ListItem::Object(item)));
                }
                ListState::List(0) => self.state = ListState::Envelope,
                ListState::List(left) => match self.advance_list(left)? {
                    Some(Some(item)) => return Ok(Some(item)),
                    Some(None) => {}
                    None => return Ok(None),
                },
            }
        }
    }

    /// The tag and length of the next field, without consuming them.
    fn field(&self) -> Result<Field, Error> {
        let Some((tag, tag_len)) = self.chunks.peek_varint(0)? else {
            return Ok(Field::Incomplete);
        };
        if tag & 7 != u64::from(LENGTH_DELIMITED) {
            return Ok(Field::Other);
        }
        let number = u32::try_from(tag >> 3).map_err(|_| Error::malformed("invalid field number"))?;
        match self.chunks.peek_varint(tag_len)? {
            Some((length, length_len)) => Ok(Field::Bytes(number, length, tag_len + length_len)),
            None => Ok(Field::Incomplete),
        }
    }

    /// Reads a field of the envelope. False if more bytes are needed.
    fn advance_envelope(&mut self) -> Result<bool, Error> {
        match self.field()? {
            Field::Incomplete => return Ok(false),
            Field::Other => return Err(Error::wire_type("a length-delimited field")),
            Field::Bytes(2, length, head) => {
                if !self.kind.is_empty() {
                    self.check_kind()?;
                } else {
                    return Err(Error::malformed("the list has no type"));
                }
                if self.has_list {
                    return Err(Error::malformed("the body has two lists"));
                }
                self.has_list = true;
                self.chunks.skip(head as u64);
                self.state = ListState::List(length);
            }
            Field::Bytes(1, length, head) if length <= MAX_SMALL => {
                let Some(types) = self.small(head, length) else {
                    return Ok(false);
                };
                let mut envelope = Envelope {
                    api_version: "",
                    kind: "",
                    raw: &[],
                };
                envelope.set_type_meta(&types)?;
                (self.api_version, self.kind) = (envelope.api_version.to_owned(), envelope.kind.to_owned());
            }
            Field::Bytes(1, ..) => return Err(Error::too_large(MAX_SMALL as usize)),
            Field::Bytes(3, 1.., _) => return Err(Error::malformed("the content has an unknown encoding")),
            Field::Bytes(_, length, head) => {
                self.chunks.skip(head as u64);
                self.state = ListState::Skip {
                    left: length,
                    list: None,
                };
            }
        }
        Ok(true)
    }

    /// A small field as one piece, once all of it has arrived.
    fn small(&mut self, head: usize, length: u64) -> Option<Bytes> {
        if ((self.chunks.len() - head) as u64) < length {
            return None;
        }
        self.chunks.skip(head as u64);
        self.chunks.take(length as usize)
    }

    /// Reads a field of the list. `None` if more bytes are needed.
    fn advance_list(&mut self, left: u64) -> Result<Option<Option<ListItem>>, Error> {
        let (number, length, head) = match self.field()? {
            Field::Bytes(number, length, head) => (number, length, head),
            Field::Incomplete => return Ok(None),
            Field::Other => return self.skip_number(left),
        };
        let rest = left
            .checked_sub(head as u64)
            .and_then(|left| left.checked_sub(length))
            .ok_or_else(|| Error::malformed("an item is longer than its list"))?;
        match number {
            1 if length > MAX_SMALL => Err(Error::too_large(MAX_SMALL as usize)),
            1 => {
                let Some(meta) = self.small(head, length) else {
                    return Ok(None);
                };
                self.meta = ListMeta::parse(&meta)?;
                self.state = ListState::List(rest);
                Ok(Some(None))
            }
            2 if length > self.max_item_size as u64 => {
                let prefix = (length as usize).min(PREFIX);
                let Some(prefix) = self.small(head, prefix as u64) else {
                    return Ok(None);
                };
                self.state = ListState::Skip {
                    left: length - prefix.len() as u64,
                    list: Some(rest),
                };
                Ok(Some(Some(ListItem::TooLarge { size: length, prefix })))
            }
            2 => {
                self.chunks.skip(head as u64);
                self.state = ListState::Item {
                    length: length as usize,
                    list: rest,
                };
                Ok(Some(None))
            }
            _ => {
                self.chunks.skip(head as u64);
                self.state = ListState::Skip {
                    left: length,
                    list: Some(rest),
                };
                Ok(Some(None))
            }
        }
    }

    /// Skips an unknown field that is a number.
    fn skip_number(&mut self, left: u64) -> Result<Option<Option<ListItem>>, Error> {
        let Some((tag, tag_len)) = self.chunks.peek_varint(0)? else {
            return Ok(None);
        };
        let length = match (tag & 7) as u8 {
            wire::VARINT => match self.chunks.peek_varint(tag_len)? {
                Some((_, length)) => length,
                None => return Ok(None),
            },
            wire::FIXED64 => 8,
            wire::FIXED32 => 4,
            _ => return Err(Error::malformed("invalid wire type")),
        };
        let total = (tag_len + length) as u64;
        let rest = left
            .checked_sub(total)
            .ok_or_else(|| Error::malformed("a field is longer than its list"))?;
        self.state = ListState::Skip {
            left: total,
            list: Some(rest),
        };
        Ok(Some(None))
    }
}
