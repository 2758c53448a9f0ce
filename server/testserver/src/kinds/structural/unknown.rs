//! Reports fields of a custom object that its schema does not define, for clients that request it.

use serde_json::{Map, Value};

use super::{OF_EVERY_OBJECT, field, flag};

/// The paths of the fields that the schema does not define: `spec.shape`, `spec.parts[0].weight`.
pub(crate) fn unknown_fields(schema: &Value, object: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    in_object(schema, object, true, "", &mut found);
    found
}

fn in_object(schema: &Value, map: &Map<String, Value>, whole: bool, path: &str, found: &mut Vec<String>) {
    let open = flag(schema, "x-kubernetes-preserve-unknown-fields")
        || schema.get("additionalProperties") == Some(&Value::Bool(true));
    for (name, value) in map {
        if whole && OF_EVERY_OBJECT.contains(&name.as_str()) {
            continue;
        }
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match field(schema, name) {
            Some(schema) => in_value(schema, value, &path, found),
            None if open => {}
            None => found.push(path),
        }
    }
}

fn in_value(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let whole = flag(schema, "x-kubernetes-embedded-resource");
            in_object(schema, map, whole, path, found);
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                in_value(schema, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_reported_by_path() {
        let part = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "parts": { "type": "array", "items": part },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } },
        } });
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a", "odd": 1 },
            "spec": {
                "parts": [{ "name": "x" }, { "name": "y", "weight": 1 }],
                "labels": { "any": "thing" }, "free": { "any": { "thing": 1 } }, "shape": "round",
            },
            "extra": true,
        });

        let Value::Object(object) = object else { return };
        let mut found = unknown_fields(&schema, &object);
        found.sort();

        assert_eq!(found, ["extra", "spec.parts[1].weight", "spec.shape"]);
    }
}
