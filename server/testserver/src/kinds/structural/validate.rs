//! Validates objects of custom kinds, in the wording of a real server.

use std::collections::HashSet;

use kube_api_protocol::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::{Patterns, combine, field, flag, formats, properties, schema_type};

/// Validates an object against its schema. Metadata is validated elsewhere.
pub(crate) fn check(schema: &Value, patterns: &Patterns, object: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut rest = object.clone();
    rest.remove("metadata");
    let place = Place::root(patterns);
    check_object(schema, &rest, &place, &mut errors);
    combine::check(schema, &Value::Object(rest), &place, &mut errors);
    errors
}

/// The same for a write of the status subresource, whose errors leave `status.` out where they quote the path.
pub(crate) fn check_status(
    schema: &Value,
    patterns: &Patterns,
    object: &Map<String, Value>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Some(schema), Some(status)) = (field(schema, "status"), object.get("status")) {
        let place = Place {
            path: "status".to_owned(),
            body: String::new(),
            patterns,
        };
        check_value(schema, status, &place, &mut errors);
    }
    errors
}

/// A position in the object: its path, and the name that errors use for it.
pub(super) struct Place<'a> {
    path: String,
    pub(super) body: String,
    patterns: &'a Patterns,
}

impl<'a> Place<'a> {
    fn root(patterns: &'a Patterns) -> Self {
        Place {
            path: String::new(),
            body: String::new(),
            patterns,
        }
    }

    fn field(&self, name: &str) -> Self {
        let below = |path: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Place {
            path: below(&self.path),
            body: below(&self.body),
            patterns: self.patterns,
        }
    }

    fn item(&self, position: usize) -> Self {
        Place {
            path: format!("{}[{position}]", self.path),
            body: format!("{}[{position}]", self.body),
            patterns: self.patterns,
        }
    }

    fn invalid(&self, value: impl Into<Value>, rule: impl std::fmt::Display) -> FieldError {
        FieldError::invalid(self.path.as_str(), value, format!("{} in body {rule}", self.body))
    }

    fn wrong_type(&self, shown: &str, wanted: &str) -> FieldError {
        let detail = format!("{} in body must be of type {wanted}: \"{shown}\"", self.body);
        FieldError::type_invalid(self.path.as_str(), shown, detail)
    }
}

pub(super) fn check_value(schema: &Value, value: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    let actual = type_of(value);
    let wanted = match schema_type(schema) {
        Some(wanted) => wanted,
        None if flag(schema, "x-kubernetes-int-or-string") => "integer,string",
        None => actual,
    };
    let fits = wanted
        .split(',')
        .any(|wanted| wanted == actual || (wanted, actual) == ("number", "integer"));
    if !fits {
        errors.push(place.wrong_type(actual, wanted));
        if (wanted, actual) == ("integer", "number") {
            let why = format!(
                "Checked value must be of type integer (default format) in {}",
                place.body
            );
            errors.push(FieldError::invalid("<nil>", "", why));
        }
        combine::check(schema, value, place, errors);
        return;
    }
    combine::check(schema, value, place, errors);
    check_enum(schema, value, place, errors);
    match value {
        Value::Number(number) => check_number(schema, number, place, errors),
        Value::String(text) => check_text(schema, text, place, errors),
        Value::Array(items) => check_items(schema, items, place, errors),
        Value::Object(map) => check_object(schema, map, place, errors),
        _ => {}
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_enum(schema: &Value, value: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let Some(allowed) = schema.get("enum").and_then(Value::as_array) else {
        return;
    };
    if allowed.contains(value) {
        return;
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let allowed: Vec<String> = allowed.iter().map(text).collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    errors.push(FieldError::not_supported(
        place.path.as_str(),
        value.clone(),
        &allowed,
    ));
}

fn check_number(
    schema: &Value,
    number: &serde_json::Number,
    place: &Place<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(value) = number.as_f64() else { return };
    // Rust prints a whole number parsed from `1.0` as Go does, without the fraction.
    let limit = |name: &str| {
        let limit = schema.get(name).and_then(Value::as_f64)?;
        Some((limit.to_string(), limit))
    };
    let mut refuse = |rule: String| errors.push(place.invalid(number.clone(), rule));
    if let Some((shown, least)) = limit("minimum") {
        match flag(schema, "exclusiveMinimum") {
            true if value <= least => refuse(format!("should be greater than {shown}")),
            false if value < least => refuse(format!("should be greater than or equal to {shown}")),
            _ => {}
        }
    }
    if let Some((shown, most)) = limit("maximum") {
        match flag(schema, "exclusiveMaximum") {
            true if value >= most => refuse(format!("should be less than {shown}")),
            false if value > most => refuse(format!("should be less than or equal to {shown}")),
            _ => {}
        }
    }
    if let Some((shown, factor)) = limit("multipleOf").filter(|(_, factor)| *factor > 0.0)
        && (value / factor).fract() != 0.0
    {
        refuse(format!("should be a multiple of {shown}"));
    }
    let is_int32 = schema.get("format").and_then(Value::as_str) == Some("int32");
    if is_int32 && number.as_i64().is_none_or(|value| i32::try_from(value).is_err()) {
        let why = format!(
            "Checked value must be of type integer with format int32 in {}",
            place.body
        );
        errors.push(FieldError::invalid("<nil>", "", why));
    }
}

fn check_text(schema: &Value, text: &str, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let length = text.chars().count();
    if let Some(least) = size(schema, "minLength").filter(|least| length < *least) {
        errors.push(place.invalid(text, format!("should be at least {least} chars long")));
    }
    if let Some(most) = size(schema, "maxLength").filter(|most| length > *most) {
        errors.push(FieldError::too_long(place.path.as_str(), most));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && place.patterns.violates(pattern, text)
    {
        errors.push(place.invalid(text, format!("should match '{pattern}'")));
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && !formats::fits(format, text)
    {
        errors.push(place.wrong_type(text, format));
    }
}

fn check_items(schema: &Value, items: &[Value], place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if let Some(schema) = schema.get("items") {
        for (position, item) in items.iter().enumerate() {
            check_value(schema, item, &place.item(position), errors);
        }
    }
    if let Some(least) = size(schema, "minItems").filter(|least| items.len() < *least) {
        errors.push(place.invalid(items.len(), format!("should have at least {least} items")));
    }
    if let Some(most) = size(schema, "maxItems").filter(|most| items.len() > *most) {
        errors.push(FieldError::too_many(place.path.as_str(), items.len(), most));
    }
    let identity = |item: &Value| match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Some(item.clone()),
        Some("map") => {
            let keys = schema
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)?;
            let keys = keys.iter().filter_map(Value::as_str);
            let key: Map<String, Value> = keys
                .filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())))
                .collect();
            (!key.is_empty()).then(|| json!(key))
        }
        _ => None,
    };
    let mut seen: HashSet<Value> = HashSet::new();
    for (position, item) in items.iter().enumerate() {
        let Some(identity) = identity(item) else { continue };
        if !seen.insert(identity.clone()) {
            errors.push(FieldError::duplicate(place.item(position).path, identity));
        }
    }
}

