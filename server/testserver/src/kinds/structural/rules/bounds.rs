//! The sizes of what a schema describes, as far as they are limited: by the schema, or by the size of a request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{flag, properties, schema_type};
use super::types::{escape, is_embedded};
use kube_cel::Bounds;

/// The largest request.
const REQUEST: u64 = 3 * 1024 * 1024;

/// The largest sizes of a schema's values, and the length of the shortest one as JSON; `None` if expressions cannot use them.
pub(super) fn bounds_of(schema: &Value, is_resource: bool) -> Option<(Bounds, u64)> {
    let sized = |most: u64| Bounds {
        most,
        ..Bounds::default()
    };
    let limit = |name: &str| schema.get(name).and_then(Value::as_i64);
    let limit = |name: &str| limit(name).map(|limit| u64::try_from(limit).unwrap_or(0));
    let text = || match limit("maxLength") {
        // Lengths are in characters, and sizes in bytes.
        Some(limit) => limit.saturating_mul(4),
        None => REQUEST - 2,
    };
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some((sized(text()), 1));
    }
    Some(match schema_type(schema)? {
        "array" => {
            let items = schema.get("items")?;
            let (element, least) = bounds_of(items, is_embedded(items))?;
            let most = limit("maxItems").unwrap_or((REQUEST - 2) / (least + 1));
            let bounds = Bounds {
                element: Some(Box::new(element)),
                ..sized(most)
            };
            (bounds, 2)
        }
        "object" => match schema
            .get("additionalProperties")
            .filter(|values| values.is_object())
        {
            Some(values) => {
                let (element, least) = bounds_of(values, is_embedded(values))?;
                let most = limit("maxProperties").unwrap_or((REQUEST - 2) / (least + 6));
                let bounds = Bounds {
                    element: Some(Box::new(element)),
                    key: Some(Box::default()),
                    ..sized(most)
                };
                (bounds, 2)
            }
            None if is_resource => object_bounds(&with_metadata(schema)),
            None => object_bounds(schema),
        },
        "string" => match schema.get("format").and_then(Value::as_str) {
            Some("byte") => (sized(limit("maxLength").unwrap_or(REQUEST - 2)), 2),
            Some("duration") => (sized(32), 3),
            Some("date") => (sized(12), 12),
            Some("date-time") => (sized(32), 21),
            _ => {
                let values = schema.get("enum").and_then(Value::as_array);
                let values = values.filter(|values| !values.is_empty() && limit("maxLength").is_none());
                let longest = values.map(|values| {
                    let lengths = values.iter().filter_map(Value::as_str).map(str::len);
                    lengths.max().unwrap_or(0) as u64
                });
                (sized(longest.unwrap_or_else(text)), 2)
            }
        },
        "boolean" => (sized(0), 4),
        "number" | "integer" => (sized(0), 1),
        _ => return None,
    })
}

fn object_bounds(schema: &Value) -> (Bounds, u64) {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|required| required.iter().any(|one| one.as_str() == Some(name)));
    let mut fields = BTreeMap::new();
    let mut least = 2;
    for (name, schema) in properties(schema) {
        let Some((bounds, shortest)) = bounds_of(schema, is_embedded(schema)) else {
            continue;
        };
        if is_required(name) && schema.get("default").is_none() {
            least += name.len() as u64 + shortest + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped, bounds);
        }
    }
    let bounds = Bounds {
        fields,
        ..Bounds::default()
    };
    (bounds, least)
}

/// The schema of a whole object with the fields that each of them has.
fn with_metadata(schema: &Value) -> Value {
    const NAME: i64 = 253;
    let mut schema = schema.clone();
    let is = |field: &str, kind: &str| schema.pointer(field).and_then(schema_type) == Some(kind);
    if is("/properties/kind", "string")
        && is("/properties/apiVersion", "string")
        && is("/properties/metadata", "object")
        && is("/properties/metadata/properties/name", "string")
        && is("/properties/metadata/properties/generateName", "string")
    {
        return schema;
    }
    let capped = |name: &str, limit: i64| {
        let own = schema.pointer(&format!("/properties/metadata/properties/{name}/maxLength"));
        let own = own.and_then(Value::as_i64).unwrap_or(limit);
        json!({ "type": "string", "maxLength": own.min(limit) })
    };
    let metadata = json!({ "type": "object", "properties": {
        "name": capped("name", NAME), "generateName": capped("generateName", NAME - 1),
    } });
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema["properties"] = json!({});
    }
    for (name, value) in [
        ("kind", json!({ "type": "string" })),
        ("apiVersion", json!({ "type": "string" })),
        ("metadata", metadata),
    ] {
        schema["properties"][name] = value;
    }
    schema
}

/// How many values a schema's elements, entries or fields have for each of its own; `None` if there is no limit.
pub(super) fn most_children(schema: &Value) -> Option<u64> {
    let limit = |name: &str| schema.get(name).and_then(Value::as_i64);
    let limit = |name: &str| limit(name).map(|limit| u64::try_from(limit).unwrap_or(0));
    match schema_type(schema) {
        Some("object") if schema.get("additionalProperties").is_some() => limit("maxProperties"),
        Some("array") => limit("maxItems"),
        _ => Some(1),
    }
}

/// How many values of this length fit into a request.
pub(super) fn most_values(length: u64) -> u64 {
    REQUEST / (length + 1)
}
