//! Why an object was not fetched.

use std::sync::Arc;

use crate::key::ObjectKey;
use crate::source::SourceError;

/// An object was not fetched.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// There is no such object: it is not in the cache, or no longer on the server.
    #[error("{key} not found")]
    NotFound {
        /// The object.
        key: ObjectKey,
    },
    /// The request failed.
    #[error("cannot fetch {key}")]
    Request {
        /// The object.
        key: ObjectKey,
        /// The cause.
        source: Arc<SourceError>,
    },
    /// The object cannot be decoded.
    #[error("{key} cannot be decoded: {problem}")]
    Undecodable {
        /// The object.
        key: ObjectKey,
        /// The place, and the expected type; no value of the object.
        problem: String,
    },
    /// The server repeatedly sent a state that is older than the cached metadata.
    #[error("the server sent {key} at version {found}, but the cache has seen version {seen}")]
    Stale {
        /// The object.
        key: ObjectKey,
        /// The version that the server sent.
        found: String,
        /// The version of the cached metadata.
        seen: String,
    },
}
