//! The encodings of objects on the wire: bytes in, list items and watch items out.
//!
//! This is the only module that knows an encoding. It sees no request, no status code and no clock. A body is
//! decoded while it arrives, in chunks of any size:
//!
//! ```text
//!            Format (one per encoding)              shared by all encodings
//!  bytes ──▶ splitter ──▶ RawObject + Skim ──▶ kind, shard, size, already cached? ──▶ Format::decode ──▶ K
//!            one object at a time, no decoding      most objects of a relist end here
//! ```
//!
//! The request lists the accepted encodings (`Codec::accept_list`, `Codec::accept_watch`). The server may choose
//! any of them, so the `Content-Type` of the response selects the format that reads it.
//!
//! # How to add an encoding
//!
//! 1. Add a folder next to `json/` with a type that implements `Format` (see `format.rs`):
//!    - `Format::List` and `Format::Watch` split a body into objects. They are incremental: they accept chunks that
//!      end anywhere, hold at most one object, and stop holding an object that exceeds the size limit.
//!    - Each object comes with a `Skim`: API version, kind, name, namespace, UID and resource version, read without
//!      decoding the object. Reuse of cached objects, shard membership and error reports need nothing else.
//!    - `Format::bookmark` and `Format::status` read the two objects that are not of type `K`.
//!    - A decode function, `Decode<K>`, whose error names the path and the expected type and never a value: the value
//!      may be a Secret. It leaves out `metadata.managedFields` on request.
//! 2. Add a variant to `ResponseEncoding`. The compiler then points at the places that choose by encoding: the media
//!    types in `encoding.rs`, the decoders in [`Codec`], and the `Status` of an error response in `error_body.rs`.
//!
//! Nothing outside this module changes.

mod decoder;
mod dynamic;
mod encoded;
pub(crate) mod encoding;
pub(crate) mod error_body;
mod format;
pub(crate) mod from_wire;
pub(crate) mod holding;
mod json;
mod objects;
mod open;
mod protobuf;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::object::Object;
use crate::shard::Shard;
use crate::wire::{Known, ListItem, SourceError, WatchItem};
use decoder::{ListReader, WatchReader};
use encoding::ResponseEncoding;
use format::Decode;
use json::Json;
use protobuf::Protobuf;

pub(crate) use encoded::{Encoded, decode};
pub(crate) use encoding::{Encoding, EncodingError};
pub(crate) use error_body::error_response;
pub(crate) use format::{DecodeOptions, RawObject, Schema};
pub(crate) use from_wire::FromWire;
pub(crate) use holding::{LazyCounters, LazyOptions, Validate};
pub(crate) use json::explain::explain;
pub(crate) use protobuf::NOT_PROTOBUF;

/// Decodes objects of one type from any encoding.
#[doc(alias = "Serializer")]
#[doc(alias = "NegotiatedSerializer")]
pub struct Codec<K> {
    encoding: Encoding,
    /// Whether `K` accepts members that it does not declare.
    is_open: bool,
    json: Decode<K>,
    protobuf: Decode<K>,
    /// How objects are held that are decoded on access.
    lazy: Option<LazyCodec>,
}

/// The part of a codec of [`Lazy`](crate::lazy::Lazy) objects.
#[derive(Clone)]
struct LazyCodec {
    options: LazyOptions,
    counters: Arc<LazyCounters>,
}

impl<K: FromWire> Codec<K> {
    /// Creates the codec for `K`.
    pub fn new() -> Self {
        K::codec(LazyOptions::default())
    }

    /// When [`Lazy`](crate::lazy::Lazy) objects are validated.
    #[must_use]
    pub fn validate(self, validate: Validate) -> Self {
        self.hold(|options| options.validate = validate)
    }

    /// Compresses [`Lazy`](crate::lazy::Lazy) objects.
    #[must_use]
    pub fn compressed(self, compressed: bool) -> Self {
        self.hold(|options| options.compressed = compressed)
    }

    /// Changes how objects are held that are decoded on access. Other types are not affected.
    fn hold(self, change: impl FnOnce(&mut LazyOptions)) -> Self {
        let Some(lazy) = &self.lazy else {
            return self;
        };
        let mut options = lazy.options;
        change(&mut options);
        K::codec(options).encoding(self.encoding)
    }
}

impl<K> Codec<K> {
    /// A codec of objects that stay encoded.
    pub(crate) fn of_encoded(
        json: Decode<K>,
        protobuf: Decode<K>,
        options: LazyOptions,
        counters: Arc<LazyCounters>,
    ) -> Self {
        Self {
            encoding: Encoding::Auto,
            // The bytes keep fields that the schema does not know.
            is_open: false,
            json,
            protobuf,
            lazy: Some(LazyCodec { options, counters }),
        }
    }

    /// Whether `metadata.managedFields` is left out unless it is requested.
    pub(crate) fn drops_managed_fields(&self) -> bool {
        self.lazy.is_some()
    }

    /// The counters of the objects of this codec that are decoded on access.
    pub(crate) fn lazy_counters(&self) -> Option<Arc<LazyCounters>> {
        self.lazy.as_ref().map(|lazy| lazy.counters.clone())
    }

