//! A watch stream, split into its frames while it arrives.

use bytes::Bytes;

use super::chunks::Chunks;
use super::{Envelope, MAGIC};
use crate::error::Error;
use crate::raw::{self, Header};
use crate::wire;

/// How much of a frame that is too large is kept, to learn its type and key.
const PREFIX: usize = 4096;

/// The type of a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventType {
    /// The object was created, or it was there when the watch began.
    Added,
    /// The object was updated.
    Modified,
    /// The object was deleted.
    Deleted,
    /// The object has nothing but a resource version.
    Bookmark,
    /// The object is a `Status`, and the watch is over.
    Error,
    /// A type this crate does not know.
    Other(String),
}

impl EventType {
    fn parse(text: &str) -> Self {
        match text {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            other => Self::Other(other.chars().take(80).collect()),
        }
    }

    /// The type as on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
            Self::Other(other) => other,
        }
    }
}

/// A piece of a stream that is cut into frames: a four-byte big-endian length and as many bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// All of its bytes.
    Whole(Bytes),
    /// It is larger than the limit and was skipped.
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// Its first bytes.
        prefix: Bytes,
    },
}

/// Splits a stream into frames while it arrives. Holds at most one frame and the chunks not yet consumed.
#[derive(Debug)]
pub struct FrameSplitter {
    chunks: Chunks,
    max_frame_size: usize,
    /// The length of the current frame, once it is known.
    length: Option<usize>,
    /// How much of a frame that was too large is still to be skipped.
    skip: u64,
}

impl FrameSplitter {
    /// A splitter for one stream. Larger frames are skipped.
    pub fn new(max_frame_size: usize) -> Self {
        Self {
            chunks: Chunks::default(),
            max_frame_size,
            length: None,
            skip: 0,
        }
    }

    /// Adds the bytes that arrived next.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// Whether the stream is between two frames.
    pub fn is_at_boundary(&self) -> bool {
        self.chunks.is_empty() && self.length.is_none() && self.skip == 0
    }

    /// The next frame, or `None` if more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.skip -= self.chunks.skip(self.skip);
        if self.skip > 0 {
            return None;
        }
        let length = match self.length {
            Some(length) => length,
            None => {
                let head = self.chunks.take(4)?;
                let length = head.iter().fold(0, |n, &byte| n << 8 | usize::from(byte));
                *self.length.insert(length)
            }
        };
        let wanted = if length > self.max_frame_size {
            length.min(PREFIX)
        } else {
            length
        };
        let bytes = self.chunks.take(wanted)?;
        self.length = None;
        if length <= self.max_frame_size {
            return Some(Frame::Whole(bytes));
        }
        self.skip = (length - wanted) as u64;
        Some(Frame::TooLarge {
            size: length as u64,
            prefix: bytes,
        })
    }
}

/// An event of a watch stream.
#[derive(Clone, PartialEq, Eq)]
pub struct WatchFrame {
    /// The type of the event.
    pub event: EventType,
    /// The object as a whole body; see [`WatchFrame::envelope`].
    pub object: Bytes,
}

impl std::fmt::Debug for WatchFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WatchFrame({:?}, {} bytes)", self.event, self.object.len())
    }
}

impl WatchFrame {
    /// Reads a frame.
    ///
    /// # Errors
    ///
    /// The bytes are not a `WatchEvent`.
    pub fn parse(frame: &Bytes) -> Result<Self, Error> {
        let (mut event, mut object, mut rest) = (EventType::Other(String::new()), &[][..], &frame[..]);
        while let Some(part) = wire::next(&mut rest)? {
            match part.field {
                1 => event = EventType::parse(part.text()?),
                2 => {
                    let mut rest = part.message()?;
                    while let Some(part) = wire::next(&mut rest)? {
                        if part.field == 1 {
                            object = part.message()?;
                        }
                    }
                }
                _ => {}
            }
        }
        let object = if object.is_empty() {
            Bytes::new()
        } else {
            frame.slice_ref(object)
        };
        Ok(Self { event, object })
    }

    /// The object and its type.
    ///
    /// # Errors
    ///
    /// The object is not a protobuf body.
    pub fn envelope(&self) -> Result<Envelope<'_>, Error> {
        Envelope::parse(&self.object)
    }

    /// The bytes of the object's message, sharing memory with the frame.
    ///
    /// # Errors
    ///
    /// The object is not a protobuf body.
    pub fn raw(&self) -> Result<Bytes, Error> {
        let raw = self.envelope()?.raw;
        Ok(if raw.is_empty() {
            Bytes::new()
        } else {
            self.object.slice_ref(raw)
        })
    }
}

/// A watch event that is larger than the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The size of the frame.
    pub size: u64,
    prefix: Bytes,
}

impl Truncated {
    /// The type of the event, as far as it is known.
    pub fn event(&self) -> EventType {
        let mut rest = &self.prefix[..];
        match raw::next_of_prefix(&mut rest) {
            Some((1, text)) => EventType::parse(std::str::from_utf8(text).unwrap_or_default()),
            _ => EventType::Other(String::new()),
        }
    }

    /// What identifies the object, as far as it is known.
    pub fn header(&self) -> Header<'_> {
        // The object is in the event, the RawExtension and the Unknown around it.
        let object = within(&self.prefix, 2)
            .and_then(|extension| within(extension, 1))
            .and_then(|body| body.strip_prefix(&MAGIC))
            .and_then(|unknown| within(unknown, 2));
        object.map(raw::header_of_prefix).unwrap_or_default()
    }
}

fn within(prefix: &[u8], field: u32) -> Option<&[u8]> {
    let mut rest = prefix;
    while let Some((number, bytes)) = raw::next_of_prefix(&mut rest) {
        if number == field {
            return Some(bytes);
        }
    }
    None
}

/// Splits a watch stream into events while it arrives.
#[derive(Debug)]
pub struct WatchSplitter(FrameSplitter);

impl WatchSplitter {
    /// A splitter for one stream. Events larger than `max_event_size` are skipped.
    pub fn new(max_event_size: usize) -> Self {
        Self(FrameSplitter::new(max_event_size))
    }

    /// Adds the bytes that arrived next.
    pub fn push(&mut self, chunk: Bytes) {
        self.0.push(chunk);
    }

    /// Whether the stream is between two events.
    pub fn is_at_boundary(&self) -> bool {
        self.0.is_at_boundary()
    }

    /// The next event, or `None` if more bytes are needed. One that is too large is `Ok(Err(..))`.
    ///
    /// # Errors
    ///
    /// The stream is not one of watch events. It is of no further use.
    pub fn next_event(&mut self) -> Result<Option<Result<WatchFrame, Truncated>>, Error> {
        match self.0.next_frame() {
            Some(Frame::Whole(frame)) => Ok(Some(Ok(WatchFrame::parse(&frame)?))),
            Some(Frame::TooLarge { size, prefix }) => Ok(Some(Err(Truncated { size, prefix }))),
            None => Ok(None),
        }
    }
}
