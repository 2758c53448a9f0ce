//! Changes as server-sent events. Every reader has a position in one log and no buffer: a reader that is too slow
//! receives the number of missed changes, and costs nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::header::{HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};
use kube_informers::Selector;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::answer::{self, Answer, Refused};
use super::app::{App, Beat};
use super::query::{Query, bad};
use super::status;
use crate::board::{LogEntry, Missed};
use crate::changes::json::line;

/// Changes in one piece, and about how many bytes: what a reader that has stopped reading holds in memory.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 256 << 10;
/// The keep-alive interval, so that both sides notice a dead connection.
const SILENCE: Duration = Duration::from_secs(15);

const PARAMETERS: [&str; 6] = ["kind", "namespace", "name", "labelSelector", "since", "status"];

/// Which changes.
struct Wanted {
    kind: Option<usize>,
    namespace: Option<String>,
    name: Option<String>,
    selector: Selector,
}

impl Wanted {
    fn parse(app: &App, query: &Query) -> Result<Self, Refused> {
        let kind = query.get("kind").map(|id| app.kind(id)).transpose()?;
        let selector = match query.get("labelSelector") {
            None => Selector::everything(),
            Some(text) => text
                .parse()
                .map_err(|error| bad(format!("the label selector cannot be read: {error}")))?,
        };
        Ok(Self {
            kind: kind.map(|(place, _)| place),
            namespace: query.get("namespace").map(str::to_owned),
            name: query.get("name").map(str::to_owned),
            selector,
        })
    }

    fn includes(&self, entry: &LogEntry) -> bool {
        let key = entry.change.key.as_ref();
        let label = |wanted: &str| {
            let found = entry.labels.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        self.kind.is_none_or(|kind| kind == entry.kind)
            && self
                .namespace
                .as_deref()
                .is_none_or(|namespace| key.is_some_and(|key| key.namespace() == Some(namespace)))
            && self
                .name
                .as_deref()
                .is_none_or(|name| key.is_some_and(|key| key.name() == name))
            && (self.selector.is_everything() || key.is_some() && self.selector.matches_labels(label))
    }
}

/// The position of a reader: `EPOCH-NUMBER`.
pub(super) fn cursor(epoch: &str, number: u64) -> String {
    format!("{epoch}-{number}")
}

/// The number of a cursor of this run; `None` for any other text.
fn number_of(epoch: &str, cursor: &str) -> Option<u64> {
    cursor.strip_prefix(epoch)?.strip_prefix('-')?.parse().ok()
}

/// The fields of the JSON lines, plus the number, the kind as URLs name it, and the text of an Event.
pub(super) fn change(resource: &str, entry: &LogEntry) -> Value {
    let mut value: Value = serde_json::from_str(line(&entry.change, false).as_str()).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("number".to_owned(), Value::from(entry.number));
        fields.insert("resource".to_owned(), Value::from(resource));
        if let Some(words) = &entry.words {
            fields.insert("words".to_owned(), Value::from(words.as_str()));
        }
    }
    value
}

/// The last changes, the newest first.
pub(super) fn past(app: &App, query: Option<&str>) -> Result<Bytes, Refused> {
    let known = ["kind", "namespace", "name", "labelSelector", "limit"];
    let query = Query::parse(query, &known)?;
    let wanted = Wanted::parse(app, &query)?;
    let limit = query.number("limit", 200, 4096)?;
    let board = app.board.lock();
    let found: Vec<Arc<LogEntry>> = board
        .log
        .newest_first()
        .filter(|entry| entry.change.key.is_some() && wanted.includes(entry))
        .take(limit)
        .cloned()
        .collect();
    let last = board.log.last();
    drop(board);
    let changes: Vec<Value> = found
        .iter()
        .map(|entry| change(app.id(entry.kind), entry))
        .collect();
    let body = json!({ "cursor": cursor(&app.epoch, last), "last": last, "changes": changes });
    Ok(body.to_string().into())
}

/// All changes from now on, or from `since`.
pub(super) fn watch(app: &Arc<App>, query: Option<&str>, headers: &HeaderMap) -> Answer {
    open(app, query, headers).unwrap_or_else(|refused| *refused)
}