    /// Sets the requested encoding.
    #[must_use]
    pub(crate) fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Checks that the requested encoding exists for these objects.
    ///
    /// # Errors
    ///
    /// The encoding is [`Encoding::Protobuf`], and the kind has no schema.
    pub(crate) fn check(&self, expected: &Expected) -> Result<(), EncodingError> {
        self.encoding.is_protobuf(expected, self.is_open).map(drop)
    }

    /// The `Accept` header of a list request.
    pub(crate) fn accept_list(&self, expected: &Expected, drop_managed_fields: bool) -> String {
        self.accept(expected, "PartialObjectMetadataList", drop_managed_fields)
    }

    /// The `Accept` header of a watch request.
    pub(crate) fn accept_watch(&self, expected: &Expected, drop_managed_fields: bool) -> String {
        self.accept(expected, "PartialObjectMetadata", drop_managed_fields)
    }

    fn accept(&self, expected: &Expected, metadata: &str, drop_managed_fields: bool) -> String {
        let protobuf = self.encoding.is_protobuf(expected, self.is_open).unwrap_or(false);
        let of = expected.metadata_only.then_some(metadata);
        encoding::accept(protobuf, of, drop_managed_fields)
    }
}

impl<K: Object> Codec<K> {
    /// Creates the decoder of one list body.
    ///
    /// # Errors
    ///
    /// The content type is not a supported encoding.
    pub fn list_decoder(
        &self,
        content_type: Option<&str>,
        decoding: Decoding<K>,
    ) -> Result<Box<dyn Decoder<ListItem<K>>>, SourceError> {
        Ok(match ResponseEncoding::of_content_type(content_type)? {
            ResponseEncoding::Json => Box::new(ListReader::<K, Json>::new(self.json.clone(), decoding)),
            ResponseEncoding::Protobuf => {
                Box::new(ListReader::<K, Protobuf>::new(self.protobuf.clone(), decoding))
            }
        })
    }

    /// Creates the decoder of one watch body.
    ///
    /// # Errors
    ///
    /// The content type is not a supported encoding.
    pub fn watch_decoder(
        &self,
        content_type: Option<&str>,
        decoding: Decoding<K>,
    ) -> Result<Box<dyn Decoder<WatchItem<K>>>, SourceError> {
        Ok(match ResponseEncoding::of_content_type(content_type)? {
            ResponseEncoding::Json => Box::new(WatchReader::<K, Json>::new(self.json.clone(), decoding)),
            ResponseEncoding::Protobuf => {
                Box::new(WatchReader::<K, Protobuf>::new(self.protobuf.clone(), decoding))
            }
        })
    }
}

impl<K: FromWire> Default for Codec<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for Codec<K> {
    fn clone(&self) -> Self {
        Self {
            encoding: self.encoding,
            is_open: self.is_open,
            json: self.json.clone(),
            protobuf: self.protobuf.clone(),
            lazy: self.lazy.clone(),
        }
    }
}

impl<K> fmt::Debug for Codec<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

/// Decodes the body of one response while it arrives, into [`ListItem`]s or [`WatchItem`]s.
pub trait Decoder<T>: Send {
    /// Adds the next bytes. Call it only after `next` has returned `None` for the bytes before.
    fn push(&mut self, chunk: Bytes);

    /// Returns the next item, or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The body is not a list or watch. The decoder is of no further use.
    fn next(&mut self) -> Result<Option<T>, SourceError>;

    /// Ends the body. Returns [`ListItem::End`] for a list, and nothing for a watch: an incomplete event at the end
    /// of a watch is discarded.
    ///
    /// # Errors
    ///
    /// The list is incomplete, or it is not a list.
    fn finish(&mut self) -> Result<Option<T>, SourceError>;
}

/// The parameters of a decoder.
pub struct Decoding<K> {
    /// The expected type of the objects.
    pub expected: Expected,
    /// The objects the cache already holds, which are not decoded again.
    pub known: Known<K>,
    /// Whether to remove `metadata.managedFields` from every object.
    pub drop_managed_fields: bool,
    /// The size limit. Larger objects are not decoded.
    pub max_object_size: usize,
    /// The requested shard. Objects outside of it are not decoded.
    pub shard: Option<Shard>,
}

impl<K> fmt::Debug for Decoding<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoding")
            .field("expected", &self.expected)
            .field("known", &self.known.is_some())
            .field("drop_managed_fields", &self.drop_managed_fields)
            .field("max_object_size", &self.max_object_size)
            .field("shard", &self.shard)
            .finish()
    }
}

/// The type that objects must have if they name their type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// Whether only metadata was requested. Objects may then be of kind `PartialObjectMetadata`.
    pub metadata_only: bool,
}

impl Expected {
    /// Whether an object of this type is expected. A missing API version or kind is not compared.
    pub fn admits(&self, api_version: Option<&str>, kind: Option<&str>) -> bool {
        let matches = |found: Option<&str>, expected: &str| {
            found.is_none_or(|found| found.is_empty() || found == expected)
        };
        matches(api_version, &self.api_version) && matches(kind, &self.kind)
            || self.metadata_only
                && kind == Some("PartialObjectMetadata")
                && api_version.is_none_or(|version| version.starts_with("meta.k8s.io/"))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version, self.kind)
    }
}
