//! What the reflector tells the outside: how each list and watch ended, and what state it is in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::source::SourceError;

/// The end of a list or watch, as the error hook sees it.
///
/// Every end is reported, also the normal ones: a watch whose time was up has no [`error`](Self::error).
#[doc(alias = "WatchErrorHandler")]
#[derive(Debug)]
#[non_exhaustive]
pub struct StreamEnd<'a> {
    /// What is being reflected, in words: `pods in shop`.
    pub resource: &'a str,
    /// What ended.
    pub operation: Operation,
    /// Why, unless it was the normal end.
    pub error: Option<&'a SourceError>,
    /// What follows.
    pub resume: Resume,
    /// After how long.
    pub pause: Duration,
    /// How many failures there have been since the last progress.
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

/// What a reflector does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// A list.
    List,
    /// A watch that delivers the list first, up to the end of its initial events.
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

/// What a reflector does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resume {
    /// Watch on from the last version.
    Rewatch,
    /// Fetch the whole collection again.
    Relist(RelistReason),
    /// Try to fetch the whole collection once more.
    RetrySync,
    /// List again at once, without asking for a particular version.
    RetryNewest,
    /// List again at once, without pages.
    RetryWhole,
    /// List instead of using a watch-list.
    ListInstead,
    /// Fetch the collection again at once, because the shard has moved to where something of it has not been fetched.
    ListMovedShard,
    /// Nothing, because the shard is empty now.
    Rest,
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rewatch => f.write_str("watching on from the last version"),
            Self::Relist(reason) => write!(f, "listing again because {reason}"),
            Self::RetrySync => f.write_str("trying again"),
            Self::RetryNewest => f.write_str("asking for the newest version instead"),
            Self::RetryWhole => f.write_str("asking for the whole list instead of pages"),
            Self::ListInstead => f.write_str("listing instead"),
            Self::ListMovedShard => f.write_str("listing because the shard has moved"),
            Self::Rest => f.write_str("resting because the shard is empty"),
        }
    }
}

/// Why the whole collection is fetched again. There are no other reasons: a broken connection is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RelistReason {
    /// The server no longer keeps the last version.
    Expired,
    /// The server has not seen the last version yet.
    VersionTooLarge,
    /// The server refused the watch as invalid (400, 422).
    Refused,
    /// The resource does not exist any more (404): when it comes back, it is another one.
    NotFound,
    /// The server reported an error inside the watch; it may hide a lost deletion.
    ErrorEvent,
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
        }
    }
}

impl fmt::Display for RelistReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the last version has expired",
            Self::VersionTooLarge => "the server has not seen the last version yet",
            Self::Refused => "the server refused to watch from the last version",
            Self::NotFound => "the resource is gone",
            Self::ErrorEvent => "the server reported an error",
        })
    }
}

/// What is wrong with an answer that came without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    ShortWatch,
    NoEndMarker,
    Truncated,
    PagesDiffer,
    RepeatedToken,
    StaleList,
    Rewind,
}

impl Complaint {
    pub(crate) fn into_error(self) -> SourceError {
        SourceError::Malformed(
            match self {
                Self::ShortWatch => "the watch ended within a second, without an event",
                Self::NoEndMarker => "the watch-list did not mark the end of its initial events",
                Self::Truncated => "the list ended before it was complete",
                Self::PagesDiffer => "the pages of the list are of different versions",
                Self::RepeatedToken => "the server answered a page with the token of that same page",
                Self::StaleList => "the list is older than what the server was asked for; it was not used",
                Self::Rewind => {
                    "the newest version of the server is older than the last one it told: its history was \
                     replaced, as by a restored backup"
                }
            }
            .to_owned(),
        )
    }
}

/// What a reflector is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReflectorState {
    /// It has not been started.
    Idle,
    /// It fetches the collection.
    Listing {
        /// Since when.
        since: Instant,
        /// Objects received so far.
        items: u64,
        /// How many more the server said there are.
        remaining: Option<u64>,
    },
    /// It watches.
    Watching {
        /// Since when this watch is open.
        since: Instant,
    },
    /// Its shard is empty: there is nothing to watch.
    Resting,
    /// Something failed and it waits before the next attempt.
    BackingOff {
        /// What failed last.
        error: Arc<SourceError>,
        /// When the first of these failures happened.
        since: Instant,
        /// How many failures there have been since the last progress.
        attempts: u32,
        /// When the next attempt begins.
        until: Instant,
    },
    /// It was stopped.
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
                    "waiting after {attempts} failed attempts, the last of them: {error}"
                )
            }
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
