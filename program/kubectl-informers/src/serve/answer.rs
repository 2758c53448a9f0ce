//! Responses: bodies, and the headers all of them carry.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

pub(super) type Answer = axum::response::Response;

/// An error response. Boxed, because it is rare and large.
pub(super) type Refused = Box<Answer>;

/// Bytes of one piece of a streamed response.
const PIECE: usize = 64 << 10;

/// No foreign resources, nothing inline, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response of this type.
pub(super) fn of(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    with_body(status, content_type, Body::from(body.into()))
}

/// The same response with its body sent in pieces. The permit is released when the last piece is sent, or when the
/// connection is closed.
pub(super) fn streamed(answer: Answer, bytes: Bytes, permit: OwnedSemaphorePermit) -> Answer {
    let (parts, _) = answer.into_parts();
    let pieces = stream::unfold((bytes, permit), |(mut rest, permit)| async move {
        let piece = rest.split_to(rest.len().min(PIECE));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, permit)))
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
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
            format!("the response cannot be encoded as JSON: {error}"),
        ),
    }
}

/// Plain text.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    of(status, "text/plain; charset=utf-8", text.into())
}

/// An error as `{"error": "…"}`.
pub(super) fn failure(status: StatusCode, text: impl Into<String>) -> Answer {
    let body = json!({ "error": text.into() }).to_string();
    of(status, "application/json", body)
}
