//! Answers: bodies, and the headers every one of them has.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde_json::json;

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// An answer that says no. In a box, since it is rare and most functions that may give one give something small.
pub(super) type Refused = Box<Answer>;

/// Nothing from elsewhere, nothing inline, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer of this type.
pub(super) fn of(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    with_body(status, content_type, Full::new(body.into()).boxed_unsync())
}

pub(super) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: UnsyncBoxBody<Bytes, Infallible>,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let fixed = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// JSON.
pub(super) fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => of(StatusCode::OK, "application/json", body),
        Err(error) => failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the answer cannot be written as JSON: {error}"),
        ),
    }
}

/// Plain text.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    of(status, "text/plain; charset=utf-8", text.into())
}

/// What is wrong, as `{"error": "…"}`.
pub(super) fn failure(status: StatusCode, text: impl Into<String>) -> Answer {
    let body = json!({ "error": text.into() }).to_string();
    of(status, "application/json", body)
}
