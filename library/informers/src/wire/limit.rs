//! Limits on what a server may send, and the error of a response that exceeds one.

use std::fmt;
use std::time::Duration;

/// A limit that a response exceeded. The message names the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitExceeded {
    /// [`LoadLimits::wasted_bytes`](crate::reflector::LoadLimits::wasted_bytes).
    WastedBytes {
        /// The limit.
        limit: u64,
    },
    /// [`LoadLimits::objects`](crate::reflector::LoadLimits::objects).
    Objects {
        /// The limit.
        limit: usize,
    },
    /// [`LoadLimits::bytes`](crate::reflector::LoadLimits::bytes).
    Bytes {
        /// The limit.
        limit: u64,
    },
    /// [`Deadlines::min_throughput`](crate::reflector::Deadlines::min_throughput).
    Throughput {
        /// The bytes received within `within`.
        received: u64,
        /// The time in which they were received.
        within: Duration,
        /// The limit, in bytes per second.
        limit: u32,
    },
    /// [`Deadlines::list_total`](crate::reflector::Deadlines::list_total).
    Duration {
        /// The limit.
        limit: Duration,
    },
}

impl LimitExceeded {
    /// Whether a repetition would cost as much and fail as well, until the collection or the setting changes.
    pub(crate) fn is_of_the_collection(&self) -> bool {
        matches!(self, Self::Objects { .. } | Self::Bytes { .. })
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WastedBytes { limit } => write!(
                f,
                "the response has more than {limit} bytes that are not objects, cannot be decoded or repeat an object: \
                 the server or a proxy is broken, or the type does not fit the resource (setting: \
                 `limits.wasted_bytes`)"
            ),
            Self::Objects { limit } => write!(
                f,
                "the collection has more than {limit} objects: narrow the scope or raise `limits.objects`"
            ),
            Self::Bytes { limit } => write!(
                f,
                "the collection has more than {limit} bytes: narrow the scope or raise `limits.bytes`"
            ),
            Self::Throughput {
                received,
                within,
                limit,
            } => write!(
                f,
                "the server sent {received} bytes within {} s, less than {limit} bytes per second (setting: \
                 `deadlines.min_throughput`)",
                within.as_secs()
            ),
            Self::Duration { limit } => write!(
                f,
                "the collection was not complete after {} s (setting: `deadlines.list_total`)",
                limit.as_secs_f64()
            ),
        }
    }
}

impl std::error::Error for LimitExceeded {}
