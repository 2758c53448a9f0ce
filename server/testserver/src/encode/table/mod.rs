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
pub mod printed;
mod workloads;

use jiff::Timestamp;
use kube_api_protocol::negotiation::IncludeObject;
use serde_json::{Value, json};

use crate::kinds::{Kind, has_internal_metadata, internal_metadata};
use columns::Column;

/// A table of objects. `metadata` is the metadata of the list, or only the resource version for one object. With
/// `headers` the column definitions are included; a watch sends them in its first event only.
pub fn table<'a>(
    kind: &Kind,
    metadata: Value,
    objects: impl IntoIterator<Item = &'a Value>,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| row(kind, object, include, now))
        .collect();
    let columns = headers.then(|| column_definitions(kind));
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
    kind: &Kind,
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
        kind,
        json!({ "resourceVersion": version }),
        [object],
        include,
        headers,
        now,
    )
}

/// The column definitions of a kind.
pub fn column_definitions(kind: &Kind) -> Vec<Value> {
    if kind.custom {
        return custom::column_definitions(kind);
    }
    columns_of(kind).0.iter().map(Column::definition).collect()
}

/// One row: the cells of an object and the part requested by `include`.
pub fn row(kind: &Kind, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let cells = if kind.custom {
        custom::cells(kind, object, now)
    } else {
        columns_of(kind).1(object, now)
    };
    let included = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => {
            let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
            if has_internal_metadata(kind) {
                metadata = internal_metadata(metadata);
            }
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
        }
        IncludeObject::Object => object.clone(),
    };
    let mut row = json!({ "cells": cells, "object": included });
    if let Value::Object(fields) = &mut row {
        fields.extend(pods::row_conditions(kind, object).map(|found| ("conditions".to_owned(), found)));
    }
    row
}

/// The cells of one object, one for each column of its kind.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

fn columns_of(kind: &Kind) -> (&'static [Column], Cells) {
    known_columns((kind.group.as_str(), kind.plural.as_str()))
        .unwrap_or((columns::CREATED_AT, cells::created_at))
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
    use proptest::prelude::*;

    use super::*;
    use crate::kinds::Registry;

    /// The output of `kubectl get`: headings and cells, with the wide columns if requested.
    pub(super) fn printed(group: &str, plural: &str, object: Value, wide: bool) -> Vec<(String, String)> {
        let kind = Registry::builtin().resource(group, "v1", plural).unwrap();
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let columns = column_definitions(&kind);
        let row = row(&kind, &object, IncludeObject::None, now);
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
    fn every_kind_has_one_cell_per_column_even_for_an_empty_object() {
        let now = Timestamp::UNIX_EPOCH;
        for kind in Registry::builtin_with_previews().iter() {
            for odd in [
                json!({}),
                json!(null),
                json!({ "metadata": 1, "spec": [], "status": "x" }),
            ] {
                let row = row(kind, &odd, IncludeObject::Metadata, now);
                let cells = row["cells"].as_array().map(Vec::len);
                assert_eq!(
                    cells,
                    Some(column_definitions(kind).len()),
                    "{}",
                    kind.group_kind()
                );
            }
        }
    }

    #[test]
    fn a_table_carries_the_metadata_of_the_list_and_of_each_object() {
        let kind = Registry::builtin().resource("", "v1", "configmaps").unwrap();
        let object = json!({ "metadata": { "name": "a", "uid": "1" }, "data": { "x": "1" } });
        let metadata = json!({ "resourceVersion": "7", "continue": "token" });
        let now = Timestamp::UNIX_EPOCH;

        let answer = table(
            &kind,
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

        let event = table_of_one(&kind, &object, IncludeObject::Object, false, now);
        assert_eq!(event["columnDefinitions"], Value::Null);
        assert_eq!(event["rows"][0]["object"], object);
        let bare = table(&kind, json!({}), [&object], IncludeObject::None, true, now);
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

    proptest! {
        #[test]
        fn arbitrary_objects_have_a_row(
            spec in any_part(), status in any_part(), metadata in any_part(), seconds in -1_000_000_i64..4_000_000_000,
        ) {
            let now = Timestamp::from_second(seconds).unwrap();
            let object = json!({ "metadata": metadata, "spec": spec, "status": status });
            for kind in Registry::builtin().iter() {
                let row = row(kind, &object, IncludeObject::Metadata, now);
                prop_assert_eq!(row["cells"].as_array().map(Vec::len), Some(column_definitions(kind).len()));
            }
        }
    }

    fn any_part() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec![
            "name",
            "containers",
            "initContainers",
            "containerStatuses",
            "initContainerStatuses",
            "state",
            "terminated",
            "waiting",
            "reason",
            "restartCount",
            "conditions",
            "type",
            "status",
            "ports",
            "replicas",
            "metrics",
            "creationTimestamp",
            "labels",
            "addresses",
            "ingress",
            "loadBalancer",
            "hard",
            "rules",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(|number| json!(number)),
            any::<bool>().prop_map(|flag| json!(flag)),
            Just(json!("Resource")),
            Just(json!("2026-01-01T00:00:00Z")),
        ];
        leaf.prop_recursive(5, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| map
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }
}
