//! Routes of the page, the API and the metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::{self, Next};
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use serde_json::json;
use tokio::time::timeout;

use super::answer::{self, Answer, Refused};
use super::app::App;
use super::gate::Gate;
use super::metrics::Exporter;
use super::{assets, indexes, objects, status, stream};
use crate::session::observe::Health;

/// How long a large response waits until others are sent.
const LARGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The API, as `/api/v1` describes it.
const API: [(&str, &str); 9] = [
    (
        "/api/v1/status",
        "state and cost of the informers, and what changes most",
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
        "the same for Prometheus; /livez and /readyz for probes",
    ),
];

/// The routes, behind the gate.
pub(super) fn router(app: Arc<App>, exporter: Arc<Exporter>, gate: Arc<Gate>) -> Router {
    let mut router = Router::new();
    for (path, content_type, text) in assets::FILES {
        router = router.route(
            path,
            get(move || async move { assets::response(content_type, text) }),
        );
    }
    router
        .route("/healthz", get(|| async { answer::text(StatusCode::OK, "ok\n") }))
        .route("/livez", get(|| async { answer::text(StatusCode::OK, "ok\n") }))
        .route("/readyz", get(async |State(app): AppState| ready(&app)))
        .route("/metrics", get(async move || exporter.metrics()))
        .route("/api", get(paths))
        .route("/api/v1", get(paths))
        .route(
            "/api/v1/status",
            get(async |State(app): AppState| answer::json(&status::status(&app))),
        )
        .route(
            "/api/v1/series",
            get(async |State(app): AppState| answer::json(&status::series(&app))),
        )
        .route("/api/v1/changes", get(past))
        .route("/api/v1/watch", get(watch))
        .route("/api/v1/kinds/{kind}/objects", get(list))
        .route("/api/v1/kinds/{kind}/objects/{namespace}/{name}", get(object))
        .route("/api/v1/kinds/{kind}/indexes", get(index_names))
        .route("/api/v1/kinds/{kind}/indexes/{index}", get(index_values))
        .fallback(async |uri: Uri| not_found(uri.path()))
        .layer(middleware::from_fn_with_state(gate, admit))
        .with_state(app)
}

type AppState = State<Arc<App>>;

async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Answer {
    let (head, body) = request.into_parts();
    if let Err(refused) = gate.admit(&head) {
        return *refused;
    }
    let answer = next.run(Request::from_parts(head, body)).await;
    // Without our headers it is a rejection by the router: a path that cannot be decoded.
    match answer.headers().contains_key(header::CONTENT_SECURITY_POLICY) {
        true => answer,
        false => answer::failure(answer.status(), "the path of the request is not valid UTF-8"),
    }
}

async fn paths() -> Answer {
    answer::json(&json!({
        "paths": API.iter().map(|(path, what)| json!({ "path": path, "what": what })).collect::<Vec<_>>(),
    }))
}

async fn watch(State(app): AppState, RawQuery(query): RawQuery, headers: HeaderMap) -> Answer {
    stream::watch(&app, query.as_deref(), &headers)
}

async fn list(State(app): AppState, Path(kind): Path<String>, RawQuery(query): RawQuery) -> Answer {
    if let Ok((_, served)) = app.kind(&kind) {
        app.columns.settled(&served.kind).await;
    }
    large(app, move |app| {
        let (place, served) = app.kind(&kind)?;
        objects::list(app, place, served, query.as_deref())
    })
    .await
}

async fn object(
    State(app): AppState,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Answer {
    large(app, move |app| {
        let (place, served) = app.kind(&kind)?;
        objects::get(app, place, served, &namespace, &name)
    })
    .await
}

async fn past(State(app): AppState, RawQuery(query): RawQuery) -> Answer {
    large(app, move |app| stream::past(app, query.as_deref())).await
}

/// A response that may be large: encoded off the runtime threads, sent in pieces, and only a few of them at a time, so
/// that slow readers cost a bounded amount of memory.
async fn large(
    app: Arc<App>,
    encode: impl FnOnce(&App) -> Result<Bytes, Refused> + Send + 'static,
) -> Answer {
    let permit = match timeout(LARGE_TIMEOUT, app.large.clone().acquire_owned()).await {
        Ok(Ok(permit)) => permit,
        _ => {
            app.rejected.fetch_add(1, Ordering::Relaxed);
            return answer::failure(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many large responses are being sent; try again later, or with a smaller limit",
            );
        }
    };
    match kube_informers_core::tasks::run_blocking(move || encode(&app)).await {
        Some(Ok(body)) => {
            let answer = answer::of(StatusCode::OK, "application/json", Bytes::new());
            answer::streamed(answer, body, permit)
        }
        Some(Err(refused)) => *refused,
        None => answer::failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the response could not be encoded",
        ),
    }
}

async fn index_names(State(app): AppState, Path(kind): Path<String>) -> Answer {
    match app.kind(&kind) {
        Ok((_, served)) => indexes::list(served),
        Err(refused) => *refused,
    }
}

async fn index_values(
    State(app): AppState,
    Path((kind, index)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    match app.kind(&kind) {
        Ok((_, served)) => indexes::values(served, &index, query.as_deref()),
        Err(refused) => *refused,
    }
}

/// 200 while every cache is live, otherwise 503 with the kinds that are not and why.
fn ready(app: &App) -> Answer {
    let board = app.board.lock();
    let mut problems = Vec::new();
    for kind in &board.kinds {
        let view = kind.view.as_ref();
        match view.map(|view| (view.synced, view.health)) {
            None | Some((false, Health::Live | Health::CatchingUp)) => {
                problems.push(format!("not synced yet: {}", kind.id));
            }
            Some((synced, Health::Disconnected { since })) => problems.push(format!(
                "disconnected for {:.0} s{}: {}",
                since.elapsed().as_secs_f64(),
                if synced { "" } else { ", not synced yet" },
                kind.id
            )),
            Some((true, Health::CatchingUp)) => problems.push(format!("catching up: {}", kind.id)),
            Some((true, Health::Live)) => {}
        }
    }
    drop(board);
    match problems.is_empty() {
        true => answer::text(StatusCode::OK, "ok\n"),
        false => answer::text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{}\n", problems.join("\n")),
        ),
    }
}

fn not_found(path: &str) -> Answer {
    answer::failure(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {path:?}; /api/v1 says what there is"),
    )
}
