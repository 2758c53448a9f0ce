//! `allOf`, `anyOf`, `oneOf` and `not`, with the errors of a real server.

use kube_api_protocol::field_error::FieldError;
use serde_json::Value;

use super::validate::{Place, check_value};
use super::{field, properties};

/// Validates a value against the combined schemas of its schema.
pub(super) fn check(schema: &Value, value: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let schemas = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    let refuse = |rule: String| FieldError::invalid("<nil>", "", format!("\"{}\" {rule}", place.body));
    if let Some(schemas) = schemas("anyOf").filter(|schemas| !schemas.is_empty()) {
        let tried = attempts(schemas, value, place);
        if !tried.iter().any(Vec::is_empty) {
            errors.push(refuse("must validate at least one schema (anyOf)".to_owned()));
            errors.extend(best(schemas, value, tried));
        }
    }
    if let Some(schemas) = schemas("oneOf").filter(|schemas| !schemas.is_empty()) {
        let tried = attempts(schemas, value, place);
        let rule = "must validate one and only one schema (oneOf).";
        match tried.iter().filter(|errors| errors.is_empty()).count() {
            0 => {
                errors.push(refuse(format!("{rule} Found none valid")));
                errors.extend(best(schemas, value, tried));
            }
            1 => {}
            count => errors.push(refuse(format!("{rule} Found {count} valid alternatives"))),
        }
    }
    if let Some(schemas) = schemas("allOf") {
        let tried = attempts(schemas, value, place);
        let valid = tried.iter().filter(|errors| errors.is_empty()).count();
        errors.extend(tried.into_iter().flatten());
        if valid < schemas.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            errors.push(refuse(format!("must validate all the schemas (allOf){none}")));
        }
    }
    if let Some(schema) = schema.get("not") {
        let mut tried = Vec::new();
        check_value(schema, value, place, &mut tried);
        if tried.is_empty() {
            errors.push(refuse("must not validate the schema (not)".to_owned()));
        }
    }
}

/// The errors of each schema.
fn attempts(schemas: &[Value], value: &Value, place: &Place<'_>) -> Vec<Vec<FieldError>> {
    let attempt = |schema: &Value| {
        let mut errors = Vec::new();
        check_value(schema, value, place, &mut errors);
        errors
    };
    schemas.iter().map(attempt).collect()
}

/// The errors of the schema that describes most of the value, the first of several.
fn best(schemas: &[Value], value: &Value, tried: Vec<Vec<FieldError>>) -> Vec<FieldError> {
    let mut best: Option<(usize, Vec<FieldError>)> = None;
    for (schema, errors) in schemas.iter().zip(tried) {
        let described = described(schema, value);
        if best.as_ref().is_none_or(|(most, _)| described > *most) {
            best = Some((described, errors));
        }
    }
    best.map(|(_, errors)| errors).unwrap_or_default()
}

/// The number of values below this one that a schema describes.
fn described(schema: &Value, value: &Value) -> usize {
    match value {
        Value::Object(map) => properties(schema)
            .filter_map(|(name, _)| Some((field(schema, name)?, map.get(name)?)))
            .map(|(schema, value)| 1 + described(schema, value))
            .sum(),
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items.iter().map(|item| 1 + described(schema, item)).sum(),
            None => 0,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Patterns, check};
    use super::*;

    /// Schema, value and messages were recorded from kube-apiserver 1.37.1.
    #[test]
    fn combined_schemas_have_the_errors_of_a_real_server() {
        let object = |rest: Value| {
            let mut schema = json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } });
            if let (Some(schema), Value::Object(rest)) = (schema.as_object_mut(), rest) {
                schema.extend(rest);
            }
            schema
        };
        let pair =
            json!([{ "required": ["a"] }, { "required": ["b"], "properties": { "b": { "minimum": 5 } } }]);
        let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "one": object(json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] })),
            "any": object(json!({ "anyOf": pair })),
            "all": object(json!({ "allOf": pair })),
            "ios": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
            "num": { "type": "integer", "oneOf": [{ "minimum": 5 }, { "maximum": 2 }] },
            "txt": { "type": "string", "anyOf": [{ "pattern": "^a" }, { "pattern": "^b" }] },
            "list": { "type": "array", "items": { "type": "string", "not": { "pattern": "^x" } } },
        } } } });
        let patterns = Patterns::compile(&schema);
        let errors_of = |spec: &Value| -> Vec<String> {
            let object = json!({ "spec": spec });
            let errors = check(&schema, &patterns, object.as_object().expect("an object"));
            errors.iter().map(ToString::to_string).collect()
        };
        let none = |rule: &str| format!("<nil>: Invalid value: \"\": {rule}");
        let text = str::to_owned;
        for (spec, wanted) in [
            (
                json!({ "one": {} }),
                vec![
                    none("\"spec.one\" must validate one and only one schema (oneOf). Found none valid"),
                    text("spec.one.a: Required value"),
                ],
            ),
            (
                json!({ "one": { "a": 1, "b": 2 } }),
                vec![none(
                    "\"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
                )],
            ),
            (
                json!({ "any": {} }),
                vec![
                    none("\"spec.any\" must validate at least one schema (anyOf)"),
                    text("spec.any.a: Required value"),
                ],
            ),
            (
                json!({ "any": { "b": 1 } }),
                vec![
                    none("\"spec.any\" must validate at least one schema (anyOf)"),
                    text(
                        "spec.any.b: Invalid value: 1: spec.any.b in body should be greater than or equal to 5",
                    ),
                ],
            ),
            (
                json!({ "all": {} }),
                vec![
                    text("spec.all.a: Required value"),
                    text("spec.all.b: Required value"),
                    none("\"spec.all\" must validate all the schemas (allOf). None validated"),
                ],
            ),
            (
                json!({ "all": { "a": 1, "b": 1 } }),
                vec![
                    text(
                        "spec.all.b: Invalid value: 1: spec.all.b in body should be greater than or equal to 5",
                    ),
                    none("\"spec.all\" must validate all the schemas (allOf)"),
                ],
            ),
            (
                json!({ "ios": true }),
                vec![
                    text(
                        "spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer,string: \"boolean\"",
                    ),
                    none("\"spec.ios\" must validate at least one schema (anyOf)"),
                    text(
                        "spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer: \"boolean\"",
                    ),
                ],
            ),
            (
                json!({ "num": 3 }),
                vec![
                    none("\"spec.num\" must validate one and only one schema (oneOf). Found none valid"),
                    text("spec.num: Invalid value: 3: spec.num in body should be greater than or equal to 5"),
                ],
            ),
            (
                json!({ "txt": "c" }),
                vec![
                    none("\"spec.txt\" must validate at least one schema (anyOf)"),
                    text("spec.txt: Invalid value: \"c\": spec.txt in body should match '^a'"),
                ],
            ),
            (
                json!({ "list": ["xa", "b"] }),
                vec![none("\"spec.list[0]\" must not validate the schema (not)")],
            ),
            (
                json!({ "one": { "a": 1 }, "any": { "b": 5 }, "all": { "a": 1, "b": 5 }, "ios": "x", "num": 1, "txt": "b" }),
                vec![],
            ),
        ] {
            assert_eq!(errors_of(&spec), wanted, "{spec}");
        }
    }
}
