//! Encodes `meta.k8s.io/v1` Tables, from which `kubectl get` prints its columns.
//!
//! Every column is sent, the wide ones with a priority; the client chooses which to show.

mod age;
mod cells;
mod cluster;
mod columns;
mod custom;
mod network;
mod pods;
mod printed;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::negotiation::IncludeObject;
use crate::resource::{Resource, internal_metadata};
use columns::Column;

pub use printed::PrinterColumns;

/// A table of objects. `metadata` is the metadata of the list, or only the resource version for one object. With
/// `headers` the column definitions are included; a watch sends them in its first event only.
pub fn table<'a>(
    resource: Resource<'_>,
    metadata: Value,
    objects: impl IntoIterator<Item = &'a Value>,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| row(resource, object, include, now))
        .collect();
    let columns = headers.then(|| column_definitions(resource));
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// A table of one object, for a get or an event of a watch.
pub fn table_of_one(
    resource: Resource<'_>,
    object: &Value,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let version = object
        .pointer("/metadata/resourceVersion")
        .cloned()
        .unwrap_or_else(|| json!(""));
    table(
        resource,
        json!({ "resourceVersion": version }),
        [object],
        include,
        headers,
        now,
    )
}

/// The column definitions of a resource.
pub fn column_definitions(resource: Resource<'_>) -> Vec<Value> {
    match resource.custom_columns {
        Some(columns) => custom::column_definitions(columns),
        None => columns_of(resource).0.iter().map(Column::definition).collect(),
    }
}

/// One row: the cells of an object and the part requested by `include`.
pub fn row(resource: Resource<'_>, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let cells = match resource.custom_columns {
        Some(columns) => custom::cells(columns, object, now),
        None => columns_of(resource).1(object, now),
    };
    let included = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => {
            let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
            if resource.has_internal_metadata() {
                metadata = internal_metadata(metadata);
            }
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
        }
        IncludeObject::Object => object.clone(),
    };
    let mut row = json!({ "cells": cells, "object": included });
    if let Value::Object(fields) = &mut row {
        fields.extend(pods::row_conditions(resource, object).map(|found| ("conditions".to_owned(), found)));
    }
    row
}

/// The cells of one object, one for each column of its kind.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

fn columns_of(resource: Resource<'_>) -> (&'static [Column], Cells) {
    known_columns((resource.group, resource.plural)).unwrap_or((columns::CREATED_AT, cells::created_at))
}

/// The columns of a built-in kind, by its group and plural.
fn known_columns(key: (&str, &str)) -> Option<(&'static [Column], Cells)> {
    pods::columns(key)
        .or_else(|| network::columns(key))
        .or_else(|| workloads::columns(key))
        .or_else(|| cluster::columns(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A built-in resource. Its columns depend on its group and name only.
    pub(super) fn builtin<'a>(group: &'a str, plural: &'a str) -> Resource<'a> {
        Resource {
            group,
            version: "v1",
            kind: "",
            list_kind: "",
            plural,
            custom_columns: None,
        }
    }

    /// The output of `kubectl get`: headings and cells, with the wide columns if requested.
    pub(super) fn printed(group: &str, plural: &str, object: Value, wide: bool) -> Vec<(String, String)> {
        let resource = builtin(group, plural);
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let columns = column_definitions(resource);
        let row = row(resource, &object, IncludeObject::None, now);
        let cells = row["cells"].as_array().unwrap().clone();
        assert_eq!(columns.len(), cells.len(), "{plural}: one cell for each column");
        columns
            .iter()
            .zip(cells)
            .filter(|(column, _)| wide || column["priority"] == 0)
            .map(|(column, cell)| {
                let text = cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
                (column["name"].as_str().unwrap().to_owned(), text)
            })
            .collect()
    }

    pub(super) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn a_table_carries_the_metadata_of_the_list_and_of_each_object() {
        let resource = builtin("", "configmaps");
        let object = json!({ "metadata": { "name": "a", "uid": "1" }, "data": { "x": "1" } });
        let metadata = json!({ "resourceVersion": "7", "continue": "token" });
        let now = Timestamp::UNIX_EPOCH;

        let answer = table(
            resource,
            metadata.clone(),
            [&object],
            IncludeObject::Metadata,
            true,
            now,
        );
        assert_eq!(answer["metadata"], metadata);
        assert_eq!(answer["columnDefinitions"][0]["name"], "Name");
        assert_eq!(answer["columnDefinitions"][0]["format"], "name");
        assert_eq!(
            answer["rows"][0]["object"],
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": { "name": "a", "uid": "1" } })
        );

        let event = table_of_one(resource, &object, IncludeObject::Object, false, now);
        assert_eq!(event["columnDefinitions"], Value::Null);
        assert_eq!(event["rows"][0]["object"], object);
        let bare = table(resource, json!({}), [&object], IncludeObject::None, true, now);
        assert_eq!(bare["rows"][0].get("object"), Some(&Value::Null));
    }

    #[test]
    fn kinds_without_columns_show_their_creation_time() {
        let role = json!({ "metadata": { "name": "r", "creationTimestamp": "2026-01-01T00:00:00Z" } });
        assert_eq!(
            printed("rbac.authorization.k8s.io", "roles", role, false),
            pairs(&[("Name", "r"), ("Created At", "2026-01-01T00:00:00Z")])
        );
    }
}
