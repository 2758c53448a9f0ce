//! How objects look on the wire: bytes in, list and watch items out.
//!
//! A codec is a value inside [`ListWatch`](crate::ListWatch). It is the only place that knows an encoding;
//! nothing to its right does. It sees no request, no error status and no clock.

mod dynamic;
mod explain;
mod frames;
mod json;
mod list;
mod members;
mod objects;
mod scan;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;

use crate::shard::Shard;
use crate::source::{Known, ListItem, ListMeta, SourceError, WatchItem};

pub(crate) use explain::explain;
pub use json::JsonCodec;

/// An encoding of objects of one type.
///
/// The answer's own content type decides how it is read, since a server may choose another encoding than the
/// one asked for first.
#[doc(alias = "Serializer")]
#[doc(alias = "NegotiatedSerializer")]
pub trait Codec<K>: Send + Sync + 'static {
    /// The `Accept` header of a list request, for whole objects or for their metadata only.
    fn accept_list(&self, metadata_only: bool) -> &str;

    /// The `Accept` header of a watch request, for whole objects or for their metadata only.
    fn accept_watch(&self, metadata_only: bool) -> &str;

    /// A decoder for one list body.
    ///
    /// # Errors
    ///
    /// The content type of the answer is none this codec reads.
    fn list_decoder(
        &self,
        content_type: Option<&str>,
        decoding: Decoding<K>,
    ) -> Result<Box<dyn ListDecoder<K>>, SourceError>;

    /// A decoder for one watch body.
    ///
    /// # Errors
    ///
    /// The content type of the answer is none this codec reads.
    fn watch_decoder(
        &self,
        content_type: Option<&str>,
        decoding: Decoding<K>,
    ) -> Result<Box<dyn WatchDecoder<K>>, SourceError>;
}

/// Decodes one list body while it arrives.
pub trait ListDecoder<K>: Send {
    /// Takes the next bytes. Everything in the bytes before must have been taken out by `next`.
    fn push(&mut self, chunk: Bytes);

    /// The next object, or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The body is no list; it is of no further use.
    fn next(&mut self) -> Result<Option<ListItem<K>>, SourceError>;

    /// What the list says about itself, once all of its bytes have come.
    ///
    /// # Errors
    ///
    /// The body is not complete, or it is no list.
    fn finish(&mut self) -> Result<ListMeta, SourceError>;
}

/// Decodes one watch body while it arrives. What is incomplete when the body ends never happened.
pub trait WatchDecoder<K>: Send {
    /// Takes the next bytes. Everything in the bytes before must have been taken out by `next`.
    fn push(&mut self, chunk: Bytes);

    /// The next event, or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The body is no watch; it is of no further use.
    fn next(&mut self) -> Result<Option<WatchItem<K>>, SourceError>;
}

/// What a decoder needs to know besides the bytes.
pub struct Decoding<K> {
    /// What the objects must be.
    pub expected: Expected,
    /// What the cache holds already and need not be decoded again.
    pub known: Known<K>,
    /// Leave `metadata.managedFields` out of every object.
    pub drop_managed_fields: bool,
    /// Larger objects are not decoded.
    pub max_object_size: usize,
    /// Objects outside of it need not be decoded. A codec that does not look at it does no harm: they are left out
    /// afterwards.
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

/// The type an object must be of, where it says so itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Group and version, as in `apps/v1`.
    pub api_version: String,
    /// The kind, as in `Deployment`.
    pub kind: String,
    /// Whether only the metadata was asked for; then objects may call themselves `PartialObjectMetadata`.
    pub metadata_only: bool,
}

impl Expected {
    /// Whether this is what an object calls itself. What it does not say is not compared.
    pub fn admits(&self, api_version: Option<&str>, kind: Option<&str>) -> bool {
        let same =
            |said: Option<&str>, wanted: &str| said.is_none_or(|said| said.is_empty() || said == wanted);
        same(api_version, &self.api_version) && same(kind, &self.kind)
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