fn check_object(schema: &Value, map: &Map<String, Value>, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let required = schema.get("required").and_then(Value::as_array);
    let mut required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    if flag(schema, "x-kubernetes-embedded-resource") {
        required.extend(
            ["apiVersion", "kind"]
                .iter()
                .filter(|name| !required.contains(*name))
                .collect::<Vec<_>>(),
        );
    }
    for name in required.into_iter().filter(|name| !map.contains_key(*name)) {
        errors.push(FieldError::required(place.field(name).path, ""));
    }
    // In the order of the schema, then all other fields.
    let known = properties(schema).filter_map(|(name, _)| map.get_key_value(name));
    let declared = schema.get("properties");
    let others = map.iter().filter(|(name, _)| {
        declared
            .and_then(|declared| declared.get(name.as_str()))
            .is_none()
    });
    for (name, value) in known.chain(others) {
        if let Some(schema) = field(schema, name) {
            check_value(schema, value, &place.field(name), errors);
        }
    }
    if let Some(least) = size(schema, "minProperties").filter(|least| map.len() < *least) {
        errors.push(place.invalid(map.len(), format!("should have at least {least} properties")));
    }
    if let Some(most) = size(schema, "maxProperties").filter(|most| map.len() > *most) {
        errors.push(FieldError::too_many(place.path.as_str(), map.len(), most));
    }
}

