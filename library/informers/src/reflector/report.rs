//! What a reflector reports: the end of each list and watch, and its state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::wire::SourceError;

/// The end of a list or watch, as passed to the `on_stream_end` hook.
///
/// Every end is reported. The regular end of a watch has no [`error`](Self::error).
#[doc(alias = "WatchErrorHandler")]
#[derive(Debug)]
#[non_exhaustive]
pub struct StreamEnd<'a> {
    /// A description of the objects: `pods in shop`.
    pub resource: &'a str,
    /// The operation that ended.
    pub operation: Operation,
    /// The error, unless it was a regular end.
    pub error: Option<&'a SourceError>,
    /// The next operation.
    pub resume: Resume,
    /// The delay before the next operation.
    pub pause: Duration,
    /// The number of failures since the last progress.
    pub attempts: u32,
}

impl fmt::Display for StreamEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} ended", self.operation, self.resource)?;
        if let Some(error) = self.error {
            write!(f, ": {error}")?;
        }
        write!(f, "; {}", self.resume)?;
        if !self.pause.is_zero() {
            write!(f, " in {:.1} s", self.pause.as_secs_f64())?;
        }
        Ok(())
    }
}

/// An operation of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// A list.
    List,
    /// A watch that starts with the initial list, up to the end of its initial events.
    WatchList,
    /// A watch.
    Watch,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::WatchList => "watch-list",
            Self::Watch => "watch",
        })
    }
}

/// The next operation of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resume {
    /// Watch from the last version.
    Rewatch,
    /// Fetch the whole collection again.
    Relist(RelistReason),
    /// Retry fetching the whole collection.
    RetrySync,
    /// List again immediately, at the newest version.
    RetryNewest,
    /// List again immediately, without pages.
    RetryWhole,
    /// List instead of using a watch-list.
    ListInstead,
    /// Fetch the collection again immediately, because the shard has moved and a part of it has not been fetched.
    ListMovedShard,
    /// Nothing: the shard is empty.
    Rest,
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rewatch => f.write_str("watching from the last version"),
            Self::Relist(reason) => write!(f, "listing again because {reason}"),
            Self::RetrySync => f.write_str("trying again"),
            Self::RetryNewest => f.write_str("requesting the newest version instead"),
            Self::RetryWhole => f.write_str("requesting the list without pages"),
            Self::ListInstead => f.write_str("listing instead"),
            Self::ListMovedShard => f.write_str("listing because the shard has moved"),
            Self::Rest => f.write_str("resting because the shard is empty"),
        }
    }
}

/// Why the whole collection is fetched again. There are no other reasons; a lost connection is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RelistReason {
    /// The server no longer has the last version.
    Expired,
    /// The server has not seen the last version yet.
    VersionTooLarge,
    /// The server rejected the watch as invalid (400, 422).
    Refused,
    /// The resource no longer exists (404). If it is created again, it is a different one.
    NotFound,
    /// The server reported an error inside the watch, which may hide a lost deletion.
    ErrorEvent,
    /// The server's history was replaced, for example by a restored backup: its versions no longer mean what they meant.
    Rewind,
    /// An audit found that the cache differs from the collection: an event was lost.
    Drift,
}

impl RelistReason {
    /// A short name, for counters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::VersionTooLarge => "version_too_large",
            Self::Refused => "refused",
            Self::NotFound => "not_found",
            Self::ErrorEvent => "error_event",
            Self::Rewind => "rewind",
            Self::Drift => "drift",
        }
    }
}

impl fmt::Display for RelistReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the last version has expired",
            Self::VersionTooLarge => "the server has not seen the last version yet",
            Self::Refused => "the server rejected the last version",
            Self::NotFound => "the resource is gone",
            Self::ErrorEvent => "the server reported an error",
            Self::Rewind => "the server's history was replaced",
            Self::Drift => "the cache differs from the collection",
        })
    }
}

/// A violation of the protocol in a response without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A watch ended at once, without an event.
    ShortWatch,
    /// A watch-list sent no end marker.
    NoEndMarker,
    /// A list ended early.
    Truncated,
    /// The pages of a list have different versions.
    PagesDiffer,
    /// A list returned a continue token twice.
    RepeatedToken,
    /// A list has more pages than this limit.
    TooManyPages(u32),
    /// A list is older than requested.
    StaleList,
    /// A consistent list is older than the last version.
    Rewind,
}

impl Violation {
    pub(crate) fn into_error(self) -> SourceError {
        SourceError::Malformed(
            match self {
                Self::ShortWatch => "the watch ended within a second, without an event",
                Self::NoEndMarker => "the watch-list did not mark the end of its initial events",
                Self::Truncated => "the list ended before it was complete",
                Self::PagesDiffer => "the pages of the list are of different versions",
                Self::RepeatedToken => "the server returned a continue token for the second time in one list",
                Self::TooManyPages(limit) => {
                    return SourceError::Malformed(format!(
                        "the list has more than {limit} pages: raise `ReflectorConfig::max_pages` or the page size if \
                         the collection is that large, otherwise check the server"
                    ));
                }
                Self::StaleList => "the list is older than the requested version and was discarded",
                Self::Rewind => {
                    "the newest version of the server is older than a version it sent before: its history was \
                     replaced, for example by a restored backup"
                }
            }
            .to_owned(),
        )
    }
}

/// The state of a reflector.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReflectorState {
    /// Not started.
    Idle,
    /// Fetching the collection.
    Listing {
        /// The time at which it started.
        since: Instant,
        /// Objects received so far.
        items: u64,
        /// The number of objects still to come, if the server reports it.
        remaining: Option<u64>,
    },
    /// Watching.
    Watching {
        /// The time at which the watch was opened.
        since: Instant,
    },
    /// The shard is empty: there is nothing to watch.
    Resting,
    /// Waiting after a failure.
    BackingOff {
        /// The last error.
        error: Arc<SourceError>,
        /// The time of the first of these failures.
        since: Instant,
        /// The number of failures since the last progress.
        attempts: u32,
        /// The time of the next attempt.
        until: Instant,
    },
    /// Stopped.
    Stopped,
}

impl fmt::Display for ReflectorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("not started"),
            Self::Listing {
                items,
                remaining: None,
                ..
            } => write!(f, "listing ({items} objects so far)"),
            Self::Listing {
                items,
                remaining: Some(remaining),
                ..
            } => {
                write!(f, "listing ({items} of about {} objects)", items + remaining)
            }
            Self::Watching { .. } => f.write_str("watching"),
            Self::Resting => f.write_str("resting: its shard is empty"),
            Self::BackingOff { error, attempts, .. } => {
                write!(
                    f,
                    "waiting after {attempts} failed attempts, the last with: {error}"
                )
            }
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
