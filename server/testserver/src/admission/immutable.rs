//! Immutable fields: the type of a secret, and the data of objects declared immutable.

use kube_api_protocol::field_error::FieldError;
use serde_json::{Map, Value};

use super::metadata::same;
use crate::kinds::Kind;

/// The immutable fields that a write changes. A secret written without a type keeps its type.
pub(crate) fn check(kind: &Kind, old: &Map<String, Value>, new: &mut Map<String, Value>) -> Vec<FieldError> {
    if !kind.group.is_empty() || !matches!(kind.kind.as_str(), "Secret" | "ConfigMap") {
        return Vec::new();
    }
    if kind.kind == "Secret"
        && new.get("type").is_none_or(Value::is_null)
        && let Some(own) = old.get("type")
    {
        new.insert("type".to_owned(), own.clone());
    }
    let changes = |field: &str| !same(old.get(field), new.get(field));
    let mut errors = Vec::new();
    if kind.kind == "Secret" && changes("type") {
        let value = new.get("type").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("type", value, "field is immutable"));
    }
    if old.get("immutable") == Some(&Value::Bool(true)) {
        let detail = "field is immutable when `immutable` is set";
        let fields = ["immutable", "data", "binaryData"].into_iter();
        let changed = fields.filter(|field| changes(field));
        errors.extend(changed.map(|field| FieldError::forbidden(field, detail)));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn refused(plural: &str, old: Value, new: Value) -> Vec<String> {
        let Some(kind) = Registry::builtin().resource("", "v1", plural) else {
            return vec!["there is no such kind".into()];
        };
        match (old, new) {
            (Value::Object(old), Value::Object(mut new)) => check(&kind, &old, &mut new)
                .iter()
                .map(ToString::to_string)
                .collect(),
            _ => vec!["these are no objects".into()],
        }
    }

    #[test]
    fn immutable_data_and_secret_type_cannot_change() {
        let old = json!({ "type": "Opaque", "data": { "a": "1" }, "immutable": true });
        let free = json!({ "type": "Opaque", "data": { "a": "1" } });

        assert_eq!(refused("secrets", free.clone(), json!({ "data": {} })), [""; 0]);
        assert_eq!(
            refused("secrets", free, json!({ "type": "other", "data": {} })),
            ["type: Invalid value: \"other\": field is immutable"]
        );
        assert_eq!(
            refused(
                "secrets",
                old.clone(),
                json!({ "type": "Opaque", "data": {}, "immutable": true })
            ),
            ["data: Forbidden: field is immutable when `immutable` is set"]
        );
        assert_eq!(
            refused("configmaps", old, json!({ "data": { "a": "1" } })),
            ["immutable: Forbidden: field is immutable when `immutable` is set"]
        );
    }
}
