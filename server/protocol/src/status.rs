//! Errors in the wording of an API server: one `Status` object each, with code, reason, details and causes.
//! Knows nothing of requests or storage.

use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::field_error::{FieldError, aggregate};

/// An error response of the server.
///
/// The same value is used for HTTP responses, for ERROR events of a watch, and as the error of direct writes
/// (`try_create` and the like).
#[doc(alias = "StatusError")]
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    code: u16,
    reason: String,
    message: String,
    details: Map<String, Value>,
    metadata: Map<String, Value>,
    indented: bool,
    /// Whether `details` are present even if empty, as in the server's generic errors.
    generic: bool,
}

/// The resource an error is about: group and plural name, `apps` and `deployments`.
#[derive(Clone, Copy, Debug)]
struct Subject<'a> {
    group: &'a str,
    resource: &'a str,
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl Subject<'_> {
    fn details(&self, name: &str) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", self.group), ("kind", self.resource)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), Value::from(value));
            }
        }
        details
    }
}

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
const INCONSISTENT_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. \
     You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
     the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
     were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl ApiError {
    /// Any error: HTTP code, machine-readable reason, and message.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Map::new(),
            metadata: Map::new(),
            indented: false,
            generic: false,
        }
    }

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(400, "BadRequest", message)
    }

    /// 401 `Unauthorized`.
    pub fn unauthorized() -> ApiError {
        ApiError::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 `Forbidden`, in the wording of the RBAC authorizer. `namespace` is `None` at cluster scope.
    pub fn forbidden(
        user: &str,
        verb: &str,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) -> ApiError {
        let subject = Subject { group, resource };
        let scope = match namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{subject} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        );
        ApiError {
            details: subject.details(""),
            ..ApiError::new(403, "Forbidden", message)
        }
    }

    /// 403 `Forbidden` of a path that is not a resource.
    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> ApiError {
        let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        ApiError::new(403, "Forbidden", message)
    }

    /// Appends the reason of the authorizer, if it has one, to the message.
    #[must_use]
    pub fn because(mut self, reason: &str) -> ApiError {
        if !reason.is_empty() {
            self.message = format!("{}: {reason}", self.message);
        }
        self
    }

    /// Replaces the subject of a [`forbidden`](Self::forbidden) message by one object. `qualified` is the resource as it is shown.
    #[must_use]
    pub fn about(mut self, qualified: &str, group: &str, resource: &str, name: &str) -> ApiError {
        if let Some((_, rest)) = self.message.split_once(" is forbidden: ") {
            let subject = match name {
                "" => qualified.to_owned(),
                name => format!("{qualified} \"{name}\""),
            };
            self.message = format!("{subject} is forbidden: {rest}");
        }
        self.details = Subject { group, resource }.details(name);
        self
    }

    /// 403 of one object, for a reason of the server's own.
    pub fn forbidden_because(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
        let subject = Subject { group, resource };
        let message = match name {
            "" => format!("{subject} is forbidden: {why}"),
            name => format!("{subject} \"{name}\" is forbidden: {why}"),
        };
        ApiError {
            details: subject.details(name),
            ..ApiError::new(403, "Forbidden", message)
        }
    }

    /// 404 `NotFound` of one object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> ApiError {
        let subject = Subject { group, resource };
        let message = format!("{subject} \"{name}\" not found");
        ApiError {
            details: subject.details(name),
            ..ApiError::new(404, "NotFound", message)
        }
    }

    /// 404 of an unknown path under a known group and version.
    pub fn no_such_resource() -> ApiError {
        let message = "the server could not find the requested resource";
        ApiError {
            generic: true,
            ..ApiError::new(404, "NotFound", message)
        }
    }

    /// 405 `MethodNotAllowed`.
    pub fn method_not_allowed() -> ApiError {
        let message = "the server does not allow this method on the requested resource";
        ApiError {
            generic: true,
            ..ApiError::new(405, "MethodNotAllowed", message)
        }
    }

    /// 406 `NotAcceptable`; like the real one, its JSON is indented.
    pub fn not_acceptable(accepted: &[&str]) -> ApiError {
        let message = format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        );
        ApiError {
            indented: true,
            ..ApiError::new(406, "NotAcceptable", message)
        }
    }

    /// 406 `NotAcceptable` for a client that accepts no media type of the server.
    pub fn no_representation(available: &[&str]) -> ApiError {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            available.join(", ")
        );
        ApiError {
            generic: true,
            ..ApiError::new(406, "NotAcceptable", message)
        }
    }

    /// 409 `AlreadyExists`.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> ApiError {
        let subject = Subject { group, resource };
        let message = format!("{subject} \"{name}\" already exists");
        ApiError {
            details: subject.details(name),
            ..ApiError::new(409, "AlreadyExists", message)
        }
    }

    /// 409 `Conflict` because the object has changed since the client read it.
    pub fn conflict(group: &str, resource: &str, name: &str) -> ApiError {
        ApiError::conflict_because(group, resource, name, MODIFIED)
    }

    /// 409 `Conflict` with another cause than a changed object.
    pub fn conflict_because(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> ApiError {
        let subject = Subject { group, resource };
        let message = format!("Operation cannot be fulfilled on {subject} \"{name}\": {why}");
        ApiError {
            details: subject.details(name),
            ..ApiError::new(409, "Conflict", message)
        }
    }

    /// 410 `Expired` with any text.
    #[doc(alias = "NewResourceExpired")]
    pub fn expired(message: impl Into<String>) -> ApiError {
        ApiError::new(410, "Expired", message)
    }

    /// 410 of a watch or cached read whose version is before the window.
    pub fn too_old(requested: u64, oldest: u64) -> ApiError {
        ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// 410 of a list at an exact version before the window.
    pub fn list_too_old() -> ApiError {
        ApiError::expired("The resourceVersion for the provided list is too old.")
    }

    /// 410 of a continue token; `token` continues with an inconsistent list.
    pub fn continue_expired(token: String) -> ApiError {
        let mut error = ApiError::expired(INCONSISTENT_CONTINUE);
        error.metadata.insert("continue".to_owned(), token.into());
        error
    }

    /// 413 of a request body above the limit.
    pub fn body_too_large(limit: usize) -> ApiError {
        ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// 415 of a request body in an unsupported format.
    pub fn unsupported_media_type(accepted: &[&str]) -> ApiError {
        ApiError::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// 415 of a patch in an unsupported format.
    pub fn no_such_media_type() -> ApiError {
        ApiError {
            generic: true,
            ..ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        }
    }

    /// 422 `Invalid` with one cause per field. `kind` is the kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> ApiError {
        let subject = Subject {
            group,
            resource: kind,
        };
        let message = format!("{subject} \"{name}\" is invalid: {}", aggregate(errors));
        let mut details = subject.details(name);
        details.insert(
            "causes".to_owned(),
            errors.iter().map(FieldError::cause).collect(),
        );
        ApiError {
            details,
            ..ApiError::new(422, "Invalid", message)
        }
    }

    /// 429 `TooManyRequests` as the watch cache responds while it is not ready.
    pub fn too_many_requests(retry_after_seconds: u64) -> ApiError {
        let message = "storage is (re)initializing";
        ApiError::new(429, "TooManyRequests", message).retry_after(retry_after_seconds)
    }

    /// 500 `InternalError`.
    pub fn internal(message: impl Into<String>) -> ApiError {
        let message = message.into();
        let mut error = ApiError::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        error
            .details
            .insert("causes".to_owned(), json!([{ "message": message }]));
        error
    }

    /// 500 without a reason: the server's fallback for unknown errors.
    pub fn unknown(message: impl Into<String>) -> ApiError {
        ApiError::new(500, "", message)
    }

    /// 500 `StorageReadError` of a list in which objects cannot be read: their keys, and what is wrong with them.
    #[doc(alias = "NewStorageReadError")]
    pub fn storage_read(group: &str, resource: &str, corrupt: &[(String, String)]) -> ApiError {
        let subject = Subject { group, resource };
        let texts: Vec<&str> = corrupt.iter().map(|(_, why)| why.as_str()).collect();
        let shown = match texts.as_slice() {
            [one] => (*one).to_owned(),
            several => format!("[{}]", several.join(", ")),
        };
        let causes: Vec<Value> = corrupt
            .iter()
            .map(|(key, why)| json!({ "reason": "UnexpectedServerResponse", "field": key, "message": why }))
            .collect();
        let message = format!("failed to read one or more {subject} from the storage: {shown}");
        let mut error = ApiError {
            details: subject.details("list"),
            ..ApiError::new(500, "StorageReadError", message)
        };
        error.details.insert("causes".to_owned(), causes.into());
        error
    }

    /// 503 `ServiceUnavailable`.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError::new(503, "ServiceUnavailable", message)
    }

    /// 504 `Timeout` of a request for a version the server has not reached.
    #[doc(alias = "NewTooLargeResourceVersionError")]
    pub fn too_large_resource_version(requested: u64, current: u64, retry_after_seconds: u64) -> ApiError {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let mut error = ApiError::new(504, "Timeout", message);
        error.details.insert(
            "causes".to_owned(),
            json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]),
        );
        error.retry_after(retry_after_seconds)
    }

    /// Sets `details`.
    #[must_use]
    pub fn details(mut self, details: Map<String, Value>) -> ApiError {
        self.details = details;
        self
    }

    /// Sets `details.causes`.
    #[must_use]
    pub fn causes(mut self, causes: Vec<Value>) -> ApiError {
        self.details.insert("causes".to_owned(), causes.into());
        self
    }

    /// Sets the list metadata of the status.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> ApiError {
        self.metadata = metadata;
        self
    }

    /// Sends `details` even if it is empty, as in the generic errors of a server.
    #[must_use]
    pub fn generic(mut self) -> ApiError {
        self.generic = true;
        self
    }

    /// Sets the retry delay, in `details.retryAfterSeconds` and in the `Retry-After` header.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> ApiError {
        if seconds > 0 {
            self.details
                .insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        self
    }

    /// The HTTP code.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The machine-readable reason, such as `AlreadyExists`.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The human-readable message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The retry delay in seconds.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = Value::from(self.reason.as_str());
        }
        if self.generic || !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }

    /// The `Status` object as a response body.
    pub fn to_bytes(&self) -> Bytes {
        let value = self.to_value();
        if self.indented {
            format!("{value:#}\n").into()
        } else {
            format!("{value}\n").into()
        }
    }

    /// The HTTP status of the response.
    pub fn http_status(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.reason)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_found_names_the_object_and_its_group() {
        let error = ApiError::not_found("apps", "deployments", "cart");

        assert_eq!(
            error.to_value(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                   "message": "deployments.apps \"cart\" not found", "reason": "NotFound",
                   "details": {"name": "cart", "group": "apps", "kind": "deployments"}, "code": 404})
        );
    }

    #[test]
    fn invalid_has_one_cause_per_field() {
        let errors = [
            FieldError::forbidden("resourceVersionMatch", "not here"),
            FieldError::required("metadata.name", "name or generateName is required"),
        ];

        let error = ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors);

        assert_eq!(
            error.message(),
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: not here, \
             metadata.name: Required value: name or generateName is required]"
        );
        let causes = &error.to_value()["details"]["causes"];
        assert_eq!(causes[0]["field"], "resourceVersionMatch");
        assert_eq!(causes[1]["reason"], "FieldValueRequired");
    }

    #[test]
    fn future_version_has_the_cause_that_clients_check() {
        let error = ApiError::too_large_resource_version(9, 5, 1);

        assert_eq!(
            error.message(),
            "Timeout: Too large resource version: 9, current: 5"
        );
        assert_eq!(
            error.to_value()["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        assert_eq!(error.retry_after_seconds(), Some(1));
    }

    #[test]
    fn not_acceptable_status_is_indented() {
        let text = ApiError::not_acceptable(&["application/json"]).to_bytes();

        assert!(text.iter().filter(|&&byte| byte == b'\n').count() > 3);
    }
}
