//! What can go wrong with a request about a Lease. Names the verb, the Lease and what to do; never quotes an object.

use std::time::Duration;

use kube::Error;

/// A request about a Lease failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {verb} leases.coordination.k8s.io{} in namespace {namespace}: {failure}", .name.as_deref().map(|name| format!(" {name}")).unwrap_or_default())]
pub struct LeaseError {
    /// The verb as it stands in RBAC rules: `get`, `create`, `update`, `delete`, `list`.
    pub verb: &'static str,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The Lease; `None` when several were asked for.
    pub name: Option<String>,
    /// What went wrong.
    pub failure: Failure,
}

/// Why a request about a Lease failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The account may not do this (401, 403).
    #[error("{0}; give the account this verb on leases in the group coordination.k8s.io in this namespace")]
    Forbidden(String),
    /// There is no such Lease (404).
    #[error("there is no such lease, or its namespace is missing")]
    NotFound,
    /// Somebody else was faster (409).
    #[error("somebody else has changed it")]
    Conflict,
    /// There is one of this name already (409 on creation).
    #[error(
        "there is one of this name; if it is of this group and its process is gone, it is taken over after its lease \
         duration, else choose another name or identity"
    )]
    Exists,
    /// The server refused for another reason.
    #[error("the server answered {code} {reason}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The machine-readable reason.
        reason: String,
    },
    /// No answer came in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Unreachable(String),
    /// The answer is not what a server says about Leases.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl Failure {
    /// Whether a write that failed like this was certainly not made. If not, it may have been, or may still be.
    pub(crate) fn surely_not_done(&self) -> bool {
        match self {
            Failure::Forbidden(_) | Failure::NotFound | Failure::Conflict | Failure::Exists => true,
            // A 408 or 429 comes before the work; a 5xx (504 above all) may come after it.
            Failure::Refused { code, .. } => (400..500).contains(code),
            Failure::TimedOut(_) | Failure::Unreachable(_) | Failure::Unreadable(_) => false,
        }
    }

    pub(crate) fn from_kube(error: Error) -> Failure {
        match error {
            Error::Api(status) => match status.code {
                401 | 403 => Failure::Forbidden(status.message),
                404 => Failure::NotFound,
                409 => Failure::Conflict,
                code => Failure::Refused {
                    code,
                    reason: status.reason,
                },
            },
            // The texts of these two may quote what was read.
            Error::SerdeError(_) => Failure::Unreadable("it is not JSON".to_owned()),
            Error::FromUtf8(_) => Failure::Unreadable("it is not UTF-8".to_owned()),
            other => Failure::Unreachable(other.to_string()),
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The timings contradict each other.
    #[error("{0}")]
    Timing(String),
    /// A name cannot be used.
    #[error("{what} {value:?} cannot be used: {why}")]
    Name {
        /// Which name.
        what: &'static str,
        /// What it is.
        value: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The number of slots cannot be used.
    #[error("{0} slots cannot be used; choose a power of two from 1 to 1024")]
    Slots(u32),
}
