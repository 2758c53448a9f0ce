//! Builds responses with the headers that every response of an API server carries.

pub(crate) mod body;
mod compress;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use kube_api_protocol::negotiation::{Accepted, Encoding, Offer};
use kube_api_protocol::status::ApiError;
use kube_api_protocol::warning;
use kube_api_protocol::yaml;
use kube_protobuf::MEDIA_TYPE;
use kube_protobuf::envelope::WATCH_MEDIA_TYPE;

use crate::encode::Encoder;
use crate::state::ServerState;
use crate::storage::Stored;
use body::TestBody;

const YAML: &str = "application/yaml";
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// A response with a body of this type.
pub(crate) fn reply(status: StatusCode, content_type: &'static str, body: TestBody) -> Response<TestBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<TestBody> {
    reply(status, "application/json", TestBody::bytes(body))
}

/// One object in the requested representation.
pub(crate) fn object(
    status: StatusCode,
    accepted: Accepted,
    encoder: &Encoder,
    object: &Stored,
) -> Response<TestBody> {
    match accepted.encoding {
        Encoding::Json => json(status, encoder.object(object)),
        Encoding::Yaml => yaml(status, &encoder.object(object)),
        Encoding::Protobuf => reply(status, MEDIA_TYPE, TestBody::bytes(encoder.protobuf_body(object))),
    }
}

/// A list. Lists are streamed as JSON only; for YAML the whole list is converted.
pub(crate) fn list(accepted: Accepted, body: TestBody) -> Response<TestBody> {
    match accepted.encoding {
        Encoding::Json => reply(StatusCode::OK, "application/json", body),
        Encoding::Yaml => yaml(StatusCode::OK, &body.into_bytes()),
        Encoding::Protobuf => reply(StatusCode::OK, MEDIA_TYPE, body),
    }
}

/// A watch.
pub(crate) fn watch(accepted: Accepted, body: TestBody) -> Response<TestBody> {
    let content_type = match accepted.encoding {
        Encoding::Json | Encoding::Yaml => "application/json",
        Encoding::Protobuf => WATCH_MEDIA_TYPE,
    };
    reply(StatusCode::OK, content_type, body)
}

/// Converts a `Status` or another object that is not stored to the encoding that the client prefers: to YAML, or to protobuf if the
/// kind has a schema.
pub(crate) fn negotiated(accept: Option<&str>, response: Response<TestBody>) -> Response<TestBody> {
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value == "application/json");
    if !is_json || !response.body().is_bytes() {
        return response;
    }
    let encoding = match Accepted::choose(accept, Offer::object(true)) {
        Ok(accepted) if accepted.encoding != Encoding::Json => accepted.encoding,
        _ => return response,
    };
    let (mut parts, body) = response.into_parts();
    let bytes = body.into_bytes();
    let object = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
    // Documents that are no objects of the API, such as the version, are JSON only.
    let encoded = object
        .filter(|object| object.get("kind").is_some())
        .and_then(|object| match encoding {
            Encoding::Protobuf => Some((MEDIA_TYPE, kube_protobuf::ser::to_body(&object).ok()?)),
            _ => Some((YAML, yaml::to_string(&object).into_bytes())),
        });
    let body = match encoded {
        Some((media_type, encoded)) => {
            let media_type = HeaderValue::from_static(media_type);
            parts.headers.insert(CONTENT_TYPE, media_type);
            TestBody::bytes(encoded)
        }
        None => TestBody::bytes(bytes),
    };
    Response::from_parts(parts, body)
}

/// JSON rewritten as YAML.
pub(crate) fn yaml(status: StatusCode, bytes: &[u8]) -> Response<TestBody> {
    match serde_json::from_slice(bytes) {
        Ok(value) => reply(status, YAML, TestBody::bytes(yaml::to_string(&value))),
        Err(why) => error(&ApiError::internal(format!(
            "the object cannot be written as YAML: {why}"
        ))),
    }
}

/// An error as a `Status` object.
pub(crate) fn error(error: &ApiError) -> Response<TestBody> {
    let mut response = json(error.http_status(), error.to_bytes());
    if let Some(seconds) = error.retry_after_seconds() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds `Warning` headers to a response.
pub(crate) fn warned(mut response: Response<TestBody>, warnings: &[String]) -> Response<TestBody> {
    for header in warning::headers(warnings.iter().map(String::as_str)) {
        response.headers_mut().append(WARNING, header);
    }
    response
}

/// The plain-text response for unknown paths.
pub(crate) fn page_not_found() -> Response<TestBody> {
    reply(
        StatusCode::NOT_FOUND,
        "text/plain; charset=utf-8",
        TestBody::bytes("404 page not found\n"),
    )
}

/// Indents a JSON response, for people.
pub(crate) fn indent(response: Response<TestBody>) -> Response<TestBody> {
    let json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value == "application/json");
    if !json || response.body().is_watch() {
        return response;
    }
    response.map(|body| {
        let bytes = body.into_bytes();
        match serde_json::from_slice::<serde_json::Value>(&bytes) {
            Ok(value) => TestBody::bytes(format!("{value:#}\n")),
            // Probably corrupted by a fault: send it unchanged.
            Err(_) => TestBody::bytes(bytes),
        }
    })
}

/// Compresses a response, if a real server would.
pub(crate) fn compress(mut response: Response<TestBody>) -> Response<TestBody> {
    if response.body_mut().compress() {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// Adds the header of refusals of the authorizer, which other errors of the same status lack.
pub(crate) fn refused(mut response: Response<TestBody>) -> Response<TestBody> {
    if response.status() == StatusCode::FORBIDDEN {
        let headers = response.headers_mut();
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    response
}

/// Adds the headers of every response, or of one about a connection to a container.
pub(crate) fn finish(state: &ServerState, response: &mut Response<TestBody>, connection: bool) {
    let status = response.status();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Ok(id) = HeaderValue::from_str(&state.new_audit_id()) {
        headers.insert(AUDIT_ID, id);
    }
    let plain = headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/plain"));
    if plain {
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    if status == StatusCode::UNAUTHORIZED || connection {
        // Authentication fails before priority and fairness assigns a queue, and long-running requests have none.
        return;
    }
    // Constant: the server has one flow and one priority level.
    headers.insert(
        FLOW_SCHEMA,
        HeaderValue::from_static("5f0fb0ff-4d5c-4f5e-9a3e-6d2d8a1c0001"),
    );
    headers.insert(
        PRIORITY_LEVEL,
        HeaderValue::from_static("5f0fb0ff-4d5c-4f5e-9a3e-6d2d8a1c0002"),
    );
}
