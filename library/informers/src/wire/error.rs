//! Errors of lists and watches, classified by HTTP status code and reason.

use std::time::Duration;

use super::cause::describe;
use super::limit::LimitExceeded;

/// A list or watch that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server rejected the request, or reported an error inside a watch.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The connection could not be established, or it was lost. The message has the innermost cause and, where it is known,
    /// the usual fix.
    #[error("{}", describe(.context, &**.source))]
    Transport {
        /// The attempted operation.
        context: String,
        /// Whether the connection was refused.
        refused: bool,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The response is not one an API server sends.
    #[error("{0}")]
    Malformed(String),
    /// The request could not be built. A retry fails as well until the configuration changes.
    #[error("{0}")]
    Request(String),
    /// The server did not respond in time.
    #[error("no {what} within {}", seconds(*.after))]
    Deadline {
        /// The awaited part of the response.
        what: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The response exceeded a limit. It was discarded.
    #[error("{0}")]
    Limit(#[from] LimitExceeded),
}

/// `30 s`, `0.8 s`.
fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// An error reported by the server: an HTTP status other than success, or an `ERROR` event of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe())]
#[doc(alias = "APIStatus")]
#[doc(alias = "StatusError")]
pub struct ApiError {
    /// The HTTP status code. For an `ERROR` event, the code of its `Status` object, or 0 if it has none.
    pub code: u16,
    /// The machine-readable reason, such as `Expired`. Empty if there is none.
    pub reason: String,
    /// The server's message, shortened.
    pub message: String,
    /// The delay the server requests before the next attempt.
    pub retry_after: Option<Duration>,
    /// The causes listed in the details of the `Status` object.
    pub causes: Vec<StatusCause>,
    /// The token at which an expired list can be continued, at a newer version.
    pub continue_token: Option<String>,
}

/// One cause of an [`ApiError`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// The machine-readable reason.
    pub reason: String,
    /// The server's message.
    pub message: String,
}

/// The reason of the cause, and the message older servers send instead of it.
const TOO_LARGE_REASON: &str = "ResourceVersionTooLarge";
const TOO_LARGE_MESSAGE: &str = "Too large resource version";

impl ApiError {
    /// Creates an error with a code, a reason and a message.
    pub fn new(code: u16, reason: &str, message: &str) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the server no longer has the requested resource version.
    #[doc(alias = "IsResourceExpired")]
    #[doc(alias = "IsGone")]
    pub fn is_expired(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// Whether the requested resource version is newer than the newest one this server has seen.
    #[doc(alias = "IsTooLargeResourceVersion")]
    pub fn is_too_large_resource_version(&self) -> bool {
        let is_timeout = self.code == 504 || self.reason == "Timeout";
        self.causes.iter().any(|cause| cause.reason == TOO_LARGE_REASON)
            // Kubernetes 1.17.0 to 1.18.5 send a cause without a reason, older servers only the message.
            || is_timeout
                && (self.causes.iter().any(|cause| cause.message == TOO_LARGE_MESSAGE)
                    || self.message.contains(TOO_LARGE_MESSAGE))
    }

    /// Whether the server is overloaded or not ready yet.
    #[doc(alias = "IsTooManyRequests")]
    pub fn is_too_many_requests(&self) -> bool {
        self.code == 429 || self.code == 0 && self.reason == "TooManyRequests"
    }

    /// Whether this is an internal error of the server.
    #[doc(alias = "IsInternalError")]
    pub fn is_internal(&self) -> bool {
        self.code == 500 || self.code == 0 && self.reason == "InternalError"
    }

    /// Whether the server rejected the request or its parameters as invalid.
    #[doc(alias = "IsBadRequest")]
    #[doc(alias = "IsInvalid")]
    pub fn is_invalid(&self) -> bool {
        matches!(self.code, 400 | 422)
            || self.code == 0 && matches!(self.reason.as_str(), "BadRequest" | "Invalid")
    }

    /// Whether the credentials are missing, wrong or expired.
    #[doc(alias = "IsUnauthorized")]
    pub fn is_unauthorized(&self) -> bool {
        self.code == 401
    }

    /// Whether the user lacks the permission.
    #[doc(alias = "IsForbidden")]
    pub fn is_forbidden(&self) -> bool {
        self.code == 403
    }

    /// Whether the resource does not exist.
    #[doc(alias = "IsNotFound")]
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Whether retries fail until the configuration of the client or of the cluster changes: 401, 403, 404, 405, 406.
    pub fn is_refusal(&self) -> bool {
        matches!(self.code, 401 | 403 | 404 | 405 | 406)
    }

    fn describe(&self) -> String {
        let mut text = match (self.code, self.reason.as_str()) {
            (0, "") => "the server reported an error".to_owned(),
            (0, reason) => format!("the server reported {reason}"),
            (code, "") => format!("the server returned {code}"),
            (code, reason) => format!("the server returned {code} {reason}"),
        };
        if !self.message.is_empty() {
            text.push_str(": ");
            text.push_str(&self.message);
        }
        text
    }
}

/// A server that requests a longer delay than this is misconfigured, and the delay could overflow the clock.
const MAX_RETRY_AFTER: u64 = 24 * 60 * 60;

/// The delay a server requests, in seconds. 0 means that it requests none.
pub(crate) fn retry_after(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.min(MAX_RETRY_AFTER)))
}

