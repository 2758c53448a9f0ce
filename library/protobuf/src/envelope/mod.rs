//! Bodies of requests and responses: objects, lists and watch streams.
//!
//! An object is the magic `k8s\0` and a `runtime.Unknown` message, which holds the type and the bytes of the object.
//! [`ListSplitter`] and [`WatchSplitter`] take chunks as they arrive and return items and frames one by one.

mod chunks;
mod list;
mod watch;

use serde::de::DeserializeOwned;

pub use list::{ListItem, ListMeta, ListSplitter};
pub use watch::{EventType, Frame, FrameSplitter, Truncated, WatchFrame, WatchSplitter};

use crate::de::{self, Options, TypeMeta};
use crate::error::Error;
pub use crate::head::{MAGIC, to_body};
use crate::head::{TAIL, write_head};
use crate::schema::{self, Message};
use crate::wire;

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watch streams.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// An object and its type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Group and version, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind, such as `Deployment`.
    pub kind: &'a str,
    /// The bytes of the object's message.
    pub raw: &'a [u8],
}

impl std::fmt::Debug for Envelope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Envelope({} {}, {} bytes)",
            self.api_version,
            self.kind,
            self.raw.len()
        )
    }
}

impl<'a> Envelope<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    ///
    /// The body is not protobuf of Kubernetes, or its content is encoded in another way.
    pub fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut rest = body
            .strip_prefix(&MAGIC)
            .ok_or_else(|| Error::malformed("the body does not start with k8s\\0"))?;
        let mut envelope = Envelope {
            api_version: "",
            kind: "",
            raw: &[],
        };
        while let Some(part) = wire::next(&mut rest)? {
            match part.field {
                1 => envelope.set_type_meta(part.message()?)?,
                2 => envelope.raw = part.message()?,
                3 if !part.bytes.is_empty() => {
                    return Err(Error::malformed("the content has an unknown encoding"));
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn set_type_meta(&mut self, mut rest: &'a [u8]) -> Result<(), Error> {
        while let Some(part) = wire::next(&mut rest)? {
            match part.field {
                1 => self.api_version = part.text()?,
                2 => self.kind = part.text()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// API version and kind.
    pub fn type_meta(&self) -> TypeMeta<'a> {
        TypeMeta {
            api_version: self.api_version,
            kind: self.kind,
        }
    }

    /// The message of the object.
    ///
    /// # Errors
    ///
    /// The schema table has no such kind.
    pub fn message(&self) -> Result<&'static Message, Error> {
        schema::lookup(self.api_version, self.kind)
            .ok_or_else(|| Error::unknown_kind(self.api_version, self.kind))
    }

    /// Decodes the object, with its API version and kind.
    ///
    /// # Errors
    ///
    /// The kind is unknown, the bytes are malformed, or they are not a `T`.
    pub fn decode<T: DeserializeOwned>(&self, options: &Options) -> Result<T, Error> {
        de::from_message(self.message()?, self.raw, Some(self.type_meta()), options)
    }
}

/// Decodes a whole body: an object, a list or a `Status`.
///
/// # Errors
///
/// The body is not protobuf of Kubernetes, the kind is unknown, the bytes are malformed, or they are not a `T`.
pub fn from_body<T: DeserializeOwned>(body: &[u8], options: &Options) -> Result<T, Error> {
    Envelope::parse(body)?.decode(options)
}

/// Encodes a list of encoded items, as the API server does. `type_meta` is that of the list.
pub fn to_list_body<'a>(
    type_meta: TypeMeta<'_>,
    meta: &ListMeta,
    items: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
) -> Vec<u8> {
    let items = items.into_iter();
    let meta = meta.encode();
    let field = |length: usize| 1 + wire::varint_len(length as u64) + length;
    let length = field(meta.len()) + items.clone().map(|item| field(item.len())).sum::<usize>();
    let mut body = Vec::with_capacity(length + type_meta.api_version.len() + type_meta.kind.len() + 32);
    write_head(&mut body, type_meta);
    wire::put_tag(&mut body, 2, wire::LENGTH_DELIMITED);
    wire::put_varint(&mut body, length as u64);
    wire::put_bytes(&mut body, 1, &meta);
    for item in items {
        wire::put_bytes(&mut body, 2, item);
    }
    body.extend_from_slice(&TAIL);
    body
}

/// Encodes a frame of a watch stream: an event type and a whole body, as made by [`to_body`].
pub fn to_watch_frame(event: &str, object_body: &[u8]) -> Vec<u8> {
    let mut object = Vec::with_capacity(object_body.len() + 8);
    wire::put_bytes(&mut object, 1, object_body);
    let mut frame = vec![0; 4];
    wire::put_bytes(&mut frame, 1, event.as_bytes());
    wire::put_bytes(&mut frame, 2, &object);
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}
