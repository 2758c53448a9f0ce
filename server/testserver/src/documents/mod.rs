//! Responses for paths outside the resources: discovery, OpenAPI, health and version.

pub(crate) mod discovery;
mod health;
pub(crate) mod openapi;
mod schemas;
mod storage_hash;
mod v2;

use http::{Method, Response, StatusCode};
use kube_api_protocol::request::Query;
use kube_api_protocol::status::ApiError;
use serde_json::{Value, json};

use crate::kinds::Registry;
use crate::response;
use crate::response::body::TestBody;
use crate::state::ServerState;

/// The response for a path that is not a resource.
pub(crate) fn answer(
    state: &ServerState,
    method: &Method,
    path: &str,
    query: &Query,
    accept: Option<&str>,
) -> Response<TestBody> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return response::error(&ApiError::method_not_allowed());
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let plain =
        |text: String| response::reply(StatusCode::OK, "text/plain; charset=utf-8", TestBody::bytes(text));
    if let ["healthz" | "livez" | "readyz", ..] = segments.as_slice() {
        return match health::body(&segments, query.get("verbose").is_some()) {
            Some(text) => plain(text),
            None => response::page_not_found(),
        };
    }
    if let ["metrics"] = segments.as_slice() {
        return plain(health::metrics(state));
    }
    let aggregated = accept.is_some_and(discovery::wants_aggregated);
    let registry = state.registry.read();
    let document = match segments.as_slice() {
        [] => Some(
            json!({ "paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3",
                                     "/readyz", "/version"] }),
        ),
        ["version"] if !accept.is_none_or(accepts_json) => {
            return response::error(&ApiError::no_representation(&["application/json"]));
        }
        ["version"] => Some(discovery::version()),
        ["api"] if aggregated => return aggregate(&discovery::aggregated_core(&registry)),
        ["apis"] if aggregated => return aggregate(&discovery::aggregated_groups(&registry)),
        ["api"] => Some(discovery::core_versions("127.0.0.1")),
        ["apis"] => Some(discovery::groups(&registry)),
        ["apis", group] => discovery::group(&registry, group),
        ["api", version] => discovery::resources(&registry, "", version),
        ["apis", group, version] => discovery::resources(&registry, group, version),
        ["openapi", "v2"] if accept.is_some_and(v2::wants_protobuf) => {
            let document = v2::encode(&v2::document(&registry));
            return response::reply(StatusCode::OK, v2::PROTOBUF, TestBody::bytes(document));
        }
        ["openapi", "v2"] => Some(v2::document(&registry)),
        ["openapi", "v3"] => Some(openapi::index(&registry)),
        ["openapi", "v3", "api", version] => openapi::document(&registry, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(&registry, group, version),
        _ => None,
    };
    match document {
        Some(document) => response::json(StatusCode::OK, document.to_string()),
        // The versions of a built-in group have their own not-found response.
        None if matches!(segments.as_slice(), ["apis", group, _] if has_builtin(&registry, group)) => {
            response::error(&ApiError::no_such_resource())
        }
        None => response::page_not_found(),
    }
}

fn has_builtin(registry: &Registry, group: &str) -> bool {
    registry.iter().any(|kind| kind.group == group && !kind.custom)
}

fn aggregate(document: &Value) -> Response<TestBody> {
    response::reply(
        StatusCode::OK,
        discovery::AGGREGATED,
        TestBody::bytes(document.to_string()),
    )
}

/// Whether an `Accept` header includes JSON.
fn accepts_json(accept: &str) -> bool {
    let mut clauses = accept
        .split(',')
        .map(|clause| clause.split(';').next().unwrap_or_default().trim());
    clauses.any(|clause| matches!(clause, "" | "*/*" | "application/*" | "application/json"))
}
