//! The state of the informers as JSON, for the page and for scripts.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::app::{App, now};
use crate::board::{Board, KindBoard};
use crate::session::observe::Health;

/// The length of the lists of what changes most.
const CHURNERS: usize = 8;

/// The data of the overview.
pub(super) fn status(app: &App) -> Value {
    let board = app.board.lock();
    let (watches, bytes) = board.cost();
    json!({
        "cluster": { "title": app.title, "server": app.server, "embedded": app.embedded },
        "version": env!("CARGO_PKG_VERSION"),
        "startedAt": app.started.as_millisecond(),
        "now": now(),
        "synced": board.is_synced(),
        "health": board.health().word(),
        "disconnectedSeconds": disconnected(board.health()),
        "cost": { "watches": watches, "bytes": bytes },
        "kinds": board.kinds.iter().enumerate().map(|(place, one)| kind(one, app.remark(place))).collect::<Vec<_>>(),
        "churn": churn(&board),
    })
}

fn kind(board: &KindBoard, remark: Option<String>) -> Value {
    let kind = &board.kind;
    let delivered = |place: usize| board.delivered.get(place).copied().unwrap_or_default();
    let mut value = json!({
        "id": board.id,
        "kind": kind.kind,
        "apiVersion": kind.api_version(),
        "namespaced": kind.namespaced,
        "state": "starting",
        "synced": false,
        "remark": remark,
        "rate": board.series.rate(),
        "lastSecond": board.series.last().map(|sample| sample.events),
        "added": delivered(0),
        "updated": delivered(1),
        "deleted": delivered(2),
    });
    let Some(view) = &board.view else { return value };
    let more = json!({
        "state": view.state_word(),
        "detail": view.last_error,
        "synced": view.synced,
        "health": view.health.word(),
        "disconnectedSeconds": disconnected(view.health),
        "objects": view.objects,
        "quarantined": view.quarantined,
        "bytes": view.bytes,
        "events": view.events,
        "lists": view.lists,
        "relists": view.relists,
        "watches": view.watches,
        "errors": view.errors,
        "backlog": view.backlog,
        "resourceVersion": view.resource_version,
        "versionAge": view.version_age.map(|age| age.as_secs_f64()),
        "progress": view.progress.map(|progress| json!({
            "items": progress.items, "total": progress.of, "rate": progress.rate(),
        })),
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

/// How old the data is while there is no contact; `null` otherwise.
fn disconnected(health: Health) -> Option<f64> {
    match health {
        Health::Disconnected { since } => Some(since.elapsed().as_secs_f64()),
        Health::Live | Health::CatchingUp => None,
    }
}

fn churn(board: &Board) -> Value {
    let now = Instant::now();
    let id = |kind: usize| board.kinds.get(kind).map_or("", |kind| kind.id.as_str());
    json!({
        "objects": board.objects.top(CHURNERS, now).iter().map(|one| json!({
            "resource": id(one.what.kind),
            "namespace": one.what.key.namespace(),
            "name": one.what.key.name(),
            "perMinute": one.per_minute,
            "total": one.total,
        })).collect::<Vec<_>>(),
        "fields": board.fields.top(CHURNERS, now).iter().map(|one| json!({
            "resource": id(one.what.kind),
            "field": one.what.path,
            "perMinute": one.per_minute,
            "total": one.total,
        })).collect::<Vec<_>>(),
    })
}

/// Events and lag of the last minutes, one value per second, the newest last.
pub(super) fn series(app: &App) -> Value {
    let board = app.board.lock();
    let kinds: serde_json::Map<String, Value> = board
        .kinds
        .iter()
        .map(|kind| {
            let events: Vec<f64> = kind.series.samples().map(|sample| sample.events).collect();
            let lag: Vec<Option<f64>> = kind
                .series
                .samples()
                .map(|sample| sample.lag.map(|lag| lag.as_secs_f64()))
                .collect();
            (kind.id.clone(), json!({ "events": events, "lag": lag }))
        })
        .collect();
    json!({ "now": now(), "seconds": 1, "kinds": kinds })
}
