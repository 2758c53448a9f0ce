//! Failed accesses.

use kube_protobuf::path::PathError;

use crate::key::ObjectKey;

/// An access to a [`Lazy`](super::Lazy) object failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LazyError {
    /// The path is invalid for objects of this kind.
    #[error("cannot read {path:?} of {key}")]
    Path {
        /// The object.
        key: ObjectKey,
        /// The path.
        path: String,
        /// The reason.
        source: PathError,
    },
    /// The object, or the field at a path, cannot be decoded. Counted, and logged once per object.
    #[error("{} of {key} at version {version} cannot be decoded: {problem}", .path.as_deref().unwrap_or("the whole"))]
    Undecodable {
        /// The object.
        key: ObjectKey,
        /// Its resource version.
        version: String,
        /// The path; `None` for the whole object.
        path: Option<String>,
        /// The place, and the expected type; no value of the object.
        problem: String,
    },
    /// The object cannot be encoded.
    #[error("{key} cannot be encoded: {problem}")]
    Unencodable {
        /// The object.
        key: ObjectKey,
        /// The place, and the expected type; no value of the object.
        problem: String,
    },
}