fn open(app: &Arc<App>, query: Option<&str>, headers: &HeaderMap) -> Result<Answer, Refused> {
    let query = Query::parse(query, &PARAMETERS)?;
    let wanted = Wanted::parse(app, &query)?;
    let with_status = query.flag("status")?;
    let Ok(permit) = app.streams.clone().try_acquire_owned() else {
        return Err(Box::new(answer::failure(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many streams are open; close some of them",
        )));
    };
    // The browser's Last-Event-ID takes precedence over the URL, which is from the first request.
    let header = headers.get(HeaderName::from_static("last-event-id"));
    let since = header
        .and_then(|value| value.to_str().ok())
        .or(query.get("since"));
    let beats = app.beats();
    let (number, resumed) = {
        let board = app.board.lock();
        let last = board.log.last();
        let known = since
            .and_then(|since| number_of(&app.epoch, since))
            .filter(|number| *number <= last);
        (known.unwrap_or(last), known.is_some())
    };
    let reader = Reader {
        app: app.clone(),
        beats,
        wanted,
        number,
        with_status,
        ticks: 0,
        hello: Some(!resumed),
        _permit: permit,
    };
    let pieces = stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((piece, reader))
    });
    let body = Body::from_stream(pieces.map(Ok::<_, Infallible>));
    let mut answer = answer::with_body(StatusCode::OK, "text/event-stream; charset=utf-8", body);
    answer
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(answer)
}

/// One reader.
struct Reader {
    app: Arc<App>,
    beats: watch::Receiver<Beat>,
    wanted: Wanted,
    /// The last change it received.
    number: u64,
    with_status: bool,
    /// The last status it received.
    ticks: u64,
    /// Whether the greeting has not been sent yet.
    hello: Option<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    /// The next chunk; `None` when the program stops.
    async fn next(&mut self) -> Option<String> {
        if let Some(fresh) = self.hello.take() {
            let mut piece = event(
                "hello",
                &json!({ "fresh": fresh, "epoch": self.app.epoch }),
                Some(&self.place()),
            );
            if self.with_status {
                piece.push_str(&event("status", &status::status(&self.app), None));
            }
            return Some(piece);
        }
        loop {
            if self.app.stop.is_cancelled() {
                return None;
            }
            let beat = *self.beats.borrow_and_update();
            let mut piece = self.changes();
            if self.with_status && beat.ticks != self.ticks {
                self.ticks = beat.ticks;
                piece.push_str(&event("status", &status::status(&self.app), None));
            }
            if !piece.is_empty() {
                return Some(piece);
            }
            let stop = self.app.stop.clone();
            // All are cancel-safe: what changed is looked up above, not received here.
            tokio::select! {
                () = stop.cancelled() => return None,
                changed = timeout(SILENCE, self.beats.changed()) => match changed {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return None,
                    Err(_) => return Some(":\n\n".to_owned()),
                },
            }
        }
    }

    /// What it has not received yet, up to the size of one chunk.
    fn changes(&mut self) -> String {
        let mut piece = String::new();
        loop {
            let (found, missed) = self.app.board.lock().log.after(self.number, BATCH);
            if let Some(Missed { changes }) = missed {
                self.number += changes;
                piece.push_str(&event("gap", &json!({ "missed": changes }), Some(&self.place())));
            }
            if found.is_empty() {
                return piece;
            }
            for entry in &found {
                if piece.len() >= BATCH_BYTES {
                    return piece;
                }
                self.number = entry.number;
                if !self.wanted.includes(entry) {
                    continue;
                }
                let name = if entry.change.key.is_some() {
                    "change"
                } else {
                    "synced"
                };
                let place = cursor(&self.app.epoch, entry.number);
                piece.push_str(&event(
                    name,
                    &change(self.app.id(entry.kind), entry),
                    Some(&place),
                ));
            }
            if !piece.is_empty() {
                return piece;
            }
        }
    }

    fn place(&self) -> String {
        cursor(&self.app.epoch, self.number)
    }
}

fn event(name: &str, data: &Value, id: Option<&str>) -> String {
    // JSON contains no raw line ends.
    match id {
        Some(id) => format!("event: {name}\nid: {id}\ndata: {data}\n\n"),
        None => format!("event: {name}\ndata: {data}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_another_run_is_rejected() {
        assert_eq!(number_of("abc", &cursor("abc", 7)), Some(7));
        for text in ["abd-7", "abc7", "abc-", "abc-x", "7", "", "abc--7"] {
            assert_eq!(number_of("abc", text), None, "{text}");
        }
    }
}
