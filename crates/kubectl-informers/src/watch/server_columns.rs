//! The columns of kinds that this program has none for (custom resources, Ingress, ...), as the server's Table has them.
//!
//! They are requested once, for the table of the initial objects. Whatever goes wrong, the table is printed without them.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::{BodyExt, Limited};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::columns;
use crate::kinds::Kind;
use crate::session::Session;

/// How long the table of the initial objects waits for them.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Objects of one request, and requests of one kind.
const PAGE: usize = 500;
const MOST_PAGES: usize = 20;
/// The size of a response.
const MOST_BYTES: usize = 16 << 20;

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The columns of one kind with the cells of its objects.
#[derive(Default)]
pub struct ServerColumns {
    /// Names, and whether they are only part of the wide output.
    columns: Vec<(String, bool)>,
    /// The cells by namespace and name.
    rows: HashMap<(String, String), Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    column_definitions: Vec<Definition>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    token: String,
}

#[derive(Deserialize)]
struct Definition {
    name: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    cells: Vec<Value>,
    object: RowObject,
}

#[derive(Deserialize)]
struct RowObject {
    metadata: RowMeta,
}

#[derive(Deserialize)]
struct RowMeta {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// The columns of the kinds of a session that have none of ours, by the name of the kind.
pub async fn fetch(session: &Session) -> HashMap<String, ServerColumns> {
    let kinds = session.observed().iter().map(|observed| &*observed.kind);
    let requests = kinds
        .filter(|kind| !columns::are_known(kind))
        .map(|kind| async move {
            let columns = timeout(TIMEOUT, of_kind(session, kind)).await.ok().flatten()?;
            Some((kind.full_name(), columns))
        });
    join_all(requests).await.into_iter().flatten().collect()
}

async fn of_kind(session: &Session, kind: &Kind) -> Option<ServerColumns> {
    let (scope, client) = (session.scope(), &session.cluster().client);
    let namespaces: Vec<Option<String>> = match scope.selected_namespaces() {
        Some(names) if kind.namespaced => names.iter().cloned().map(Some).collect(),
        _ => vec![None],
    };
    let mut columns = ServerColumns::default();
    for namespace in namespaces {
        let mut token = String::new();
        for _ in 0..MOST_PAGES {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &PAGE.to_string());
            if !scope.label_selector().is_everything() {
                query.append_pair("labelSelector", &scope.label_selector().to_string());
            }
            if let Some(fields) = scope.field_selector() {
                query.append_pair("fieldSelector", &fields);
            }
            if !token.is_empty() {
                query.append_pair("continue", &token);
            }
            let path = kind.path(namespace.as_deref());
            let table = request(client, &format!("{path}?{}", query.finish())).await?;
            token.clone_from(&table.metadata.token);
            columns.add(table);
            if token.is_empty() {
                break;
            }
        }
    }
    Some(columns)
}

async fn request(client: &Client, path: &str) -> Option<Table> {
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, ACCEPT)
        .body(kube::client::Body::empty())
        .ok()?;
    let response = client.send(request).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let body = Limited::new(response.into_body(), MOST_BYTES)
        .collect()
        .await
        .ok()?;
    let table: Table = serde_json::from_slice(&body.to_bytes()).ok()?;
    // A server without tables sends the list.
    (table.kind == "Table").then_some(table)
}

impl ServerColumns {
    fn add(&mut self, table: Table) {
        // Both are columns of every table.
        let is_ours = |definition: &Definition| matches!(definition.name.as_str(), "Name" | "Age");
        let own: Vec<usize> = (0..table.column_definitions.len())
            .filter(|index| !table.column_definitions.get(*index).is_some_and(is_ours))
            .collect();
        if self.columns.is_empty() {
            let definitions = own
                .iter()
                .filter_map(|index| table.column_definitions.get(*index));
            self.columns = definitions
                .map(|definition| (definition.name.to_uppercase(), definition.priority > 0))
                .collect();
        }
        for row in table.rows {
            let cells = own.iter().map(|index| text(row.cells.get(*index))).collect();
            let meta = row.object.metadata;
            self.rows.insert((meta.namespace, meta.name), cells);
        }
    }

    /// The names of the columns.
    pub fn head(&self, wide: bool) -> Vec<String> {
        let columns = self.columns.iter().filter(|(_, is_wide)| wide || !is_wide);
        columns.map(|(name, _)| name.clone()).collect()
    }

    /// The cells of an object; empty ones if it was created after the request.
    pub fn row(&self, namespace: &str, name: &str, wide: bool) -> Vec<String> {
        let cells = self.rows.get(&(namespace.to_owned(), name.to_owned()));
        let cell = |index: usize| {
            cells
                .and_then(|cells| cells.get(index))
                .cloned()
                .unwrap_or_default()
        };
        let columns = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, (_, is_wide))| wide || !is_wide);
        columns.map(|(index, _)| cell(index)).collect()
    }
}

fn text(cell: Option<&Value>) -> String {
    match cell {
        None | Some(Value::Null) => "<none>".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_and_cells_are_those_of_the_server_without_name_and_age() {
        let mut columns = ServerColumns::default();
        columns.add(
            serde_json::from_value(json!({
                "kind": "Table", "columnDefinitions": [
                    { "name": "Name", "type": "string" }, { "name": "Size", "type": "integer" },
                    { "name": "Note", "type": "string", "priority": 1 }, { "name": "Age", "type": "date" },
                ],
                "rows": [{ "cells": ["a", 7, null, "3d"], "object": { "metadata": { "name": "a", "namespace": "shop" } } }],
            }))
            .unwrap(),
        );
        assert_eq!(columns.head(false), ["SIZE"]);
        assert_eq!(columns.head(true), ["SIZE", "NOTE"]);
        assert_eq!(columns.row("shop", "a", true), ["7", "<none>"]);
        assert_eq!(columns.row("shop", "new", false), [""]);
    }
}
