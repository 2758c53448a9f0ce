//! Objects of custom kinds and their schema: prunes unknown fields, sets defaults, validates.
//! Independent of requests and storage.

mod combine;
mod formats;
mod patterns;
mod rules;
mod unknown;
mod validate;

use serde_json::{Map, Value};

pub(crate) use formats::errors as format_errors;
pub(crate) use patterns::{Patterns, invalid_patterns};
pub(crate) use rules::{Rules, invalid_rules};
pub(crate) use unknown::unknown_fields;
pub(crate) use validate::{check, check_status};

/// The fields that every object has, independent of the schema.
const OF_EVERY_OBJECT: &[&str] = &["apiVersion", "kind", "metadata"];

/// Prunes unknown fields and sets defaults.
#[doc(alias = "Prune")]
#[doc(alias = "Default")]
pub(crate) fn settle(schema: &Value, object: &mut Map<String, Value>) {
    settle_with(schema, object, true);
}

/// Prunes unknown fields.
pub(crate) fn prune(schema: &Value, object: &mut Map<String, Value>) {
    settle_with(schema, object, false);
}

fn settle_with(schema: &Value, object: &mut Map<String, Value>, defaults: bool) {
    // Metadata is never pruned, even if the schema mentions it.
    let metadata = object.remove("metadata");
    settle_object(schema, object, true, defaults);
    if let Some(metadata) = metadata {
        object.insert("metadata".to_owned(), metadata);
    }
}

fn settle_value(schema: &Value, value: &mut Value, defaults: bool) {
    match value {
        Value::Object(map) => {
            let is_whole_object = flag(schema, "x-kubernetes-embedded-resource");
            settle_object(schema, map, is_whole_object, defaults);
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    settle_value(schema, item, defaults);
                }
            }
        }
        Value::Number(number) if schema_type(schema) == Some("integer") => {
            // `3.0` is an integer and is stored as one.
            let whole = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
            if let Some(whole) = whole.filter(|_| number.is_f64()) {
                *value = Value::from(whole as i64);
            }
        }
        _ => {}
    }
}

fn settle_object(schema: &Value, map: &mut Map<String, Value>, is_whole_object: bool, defaults: bool) {
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let any = schema.get("additionalProperties") == Some(&Value::Bool(true));
    map.retain(|key, value| match field(schema, key) {
        // A null that is not nullable is removed, or replaced by the default below.
        Some(schema) => !value.is_null() || flag(schema, "nullable"),
        None => preserve || any || (is_whole_object && OF_EVERY_OBJECT.contains(&key.as_str())),
    });
    for (name, schema) in properties(schema) {
        if let Some(default) = schema.get("default").filter(|_| defaults)
            && !map.contains_key(name)
        {
            map.insert(name.clone(), default.clone());
        }
    }
    for (key, value) in map.iter_mut() {
        if let Some(schema) = field(schema, key) {
            settle_value(schema, value, defaults);
        }
    }
}

/// The schema of a field: its own, or `additionalProperties`.
fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let own = schema
        .get("properties")
        .and_then(|properties| properties.get(name));
    own.or_else(|| {
        schema
            .get("additionalProperties")
            .filter(|schema| schema.is_object())
    })
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

fn schema_type(schema: &Value) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(object: Value) -> Value {
        let schema = json!({
            "type": "object",
            "properties": { "spec": { "type": "object", "properties": {
                "size": { "type": "integer" },
                "color": { "type": "string", "default": "red" },
                "note": { "type": "string", "nullable": true },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "counts": { "type": "object", "additionalProperties": { "type": "object", "properties": {
                    "n": { "type": "integer", "default": 1 },
                } } },
                "items": { "type": "array", "items": { "type": "object", "properties": {
                    "key": { "type": "string" }, "value": { "type": "string", "default": "v" },
                } } },
            } } },
        });
        let Value::Object(mut object) = object else {
            panic!("an object")
        };
        settle(&schema, &mut object);
        Value::Object(object)
    }

    #[test]
    fn unknown_fields_are_pruned() {
        let object = json!({
            "apiVersion": "v1", "kind": "Widget", "metadata": { "anything": 1 }, "other": 1,
            "spec": { "color": "blue", "extra": 1, "free": { "a": { "b": 1 } }, "items": [{ "key": "k", "value": "w", "z": 1 }] },
        });
        assert_eq!(
            settled(object),
            json!({
                "apiVersion": "v1", "kind": "Widget", "metadata": { "anything": 1 },
                "spec": { "color": "blue", "free": { "a": { "b": 1 } }, "items": [{ "key": "k", "value": "w" }] },
            })
        );
    }

    #[test]
    fn defaults_replace_missing_and_null_values() {
        let object = json!({ "spec": { "color": null, "note": null, "size": 3.0, "counts": { "a": {} }, "items": [{}] } });
        assert_eq!(
            settled(object),
            json!({ "spec": {
                "color": "red", "note": null, "size": 3, "counts": { "a": { "n": 1 } }, "items": [{ "value": "v" }],
            } })
        );
        assert_eq!(
            settled(json!({})),
            json!({}),
            "nested defaults apply only if the parent exists"
        );
        assert_eq!(
            settled(json!({ "spec": { "size": null } })),
            json!({ "spec": { "color": "red" } })
        );
    }
}
