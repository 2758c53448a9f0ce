//! Faults of single requests.

use std::time::Duration;

use kube_informers::source::{ApiError, StatusCause};

use super::stream::Rejection;

/// Which requests a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Any request.
    Any,
    /// The first page of a list.
    List,
    /// A later page of a list.
    Page,
    /// A watch with initial events.
    WatchList,
    /// A watch from a version.
    Watch,
    /// Either form of list.
    Lists,
    /// Either form of watch.
    Watches,
}

impl On {
    pub(super) fn matches(self, request: Self) -> bool {
        match self {
            Self::Any => true,
            Self::Lists => matches!(request, Self::List | Self::Page),
            Self::Watches => matches!(request, Self::Watch | Self::WatchList),
            own => own == request,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An HTTP status, with a Retry-After in seconds.
    Status(u16, Option<u32>),
    /// The connection is refused.
    Refuse,
    /// There is no response.
    Hang,
    /// The connection breaks after this number of items.
    CutAfter(u32),
    /// The response ends after this number of items.
    EndAfter(u32),
    /// A watch ends after a bookmark.
    Flap,
    /// A watch-list has no end marker.
    NoEndMarker,
    /// A page is of another version than the first: a newer one if there is one, else an older one.
    PagesDiffer,
    /// A page has the token of the first.
    RepeatToken,
    /// The token has expired.
    ExpireToken,
    /// A list is older than requested.
    StaleList,
}

impl Fault {
    pub(super) fn rejection(self) -> Option<Rejection> {
        match self {
            Self::Status(code, retry_after) => Some(Rejection::Api(status(code, retry_after))),
            Self::Refuse => Some(Rejection::Transport),
            _ => None,
        }
    }
}

/// A fault of the next matching requests.
#[derive(Clone, Copy, Debug)]
pub struct RequestFault {
    /// Which requests.
    pub on: On,
    /// What goes wrong.
    pub what: Fault,
    /// How many of them.
    pub times: u32,
}

pub(super) fn status(code: u16, retry_after: Option<u32>) -> ApiError {
    let reason = match code {
        400 => "BadRequest",
        403 => "Forbidden",
        404 => "NotFound",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        504 => "Timeout",
        _ => "",
    };
    ApiError {
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into())),
        ..ApiError::new(code, reason, "a fault of the model")
    }
}

pub(super) fn expired() -> Rejection {
    Rejection::Api(status(410, None))
}

pub(super) fn too_large() -> Rejection {
    Rejection::Api(ApiError {
        causes: vec![StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
        }],
        ..status(504, None)
    })
}
