//! A schema as the types of expressions, and objects as their values.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use super::super::{field, flag, properties, schema_type};
use kube_cel::{
    Identity, Key, List, ObjectType, RESERVED, Type, Value, parse_duration_in_words, parse_timestamp,
};

/// The type of a schema's values; `None` if expressions cannot use them, because their type is unknown. `is_resource` says
/// that the schema is that of a whole object, whose metadata is known.
#[doc(alias = "SchemaDeclType")]
pub(super) fn type_of(schema: &Json, is_resource: bool, name: &str) -> Option<Type> {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some(Type::Dyn);
    }
    match schema_type(schema)? {
        "array" => {
            let items = schema.get("items")?;
            type_of(items, is_embedded(items), &format!("{name}.@idx")).map(Type::list)
        }
        "object" => match schema
            .get("additionalProperties")
            .filter(|values| values.is_object())
        {
            Some(values) => {
                let values = type_of(values, is_embedded(values), &format!("{name}.@elem"))?;
                Some(Type::map(Type::String, values))
            }
            None => Some(object_type(schema, is_resource, name)),
        },
        "string" => Some(match schema.get("format").and_then(Json::as_str) {
            Some("byte") => Type::Bytes,
            Some("duration") => Type::Duration,
            Some("date" | "date-time") => Type::Timestamp,
            _ => Type::String,
        }),
        "boolean" => Some(Type::Bool),
        "number" => Some(Type::Double),
        "integer" => Some(Type::Int),
        _ => None,
    }
}

fn object_type(schema: &Json, is_resource: bool, name: &str) -> Type {
    let object = |name: String, fields| Type::Object(Arc::new(ObjectType { name, fields }));
    let mut fields = std::collections::BTreeMap::new();
    for (property, schema) in properties(schema) {
        if let Some(escaped) = escape(property)
            && let Some(kind) = type_of(schema, is_embedded(schema), &format!("{name}.{escaped}"))
        {
            fields.insert(escaped, kind);
        }
    }
    if is_resource {
        let metadata = ["name", "generateName"].map(|name| (name.to_owned(), Type::String));
        fields.insert("apiVersion".to_owned(), Type::String);
        fields.insert("kind".to_owned(), Type::String);
        fields.insert(
            "metadata".to_owned(),
            object(format!("{name}.metadata"), metadata.into()),
        );
    }
    object(name.to_owned(), fields)
}

pub(super) fn is_embedded(schema: &Json) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

/// The name of a field in expressions; `None` if it has none.
#[doc(alias = "Escape")]
pub(super) fn escape(name: &str) -> Option<String> {
    let first = name.chars().next()?;
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-/".contains(letter);
    if first.is_ascii_digit() || !name.chars().all(allowed) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name.replace("__", "__underscores__");
    Some(
        escaped
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}

/// The value of a part of an object, typed as its schema says.
#[doc(alias = "UnstructuredToVal")]
pub(super) fn value_of(schema: &Json, json: &Json) -> Value {
    match (json, schema_type(schema)) {
        _ if flag(schema, "x-kubernetes-int-or-string") => Value::from(json),
        (Json::Object(fields), Some("object")) => object_value(schema, fields),
        (Json::Array(items), Some("array")) => list_value(schema, items),
        (Json::String(text), Some("string")) => text_value(schema, text),
        (Json::Number(number), Some("number")) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        _ => Value::from(json),
    }
}

fn object_value(schema: &Json, fields: &Map<String, Json>) -> Value {
    let has_properties = schema.get("properties").is_some_and(Json::is_object);
    let entry = |(name, json): (&String, &Json)| {
        let value = match field(schema, name) {
            Some(schema) => value_of(schema, json),
            None => Value::from(json),
        };
        let name = Some(name)
            .filter(|_| has_properties)
            .and_then(|name| escape(name))
            .unwrap_or_else(|| name.clone());
        (Key::String(name.into()), value)
    };
    Value::Map(Arc::new(fields.iter().map(entry).collect()))
}

fn list_value(schema: &Json, items: &[Json]) -> Value {
    let identity = match schema.get("x-kubernetes-list-type").and_then(Json::as_str) {
        Some("set") => Identity::Element,
        Some("map") => Identity::Fields(list_keys(schema).filter_map(escape).collect()),
        _ => Identity::Position,
    };
    let item = |item: &Json| match schema.get("items") {
        Some(schema) => value_of(schema, item),
        None => Value::from(item),
    };
    Value::List(Arc::new(List {
        items: items.iter().map(item).collect(),
        identity,
    }))
}

/// The fields that identify the elements of a list.
pub(super) fn list_keys(schema: &Json) -> impl Iterator<Item = &str> {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array);
    keys.into_iter().flatten().filter_map(Json::as_str)
}

/// A text by its format. Texts that do not have it were rejected before.
fn text_value(schema: &Json, text: &str) -> Value {
    let value = match schema.get("format").and_then(Json::as_str) {
        Some("byte") => STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into())),
        Some("duration") => parse_duration_in_words(text).map(Value::Duration),
        Some("date") => parse_timestamp(&format!("{text}T00:00:00Z")).map(Value::Timestamp),
        Some("date-time") => parse_timestamp(text).map(Value::Timestamp),
        _ => None,
    };
    value.unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped() {
        for (name, escaped) in [
            ("size", Some("size")),
            ("namespace", Some("__namespace__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("1a", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }

    #[test]
    fn types_follow_the_schema() {
        let schema = json!({ "type": "object", "properties": {
            "when": { "type": "string", "format": "date-time" },
            "either": { "x-kubernetes-int-or-string": true },
            "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
            "free": { "x-kubernetes-preserve-unknown-fields": true },
            "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "number" } } } },
        } });
        let Some(Type::Object(root)) = type_of(&schema, true, "selfType") else {
            panic!("an object")
        };
        let shown = |name: &str| root.fields.get(name).map(ToString::to_string);
        assert_eq!(shown("when").as_deref(), Some("timestamp"));
        assert_eq!(shown("either").as_deref(), Some("dyn"));
        assert_eq!(shown("counts").as_deref(), Some("map(string, int)"));
        assert_eq!(shown("list").as_deref(), Some("list(selfType.list.@idx)"));
        assert_eq!(shown("free"), None);
        assert_eq!(shown("metadata").as_deref(), Some("selfType.metadata"));
    }
}
