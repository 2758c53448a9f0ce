//! From an address to an answer.

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::answer::{self, Answer};
use super::app::App;
use super::{assets, indexes, metrics, objects, status, stream};

/// The API, for those who look for it.
const API: [(&str, &str); 9] = [
    (
        "/api/v1/status",
        "how the informers are doing, what they cost, who is churning",
    ),
    (
        "/api/v1/series",
        "events and lag of the last ten minutes, second by second",
    ),
    (
        "/api/v1/changes",
        "the last changes; kind, namespace, name, labelSelector, limit",
    ),
    (
        "/api/v1/watch",
        "changes as server-sent events; kind, namespace, name, labelSelector, since, status",
    ),
    (
        "/api/v1/kinds/{kind}/objects",
        "objects; name, namespace, labelSelector, index and value, sort, limit, offset, view",
    ),
    (
        "/api/v1/kinds/{kind}/objects/{namespace}/{name}",
        "one object and its changes; - for no namespace",
    ),
    ("/api/v1/kinds/{kind}/indexes", "the indexes of a kind"),
    ("/api/v1/kinds/{kind}/indexes/{index}", "the values of an index"),
    (
        "/metrics",
        "the same for Prometheus; /healthz and /readyz for probes",
    ),
];

/// Answers a request that was let in.
pub(super) fn answer(app: &Arc<App>, request: &Parts) -> Answer {
    let path = request.uri.path();
    let query = request.uri.query();
    if let Some(file) = assets::file(path) {
        return file;
    }
    match path {
        "/healthz" => answer::text(StatusCode::OK, "ok\n"),
        "/readyz" => ready(app),
        "/metrics" => metrics::metrics(app),
        "/api" | "/api/v1" => answer::json(&json!({
            "paths": API.iter().map(|(path, what)| json!({ "path": path, "what": what })).collect::<Vec<_>>(),
        })),
        "/api/v1/status" => answer::json(&status::status(app)),
        "/api/v1/series" => answer::json(&status::series(app)),
        "/api/v1/changes" => stream::past(app, query),
        "/api/v1/watch" => stream::watch(app, query, &request.headers),
        _ => match path.strip_prefix("/api/v1/kinds/") {
            Some(rest) => of_kind(app, rest, query),
            None => not_found(path),
        },
    }
}

fn of_kind(app: &App, rest: &str, query: Option<&str>) -> Answer {
    let parts: Option<Vec<String>> = rest
        .split('/')
        .map(|part| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned()))
        .collect();
    let Some(parts) = parts else {
        return answer::failure(StatusCode::BAD_REQUEST, "the address is not UTF-8");
    };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let Some((id, rest)) = parts.split_first() else {
        return not_found(rest);
    };
    let Some((place, served)) = app.kind(id) else {
        return unknown_kind(app, id);
    };
    match rest {
        ["objects"] => objects::list(app, place, served, query),
        ["objects", namespace, name] => objects::get(app, place, served, namespace, name),
        ["indexes"] => indexes::list(served),
        ["indexes", name] => indexes::values(served, name, query),
        _ => not_found(&parts.join("/")),
    }
}

/// 503 until everything that was there is in the caches, with the names of what is missing.
fn ready(app: &App) -> Answer {
    let missing: Vec<String> = app.board.lock().missing().map(|kind| kind.id.clone()).collect();
    match missing.is_empty() {
        true => answer::text(StatusCode::OK, "ok\n"),
        false => answer::text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not synced yet: {}\n", missing.join(", ")),
        ),
    }
}

/// Says which kinds there are.
pub(super) fn unknown_kind(app: &App, id: &str) -> Answer {
    let known: Vec<&str> = app.kinds.iter().map(|served| served.id.as_str()).collect();
    answer::failure(
        StatusCode::NOT_FOUND,
        format!("{id:?} is not watched here; what is: {}", known.join(", ")),
    )
}

fn not_found(path: &str) -> Answer {
    answer::failure(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {path:?}; /api/v1 says what there is"),
    )
}
