//! The caches as JSON: lists by name, labels and index, and single objects with their history.

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use kube_informers::{Object, ObjectKey, Selector};
use serde_json::{Value, json};

use super::answer::{self, Refused};
use super::app::{App, Served, now};
use super::indexes;
use super::query::{Query, bad};
use super::stream;
use crate::board::{ObjectHistory, ObjectId};
use crate::objects::columns;
use crate::objects::item::{Contents, Item};

/// The default and the maximum number of objects in one response.
const SOME: usize = 500;
const MOST: usize = 10_000;

const PARAMETERS: [&str; 9] = [
    "view",
    "sort",
    "limit",
    "offset",
    "name",
    "namespace",
    "labelSelector",
    "index",
    "value",
];

/// The objects of a kind as a JSON document.
pub(super) fn list(app: &App, place: usize, served: &Served, query: Option<&str>) -> Result<Bytes, Refused> {
    let query = Query::parse(query, &PARAMETERS)?;
    let limit = query.number("limit", SOME, MOST)?;
    let offset = query.number("offset", 0, usize::MAX)?;
    let rows = match query.get("view") {
        None | Some("objects") => false,
        Some("rows") => true,
        Some(other) => return Err(bad(format!("view must be objects or rows, not {other:?}"))),
    };
    // Read before the objects: a client that watches from this position may receive a change twice, but misses none.
    let cursor = stream::cursor(&app.epoch, app.board.lock().log.last());
    let mut found = selected(served, &query)?;
    found.sort_by(|a, b| {
        (a.object_namespace(), a.object_name()).cmp(&(b.object_namespace(), b.object_name()))
    });
    match query.get("sort") {
        None | Some("name") => {}
        Some("changes") => by_history(app, place, &mut found, |history| history.total),
        Some("recent") => by_history(app, place, &mut found, |history| {
            history.last().map_or(0, |entry| entry.number)
        }),
        Some(other) => {
            return Err(bad(format!(
                "sort must be name, changes or recent, not {other:?}"
            )));
        }
    }
    let total = found.len();
    let page: Vec<Arc<Item>> = found.into_iter().skip(offset).take(limit).collect();
    let mut budget = app.max_response;
    let mut take = |bytes: usize| {
        let fits = budget >= bytes;
        budget = budget.saturating_sub(bytes);
        fits
    };
    let mut answer = json!({
        "kind": served.id,
        "total": total,
        "offset": offset,
        "resourceVersion": served.store.resource_version(),
        "cursor": cursor,
        "now": now(),
    });
    if rows {
        let fitting: Vec<Arc<Item>> = page
            .iter()
            .take_while(|item| take(item.size()))
            .cloned()
            .collect();
        let table = as_rows(app, place, served, &fitting);
        answer["truncated"] = (fitting.len() < page.len()).into();
        answer["late"] = table.is_late.into();
        answer["columns"] = table.columns;
        answer["rows"] = table.rows;
        return Ok(answer.to_string().into());
    }
    // One object at a time, and one buffer: the trees of all objects would take several times the memory of their text, and
    // many clients may be slow to read such answers.
    let mut text = answer.to_string();
    text.truncate(text.len() - 1);
    let held: usize = page.iter().map(|item| item.size()).sum();
    text.reserve(held.min(app.max_response));
    text.push_str(",\"items\":[");
    let mut fitting = 0;
    for item in page
        .iter()
        .map(|item| item.tree().0.to_string())
        .take_while(|item| take(item.len()))
    {
        if fitting > 0 {
            text.push(',');
        }
        text.push_str(&item);
        fitting += 1;
    }
    text.push_str(&format!("],\"truncated\":{}}}", fitting < page.len()));
    text.shrink_to_fit();
    Ok(text.into())
}

fn selected(served: &Served, query: &Query) -> Result<Vec<Arc<Item>>, Refused> {
    let selector = match query.get("labelSelector") {
        None => Selector::everything(),
        Some(text) => text
            .parse::<Selector>()
            .map_err(|error| bad(format!("the label selector cannot be read: {error}")))?,
    };
    let candidates: Vec<Arc<Item>> = match (query.get("index"), query.get("value")) {
        (None, None) => served.store.list().iter().cloned().collect(),
        (Some(name), Some(value)) => served
            .store
            .by_index(name, value)
            .map_err(|_| bad(indexes::unknown(served, name)))?,
        (Some(_), None) => return Err(bad("index needs a value, as in index=namespace&value=default")),
        (None, Some(_)) => return Err(bad("value needs an index, as in index=namespace&value=default")),
    };
    let name = query.get("name").map(str::to_lowercase);
    let namespace = query.get("namespace");
    Ok(candidates
        .into_iter()
        .filter(|item| namespace.is_none_or(|namespace| item.object_namespace() == Some(namespace)))
        .filter(|item| {
            name.as_deref()
                .is_none_or(|part| item.object_name().to_lowercase().contains(part))
        })
        .filter(|item| selector.matches(&**item))
        .collect())
}

