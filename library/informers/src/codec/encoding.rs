//! Content negotiation: the media types of requests and responses.

use kube_protobuf::{MEDIA_TYPE, schema};

use super::Expected;
use super::format::malformed;
use crate::wire::SourceError;

/// The encoding that a source requests.
///
/// It is a preference: JSON is always accepted as well, and the content type of the response decides. A server or proxy
/// that sends only JSON works with every choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Protobuf for the built-in kinds of Kubernetes and for metadata, JSON for everything else. The default.
    ///
    /// Types that accept any member keep JSON: [`DynamicObject`](kube::core::DynamicObject), and structs with
    /// `#[serde(flatten)]`. Protobuf cannot carry fields that are newer than the schema of this library.
    #[default]
    Auto,
    /// JSON, which every API server supports for every resource.
    Json,
    /// Protobuf. The kind must have a schema: custom resources have none, except for their metadata.
    Protobuf,
}

impl Encoding {
    /// Whether protobuf is requested for these objects.
    ///
    /// # Errors
    ///
    /// Protobuf is required, but the kind has no schema.
    pub(super) fn is_protobuf(self, expected: &Expected, is_open: bool) -> Result<bool, EncodingError> {
        let has_schema = expected.metadata_only
            || schema::lookup(&expected.api_version, &expected.kind)
                .is_some_and(|kind| kind.has_object_meta());
        match self {
            Self::Json => Ok(false),
            Self::Auto => Ok(has_schema && (expected.metadata_only || !is_open)),
            Self::Protobuf if has_schema => Ok(true),
            Self::Protobuf => Err(EncodingError::NoSchema {
                expected: expected.to_string(),
            }),
        }
    }
}

/// The encoding of a source cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// The kind has no protobuf schema.
    #[error("{expected} has no protobuf schema: request JSON or `Encoding::Auto`")]
    NoSchema {
        /// The kind.
        expected: String,
    },
    /// The informer was not created from a [`ListWatch`](crate::ListWatch), so its source decides how it reads.
    #[error("the source options of {informer} cannot be set: its source is not a ListWatch")]
    NotAListWatch {
        /// Which informer.
        informer: String,
    },
}

/// The `Accept` header of a request for `of`, such as `PartialObjectMetadataList`; `None` for whole objects.
///
/// The alternatives are client-go's: a server that cannot send metadata alone sends whole objects, from which the
/// metadata is decoded. They are JSON: a custom resource has no protobuf.
pub(super) fn accept(protobuf: bool, of: Option<&str>, drop_managed_fields: bool) -> String {
    const JSON: &str = "application/json";
    let mut parameters = of.map_or(String::new(), |kind| format!(";as={kind};g=meta.k8s.io;v=v1"));
    if drop_managed_fields {
        // For servers that support it. Others ignore the parameter.
        parameters.push_str(";drop=metadata.managedFields");
    }
    let mut accept = String::new();
    if protobuf {
        accept = format!("{MEDIA_TYPE}{parameters},");
    }
    accept.push_str(JSON);
    if !parameters.is_empty() {
        accept.push_str(&parameters);
        accept.push(',');
        accept.push_str(JSON);
    }
    accept
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseEncoding {
    Json,
    Protobuf,
}

impl ResponseEncoding {
    /// The encoding of a response with this `Content-Type`.
    ///
    /// A missing or vague content type is read as JSON, and the body then proves whether it is.
    ///
    /// # Errors
    ///
    /// The content type is that of an encoding this library does not support.
    pub(super) fn of_content_type(content_type: Option<&str>) -> Result<Self, SourceError> {
        let media_type = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if media_type == MEDIA_TYPE {
            return Ok(Self::Protobuf);
        }
        let is_other = ["protobuf", "cbor", "yaml", "xml"]
            .iter()
            .any(|other| media_type.contains(other));
        if is_other && !media_type.contains("json") {
            return Err(malformed(format!(
                "the response is {media_type}, which was not requested"
            )));
        }
        Ok(Self::Json)
    }
}
