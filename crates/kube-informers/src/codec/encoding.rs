//! Content negotiation: the media types of requests and responses.

use super::format::malformed;
use crate::wire::SourceError;

/// An encoding of objects on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// JSON, which every API server supports for every resource.
    Json,
}

impl Encoding {
    /// The encoding of a response with this `Content-Type`.
    ///
    /// A missing or vague content type is read as JSON, and the body then proves whether it is.
    ///
    /// # Errors
    ///
    /// The content type is that of an encoding this library does not support.
    pub fn of_content_type(content_type: Option<&str>) -> Result<Self, SourceError> {
        let media_type = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let is_other = ["protobuf", "cbor", "yaml", "xml"]
            .iter()
            .any(|other| media_type.contains(other));
        if is_other && !media_type.contains("json") {
            return Err(malformed(format!(
                "the response is {media_type}, but application/json was requested"
            )));
        }
        Ok(Self::Json)
    }

    // The alternatives are client-go's: a server that cannot send metadata alone sends whole objects, from which
    // the metadata is decoded.

    pub(super) fn accept_list(self, metadata_only: bool) -> &'static str {
        match (self, metadata_only) {
            (Self::Json, false) => "application/json",
            (Self::Json, true) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }

    pub(super) fn accept_watch(self, metadata_only: bool) -> &'static str {
        match (self, metadata_only) {
            (Self::Json, false) => "application/json",
            (Self::Json, true) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}
