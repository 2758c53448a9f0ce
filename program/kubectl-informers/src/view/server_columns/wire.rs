//! Tables as a server sends them.

use std::ops::ControlFlow;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

/// The size of a response, and of one event of a watch.
const MOST_BYTES: usize = 16 << 20;

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    kind: String,
    #[serde(default)]
    pub metadata: ListMeta,
    /// Only the first event of a watch has them.
    pub column_definitions: Option<Vec<Definition>>,
    #[serde(default)]
    pub rows: Vec<Row>,
}

impl Table {
    /// The version of the table, or of its last row.
    pub fn version(&self) -> Option<&str> {
        let of_row = self.rows.last().map(|row| &row.object.metadata.resource_version);
        [Some(&self.metadata.resource_version), of_row]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .find(|version| !version.is_empty())
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    pub r#continue: String,
}

#[derive(Deserialize)]
pub(super) struct Definition {
    pub name: String,
    #[serde(default)]
    pub r#type: String,
    #[serde(default)]
    pub priority: i64,
}

#[derive(Deserialize)]
pub(super) struct Row {
    #[serde(default)]
    pub cells: Vec<Value>,
    pub object: RowObject,
}

#[derive(Deserialize)]
pub(super) struct RowObject {
    pub metadata: RowMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RowMeta {
    /// A bookmark has none.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub resource_version: String,
}

/// One event of a watch.
#[derive(Deserialize)]
pub(super) struct Event {
    pub r#type: String,
    pub object: Table,
}

async fn get(client: &Client, path: &str) -> Option<Body> {
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, ACCEPT)
        .body(Body::empty())
        .ok()?;
    let response = client.send(request).await.ok()?;
    response.status().is_success().then(|| response.into_body())
}

/// A list as a table; `None` if the server has no tables, or anything goes wrong.
pub(super) async fn list(client: &Client, path: &str) -> Option<Table> {
    let body = Limited::new(get(client, path).await?, MOST_BYTES);
    let table: Table = serde_json::from_slice(&body.collect().await.ok()?.to_bytes()).ok()?;
    // A server without tables sends the list.
    (table.kind == "Table").then_some(table)
}

/// Watches until the server ends it, calling `opened` once and `each` with every event. `None` if something goes wrong.
pub(super) async fn watch(
    client: &Client,
    path: &str,
    opened: impl FnOnce(),
    mut each: impl FnMut(Event),
) -> Option<()> {
    let mut body = get(client, path).await?;
    opened();
    let mut lines = Lines::default();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.ok()?.into_data() else {
            continue;
        };
        let flow = lines.push(&bytes, |line| match serde_json::from_slice::<Event>(line) {
            Ok(event) if event.object.kind == "Table" => {
                each(event);
                ControlFlow::Continue(())
            }
            // An error of the server, or not a table.
            _ => ControlFlow::Break(()),
        });
        if flow.is_break() {
            return None;
        }
    }
    Some(())
}

/// Lines of a stream.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Calls `each` with the lines that are complete. Ends when it does, or when a line is too long.
    fn push(&mut self, bytes: &Bytes, mut each: impl FnMut(&[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                if !line.trim_ascii().is_empty() {
                    each(&line)?;
                }
            }
        }
        match self.begun.len() > MOST_BYTES {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_wherever_the_stream_is_cut() {
        let text = "{\"a\":1}\n\n{\"b\":2}\n{\"c\"";
        for cut in 0..text.len() {
            let (first, second) = text.split_at(cut);
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for part in [first, second] {
                let flow = lines.push(&Bytes::from(part), |line| {
                    seen.push(String::from_utf8_lossy(line).trim().to_owned());
                    ControlFlow::Continue(())
                });
                assert!(flow.is_continue());
            }
            assert_eq!(seen, ["{\"a\":1}", "{\"b\":2}"], "cut at {cut}");
        }
    }

    #[test]
    fn an_endless_line_ends_the_stream() {
        let mut lines = Lines::default();
        let part = Bytes::from(vec![b'x'; MOST_BYTES / 2 + 1]);
        let ends = |lines: &mut Lines| lines.push(&part, |_| ControlFlow::Continue(())).is_break();
        assert!(!ends(&mut lines));
        assert!(ends(&mut lines));
    }
}