impl SourceError {
    /// The error reported by the server, if it is one.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the server no longer has the requested resource version.
    pub fn is_expired(&self) -> bool {
        self.api().is_some_and(ApiError::is_expired)
    }

    /// Whether the requested resource version is newer than the newest one this server has seen.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.api().is_some_and(ApiError::is_too_large_resource_version)
    }

    /// Whether nothing listens at the server's address.
    #[doc(alias = "IsConnectionRefused")]
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::Transport { refused: true, .. })
    }

    /// The delay the server requests before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.api().and_then(|error| error.retry_after)
    }

    /// The class of the error, for counters: the HTTP code, or `transport`, `malformed`, `request`, `deadline`,
    /// `limit`.
    pub fn class(&self) -> String {
        match self {
            Self::Api(error) if error.code > 0 => error.code.to_string(),
            Self::Api(_) => "api".to_owned(),
            Self::Transport { .. } => "transport".to_owned(),
            Self::Malformed(_) => "malformed".to_owned(),
            Self::Request(_) => "request".to_owned(),
            Self::Deadline { .. } => "deadline".to_owned(),
            Self::Limit(_) => "limit".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(reason: &str, message: &str) -> StatusCause {
        StatusCause {
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn all_historical_forms_of_a_too_large_version_are_recognised() {
        let today = ApiError {
            code: 504,
            causes: vec![cause(TOO_LARGE_REASON, "")],
            ..ApiError::default()
        };
        let in_1_18 = ApiError {
            code: 504,
            reason: "Timeout".to_owned(),
            causes: vec![cause("", TOO_LARGE_MESSAGE)],
            ..ApiError::default()
        };
        let before_1_17 = ApiError::new(504, "Timeout", "Too large resource version: 9, current: 5");
        let other = ApiError::new(504, "Timeout", "request timed out");

        assert!(today.is_too_large_resource_version());
        assert!(in_1_18.is_too_large_resource_version());
        assert!(before_1_17.is_too_large_resource_version());
        assert!(!other.is_too_large_resource_version());
    }

    #[test]
    fn the_code_takes_precedence_over_the_reason() {
        assert!(ApiError::new(410, "", "").is_expired());
        assert!(ApiError::new(0, "Gone", "").is_expired());
        assert!(ApiError::new(404, "SomethingElse", "").is_not_found());
        assert!(!ApiError::new(500, "TooManyRequests", "").is_too_many_requests());
    }

    #[test]
    fn a_requested_delay_is_capped_at_one_day() {
        assert_eq!(retry_after(0), None);
        assert_eq!(retry_after(u64::MAX), Some(Duration::from_secs(86_400)));
    }

    #[test]
    fn error_messages_name_the_code_the_reason_and_the_deadline() {
        assert_eq!(
            ApiError::new(403, "Forbidden", "pods is forbidden").to_string(),
            "the server returned 403 Forbidden: pods is forbidden"
        );
        assert_eq!(
            SourceError::Deadline {
                what: "list headers",
                after: Duration::from_secs(60)
            }
            .to_string(),
            "no list headers within 60 s"
        );
    }
}
