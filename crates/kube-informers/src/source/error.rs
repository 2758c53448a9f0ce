//! What can go wrong between us and the server, classified by HTTP code and reason.

use std::time::Duration;

/// A list or watch that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server answered, and the answer is no.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The connection could not be made, or it broke.
    #[error("{context}")]
    Transport {
        /// What was being attempted.
        context: String,
        /// Whether the connection was refused outright.
        refused: bool,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is not what an API server sends.
    #[error("{0}")]
    Malformed(String),
    /// The request could not be made at all; trying again will not help until the configuration changes.
    #[error("{0}")]
    Request(String),
    /// The server did not answer in time.
    #[error("no {what} within {}", seconds(*.after))]
    Deadline {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
}

/// `30 s`, `0.8 s`.
fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// A refusal by the server: an HTTP status other than success, or an error inside a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
#[doc(alias = "APIStatus")]
#[doc(alias = "StatusError")]
pub struct ApiError {
    /// The HTTP status code; for errors inside a watch, the code of the `Status` object (0 if it has none).
    pub code: u16,
    /// The machine-readable reason, such as `Expired`; empty if there is none.
    pub reason: String,
    /// The server's own words, shortened.
    pub message: String,
    /// How long the server asks us to wait.
    pub retry_after: Option<Duration>,
    /// Details.
    pub causes: Vec<StatusCause>,
}

/// One detail of an [`ApiError`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// The machine-readable reason.
    pub reason: String,
    /// The server's words.
    pub message: String,
}

/// The cause, and the text older servers wrote instead of it.
const TOO_LARGE_REASON: &str = "ResourceVersionTooLarge";
const TOO_LARGE_MESSAGE: &str = "Too large resource version";

impl ApiError {
    /// An error of a code and a reason.
    pub fn new(code: u16, reason: &str, message: &str) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// The resource version asked for is no longer kept by the server.
    #[doc(alias = "IsResourceExpired")]
    #[doc(alias = "IsGone")]
    pub fn is_expired(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// The resource version asked for is newer than what this server has seen.
    #[doc(alias = "IsTooLargeResourceVersion")]
    pub fn is_too_large_resource_version(&self) -> bool {
        let is_timeout = self.code == 504 || self.reason == "Timeout";
        self.causes.iter().any(|cause| cause.reason == TOO_LARGE_REASON)
            // Kubernetes 1.17.0 to 1.18.5 send only the message of the cause, older servers only the text.
            || is_timeout
                && (self.causes.iter().any(|cause| cause.message == TOO_LARGE_MESSAGE)
                    || self.message.contains(TOO_LARGE_MESSAGE))
    }

    /// The server is overloaded, or not ready yet.
    #[doc(alias = "IsTooManyRequests")]
    pub fn is_too_many_requests(&self) -> bool {
        self.code == 429 || self.code == 0 && self.reason == "TooManyRequests"
    }

    /// Something is wrong inside the server.
    #[doc(alias = "IsInternalError")]
    pub fn is_internal(&self) -> bool {
        self.code == 500 || self.code == 0 && self.reason == "InternalError"
    }

    /// The server did not understand the request, or does not like its parameters.
    #[doc(alias = "IsBadRequest")]
    #[doc(alias = "IsInvalid")]
    pub fn is_invalid(&self) -> bool {
        matches!(self.code, 400 | 422)
            || self.code == 0 && matches!(self.reason.as_str(), "BadRequest" | "Invalid")
    }

    /// Credentials are missing, wrong or expired.
    #[doc(alias = "IsUnauthorized")]
    pub fn is_unauthorized(&self) -> bool {
        self.code == 401
    }

    /// The user may not do this.
    #[doc(alias = "IsForbidden")]
    pub fn is_forbidden(&self) -> bool {
        self.code == 403
    }

    /// There is no such resource.
    #[doc(alias = "IsNotFound")]
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// The server will say the same again until somebody changes something: 401, 403, 404, 405, 406.
    pub fn is_refusal(&self) -> bool {
        matches!(self.code, 401 | 403 | 404 | 405 | 406)
    }

    fn sentence(&self) -> String {
        let mut text = match (self.code, self.reason.as_str()) {
            (0, "") => "the server reported an error".to_owned(),
            (0, reason) => format!("the server reported {reason}"),
            (code, "") => format!("the server answered {code}"),
            (code, reason) => format!("the server answered {code} {reason}"),
        };
        if !self.message.is_empty() {
            text.push_str(": ");
            text.push_str(&self.message);
        }
        text
    }
}

impl SourceError {
    /// The server's answer, if it gave one.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// The resource version asked for is no longer kept by the server.
    pub fn is_expired(&self) -> bool {
        self.api().is_some_and(ApiError::is_expired)
    }

    /// The resource version asked for is newer than what this server has seen.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.api().is_some_and(ApiError::is_too_large_resource_version)
    }

    /// Nobody listens at the server's address.
    #[doc(alias = "IsConnectionRefused")]
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::Transport { refused: true, .. })
    }

    /// How long the server asks us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.api().and_then(|error| error.retry_after)
    }

    /// The class of the error, for counters: the HTTP code, or `transport`, `malformed`, `request`, `deadline`.
    pub fn class(&self) -> String {
        match self {
            Self::Api(error) if error.code > 0 => error.code.to_string(),
            Self::Api(_) => "api".to_owned(),
            Self::Transport { .. } => "transport".to_owned(),
            Self::Malformed(_) => "malformed".to_owned(),
            Self::Request(_) => "request".to_owned(),
            Self::Deadline { .. } => "deadline".to_owned(),
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
    fn all_three_historical_forms_of_a_too_large_version_are_recognised() {
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
    fn the_code_counts_before_the_reason() {
        assert!(ApiError::new(410, "", "").is_expired());
        assert!(ApiError::new(0, "Gone", "").is_expired());
        assert!(ApiError::new(404, "SomethingElse", "").is_not_found());
        assert!(!ApiError::new(500, "TooManyRequests", "").is_too_many_requests());
    }

    #[test]
    fn errors_read_as_sentences() {
        assert_eq!(
            ApiError::new(403, "Forbidden", "pods is forbidden").to_string(),
            "the server answered 403 Forbidden: pods is forbidden"
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