fn size(schema: &Value, name: &str) -> Option<usize> {
    schema
        .get(name)
        .and_then(Value::as_u64)
        .and_then(|size| usize::try_from(size).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "spec": { "type": "object", "required": ["size"], "minProperties": 1, "maxProperties": 3, "properties": {
                    "size": { "type": "integer", "minimum": 1.0, "maximum": 10 },
                    "color": { "type": "string", "enum": ["red", "blue"] },
                    "level": { "type": "integer", "enum": [1, 2] },
                    "name": { "type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$" },
                    "tags": { "type": "array", "maxItems": 2, "items": { "type": "string" } },
                    "few": { "type": "array", "minItems": 2, "items": { "type": "string" } },
                    "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
                    "either": { "x-kubernetes-int-or-string": true },
                    "part": { "type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 2.5, "exclusiveMaximum": true },
                    "fives": { "type": "integer", "multipleOf": 5 },
                    "small": { "type": "integer", "format": "int32" },
                    "when": { "type": "string", "format": "date-time" },
                    "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
                    "map": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                             "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" } } } },
                    "inner": { "type": "object", "x-kubernetes-embedded-resource": true,
                               "x-kubernetes-preserve-unknown-fields": true },
                } },
                "status": { "type": "object", "properties": { "ready": { "type": "boolean" } } },
            },
        })
    }

    fn errors_for(spec: Value) -> Vec<String> {
        let Value::Object(object) = json!({ "metadata": {}, "spec": spec }) else {
            panic!("an object")
        };
        check(&schema(), &Patterns::compile(&schema()), &object)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Expected messages were recorded from kube-apiserver 1.37.1.
    #[test]
    fn validation_errors_match_a_real_server() {
        let cases = [
            (
                json!({ "size": 0 }),
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ),
            (
                json!({ "size": 11 }),
                "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
            ),
            (
                json!({ "size": "3" }),
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ),
            (json!({ "color": "red" }), "spec.size: Required value"),
            (
                json!({ "size": 3, "color": "green" }),
                "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            ),
            (
                json!({ "size": 3, "level": 3 }),
                "spec.level: Unsupported value: 3: supported values: \"1\", \"2\"",
            ),
            (
                json!({ "size": 3, "name": "a" }),
                "spec.name: Invalid value: \"a\": spec.name in body should be at least 2 chars long",
            ),
            (
                json!({ "size": 3, "name": "abcdefg" }),
                "spec.name: Too long: may not be more than 5 bytes",
            ),
            (
                json!({ "size": 3, "name": "A1" }),
                "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'",
            ),
            (
                json!({ "size": 3, "tags": ["a", "b", "c"] }),
                "spec.tags: Too many: 3: must have at most 2 items",
            ),
            (
                json!({ "size": 3, "tags": ["a", 5] }),
                "spec.tags[1]: Invalid value: \"integer\": spec.tags[1] in body must be of type string: \"integer\"",
            ),
            (
                json!({ "size": 3, "tags": [null] }),
                "spec.tags[0]: Invalid value: \"null\": spec.tags[0] in body must be of type string: \"null\"",
            ),
            (
                json!({ "size": 3, "few": ["a"] }),
                "spec.few: Invalid value: 1: spec.few in body should have at least 2 items",
            ),
            (
                json!({ "size": 3, "counts": { "a": "x" } }),
                "spec.counts.a: Invalid value: \"string\": spec.counts.a in body must be of type integer: \"string\"",
            ),
            (
                json!({ "size": 3, "either": [] }),
                "spec.either: Invalid value: \"array\": spec.either in body must be of type integer,string: \"array\"",
            ),
            (
                json!({ "size": 3, "part": 1 }),
                "spec.part: Invalid value: 1: spec.part in body should be greater than 1",
            ),
            (
                json!({ "size": 3, "part": 2.5 }),
                "spec.part: Invalid value: 2.5: spec.part in body should be less than 2.5",
            ),
            (
                json!({ "size": 3, "fives": 7 }),
                "spec.fives: Invalid value: 7: spec.fives in body should be a multiple of 5",
            ),
            (
                json!({ "size": 3, "small": 5_000_000_000_u64 }),
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.small",
            ),
            (
                json!({ "size": 3, "when": "soon" }),
                "spec.when: Invalid value: \"soon\": spec.when in body must be of type date-time: \"soon\"",
            ),
            (
                json!({ "size": 3, "set": ["a", "a"] }),
                "spec.set[1]: Duplicate value: \"a\"",
            ),
            (
                json!({ "size": 3, "map": [{ "k": "a" }, { "k": "a" }] }),
                "spec.map[1]: Duplicate value: {\"k\":\"a\"}",
            ),
            (json!({ "size": 3, "map": [{}] }), "spec.map[0].k: Required value"),
            (
                json!({ "size": 3, "level": 1, "tags": [], "either": 1 }),
                "spec: Too many: 4: must have at most 3 items",
            ),
            (
                json!("x"),
                "spec: Invalid value: \"string\": spec in body must be of type object: \"string\"",
            ),
        ];
        for (spec, complaint) in cases {
            assert_eq!(errors_for(spec.clone()), [complaint], "{spec}");
        }
        assert_eq!(
            errors_for(json!({})),
            [
                "spec.size: Required value",
                "spec: Invalid value: 0: spec in body should have at least 1 properties"
            ]
        );
        assert_eq!(
            errors_for(json!({ "size": 1.5 })),
            [
                "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.size"
            ]
        );
        assert_eq!(
            errors_for(json!({ "size": 3, "inner": { "a": 1 } })),
            [
                "spec.inner.apiVersion: Required value",
                "spec.inner.kind: Required value"
            ]
        );
    }

    #[test]
    fn valid_objects_are_accepted() {
        for spec in [
            json!({ "size": 3, "either": "5", "when": "2020-01-01T00:00:00Z" }),
            json!({ "size": 3, "part": 2, "fives": 10 }),
            json!({ "size": 3, "map": [{ "k": "a" }, { "k": "b" }], "unknown": true }),
        ] {
            assert_eq!(errors_for(spec.clone()), [] as [&str; 0], "{spec}");
        }
    }

    #[test]
    fn status_is_validated_alone() {
        let Value::Object(object) = json!({ "spec": {}, "status": { "ready": "x" } }) else {
            panic!("an object")
        };
        let complaints: Vec<String> = check_status(&schema(), &Patterns::compile(&schema()), &object)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            complaints,
            ["status.ready: Invalid value: \"string\": ready in body must be of type boolean: \"string\""]
        );
    }
}
