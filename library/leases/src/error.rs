//! Errors of requests for Leases, and of settings. They name the verb, the Lease and the fix; they never quote an object.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A request for a Lease failed, or its Lease cannot be used.
#[derive(Clone, Debug)]
pub struct LeaseError {
    /// The verb as in RBAC rules: `get`, `create`, `update`, `delete`, `list`.
    pub verb: &'static str,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease; `None` for a list.
    pub name: Option<String>,
    /// What went wrong.
    pub failure: Failure,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            namespace,
            name,
            failure,
        } = self;
        write!(formatter, "cannot {verb} leases.coordination.k8s.io")?;
        if let Some(name) = name {
            write!(formatter, " {name}")?;
        }
        write!(formatter, " in namespace {namespace}: {failure}")
    }
}

impl Error for LeaseError {
    /// The cause of the failure, whose own text is part of this error's text already.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure.source()
    }
}

/// Why a request for a Lease failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The account lacks the permission (401, 403).
    #[error(
        "{0}; grant the account this verb on leases in the API group coordination.k8s.io in this namespace"
    )]
    Forbidden(String),
    /// The Lease does not exist (404).
    #[error("the lease or its namespace does not exist")]
    NotFound,
    /// Another client changed the Lease first (409).
    #[error("another client has changed it")]
    Conflict,
    /// A Lease of this name exists (409 on creation).
    #[error(
        "a lease of this name exists; if it belongs to this group and its process is gone, it is taken over after its \
         lease duration, otherwise choose another name or identity"
    )]
    Exists,
    /// The server rejected the request for another reason.
    #[error("the server responded with {code} {reason}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The machine-readable reason.
        reason: String,
    },
    /// No response arrived in time.
    #[error("no response within {0:?}")]
    TimedOut(Duration),
    /// The connection failed.
    #[error("the connection failed: {}", root_cause(.0))]
    Unreachable(#[source] Arc<kube::Error>),
    /// The response is not a Lease, or not a list of Leases.
    #[error("the response is unreadable: {0}")]
    Unreadable(String),
    /// The Lease has a field of the wrong type or out of range.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// The server stored something other than what was written.
    #[error(
        "the server stored a different {0} than was written; check for admission webhooks that change leases"
    )]
    Altered(&'static str),
    /// The task that renews the Lease panicked.
    #[error("the task that renews it panicked; restart the process")]
    Panicked,
}

impl Failure {
    /// Whether a write that failed in this way has certainly not taken effect, and never will.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Failure::Forbidden(_) | Failure::NotFound | Failure::Conflict | Failure::Exists => true,
            // A 408 or 429 precedes the work; a 5xx (504 above all) may follow it.
            Failure::Refused { code, .. } => (400..500).contains(code),
            Failure::TimedOut(_)
            | Failure::Unreachable(_)
            | Failure::Unreadable(_)
            | Failure::Malformed(_)
            | Failure::Altered(_)
            | Failure::Panicked => false,
        }
    }

    pub(crate) fn from_kube(error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => Failure::Forbidden(status.message),
                404 => Failure::NotFound,
                409 => Failure::Conflict,
                code => Failure::Refused {
                    code,
                    reason: status.reason,
                },
            },
            // The texts of these two may quote the response.
            kube::Error::SerdeError(_) => Failure::Unreadable("it is not JSON".to_owned()),
            kube::Error::FromUtf8(_) => Failure::Unreadable("it is not UTF-8".to_owned()),
            other => Failure::Unreachable(Arc::new(other)),
        }
    }
}

/// The text of the innermost cause: the outer texts only say that a request failed.
fn root_cause(error: &kube::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The timings contradict each other.
    #[error("{0}")]
    Timing(String),
    /// A name cannot be used.
    #[error("{what} {value:?} is invalid: {why}")]
    Name {
        /// Which name.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and the fix.
        why: String,
    },
    /// The number of slots cannot be used.
    #[error("{0} slots are not supported; choose a power of two from 1 to 1024")]
    Slots(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_verb_the_lease_and_the_fix() {
        let error = LeaseError {
            verb: "update",
            namespace: "shop".to_owned(),
            name: Some("cart".to_owned()),
            failure: Failure::Forbidden("user \"x\" may not".to_owned()),
        };

        assert_eq!(
            error.to_string(),
            "cannot update leases.coordination.k8s.io cart in namespace shop: user \"x\" may not; grant the account \
             this verb on leases in the API group coordination.k8s.io in this namespace"
        );
    }

    #[test]
    fn a_failed_connection_names_the_innermost_cause_and_keeps_the_chain() {
        let cause = std::io::Error::other("connection refused");
        let outer = kube::Error::Service(Box::new(cause));
        let error = LeaseError {
            verb: "get",
            namespace: "shop".to_owned(),
            name: None,
            failure: Failure::Unreachable(Arc::new(outer)),
        };

        assert!(
            error
                .to_string()
                .ends_with("the connection failed: connection refused"),
            "{error}"
        );
        let source = error.source().unwrap();
        assert!(source.is::<Arc<kube::Error>>() || source.is::<kube::Error>());
        assert_eq!(source.source().unwrap().to_string(), "connection refused");
    }
}