/// In descending order; stable.
fn by_history(app: &App, place: usize, found: &mut [Arc<Item>], of: fn(&ObjectHistory) -> u64) {
    let board = app.board.lock();
    found.sort_by_cached_key(|item| {
        let id = ObjectId {
            kind: place,
            key: ObjectKey::of(&**item),
        };
        Reverse(board.history.of(&id).map_or(0, of))
    });
}

/// Objects as a table.
struct Table {
    columns: Value,
    rows: Value,
    /// Cells of the server are missing, and will come.
    is_late: bool,
}

/// As a table: the columns of the kind, and the number of changes of each object.
fn as_rows(app: &App, place: usize, served: &Served, page: &[Arc<Item>]) -> Table {
    let columns = columns::of(&served.kind, true, served.kind.namespaced);
    let of_server = app.columns.head(&served.kind, true);
    let mut is_late = false;
    let board = app.board.lock();
    let mut cells: Vec<Vec<String>> = Vec::with_capacity(page.len());
    let mut rows: Vec<Value> = page
        .iter()
        .map(|item| {
            let id = ObjectId {
                kind: place,
                key: ObjectKey::of(&**item),
            };
            let history = board.history.of(&id);
            // The state that the last of these changes led to, or a later one: the page was read before them.
            let current = served.store.get(&id.key);
            let item = current.as_ref().unwrap_or(item);
            // Before the cells are read, so that none is missing without being reported.
            is_late |= app.columns.is_late(&served.kind, &id.key, item.object_version());
            let mut row = columns.row(&item.tree());
            let mut added = app
                .columns
                .row(&served.kind, &id.key, item.object_version(), true);
            // The columns may have changed in between.
            added.resize(of_server.len(), String::new());
            columns.insert(&mut row, added);
            cells.push(row);
            json!({
                "uid": item.object_uid(),
                "namespace": item.object_namespace(),
                "name": item.object_name(),
                "changes": history.map_or(0, |history| history.total),
                "lastChange": history.and_then(|history| history.last()).map(|entry| entry.change.when.as_millisecond()),
            })
        })
        .collect();
    let mut head = columns.head();
    let idle = match of_server.is_empty() {
        true => columns.idle(&cells),
        false => Vec::new(),
    };
    columns.insert(&mut head, of_server);
    for row in cells.iter_mut().chain([&mut head]) {
        for at in idle.iter().rev() {
            if *at < row.len() {
                row.remove(*at);
            }
        }
    }
    for (row, cells) in rows.iter_mut().zip(cells) {
        if let Value::Object(fields) = row {
            fields.insert("cells".to_owned(), json!(cells));
        }
    }
    Table {
        columns: json!(head),
        rows: Value::Array(rows),
        is_late,
    }
}

/// One object and its history. A deleted object is shown in its last state.
pub(super) fn get(
    app: &App,
    place: usize,
    served: &Served,
    namespace: &str,
    name: &str,
) -> Result<Bytes, Refused> {
    let namespace = (namespace != "-").then_some(namespace);
    let key = ObjectKey::new(namespace, name);
    let cached = served.store.get(&key);
    let id = ObjectId { kind: place, key };
    let board = app.board.lock();
    let history = board.history.of(&id);
    let last_state = history.and_then(|history| history.last_state.clone());
    if cached.is_none() && history.is_none() {
        drop(board);
        return Err(Box::new(answer::failure(
            StatusCode::NOT_FOUND,
            format!("{} has no object {:?}", served.id, id.key.as_str()),
        )));
    }
    let changes: Vec<Value> = history
        .into_iter()
        .flat_map(|history| history.entries())
        .map(|entry| stream::change(&served.id, entry))
        .collect();
    let body = json!({
        "kind": served.id,
        "object": cached.as_ref().or(last_state.as_ref()).map(|item| item.tree().0),
        "deleted": cached.is_none(),
        "stale": served.store.is_stale(&id.key),
        "changes": history.map_or(0, |history| history.total),
        "forgotten": history.map_or(0, |history| history.forgotten()),
        "history": changes,
        "since": app.started.as_millisecond(),
        "now": Timestamp::now().as_millisecond(),
    });
    drop(board);
    Ok(body.to_string().into())
}
