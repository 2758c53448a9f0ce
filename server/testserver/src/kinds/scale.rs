//! The scale subresource: the desired and current number of replicas of an object.

use kube_api_protocol::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::Kind;

/// Why a Scale body was rejected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ScaleError {
    /// The kind has no scale subresource, or its paths do not match the object.
    NotScalable,
    /// The number is missing, not a number, or negative.
    Invalid(FieldError),
}

impl Kind {
    /// The Scale object of an object; `None` if the kind has no scale subresource.
    pub(crate) fn read_scale(&self, object: &Value) -> Option<Value> {
        let paths = self.scale.as_ref()?;
        let number = |path: &crate::kinds::jsonpath::JsonPath| path.first(object).and_then(Value::as_i64);
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let mut status = json!({ "replicas": number(&paths.status_replicas).unwrap_or(0) });
        let selector = paths
            .label_selector
            .as_ref()
            .and_then(|path| path.first(object))
            .map(selector_text);
        if let (Some(selector), Value::Object(fields)) = (selector, &mut status)
            && !selector.is_empty()
        {
            fields.insert("selector".to_owned(), Value::String(selector));
        }
        // For a built-in kind, a missing field means one replica.
        let wanted = number(&paths.spec_replicas).unwrap_or(if self.custom { 0 } else { 1 });
        Some(json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": if wanted == 0 { json!({}) } else { json!({ "replicas": wanted }) },
            "status": status,
        }))
    }

    /// Writes the desired replicas of a Scale body into an object.
    pub(crate) fn write_scale(&self, object: &mut Value, scale: &Value) -> Result<(), ScaleError> {
        let paths = self.scale.as_ref().ok_or(ScaleError::NotScalable)?;
        let field = "spec.replicas";
        let wanted = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().ok_or_else(|| {
                ScaleError::Invalid(FieldError::type_invalid(
                    field,
                    value.clone(),
                    "must be an integer",
                ))
            })?,
        };
        if wanted < 0 {
            let detail = "must be greater than or equal to 0";
            return Err(ScaleError::Invalid(FieldError::invalid(field, wanted, detail)));
        }
        if paths.spec_replicas.set(object, json!(wanted)) {
            Ok(())
        } else {
            Err(ScaleError::NotScalable)
        }
    }
}

/// A selector as text: unchanged if it is a string, otherwise built from a map or from `matchLabels` and
/// `matchExpressions`.
#[doc(alias = "FormatLabelSelector")]
pub(crate) fn selector_text(selector: &Value) -> String {
    let Value::Object(fields) = selector else {
        return selector.as_str().unwrap_or_default().to_owned();
    };
    let structured = fields.contains_key("matchLabels") || fields.contains_key("matchExpressions");
    let labels = if structured {
        fields.get("matchLabels").and_then(Value::as_object)
    } else {
        Some(fields)
    };
    let mut parts: Vec<(String, String)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.clone(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    let expressions = fields
        .get("matchExpressions")
        .and_then(Value::as_array)
        .filter(|_| structured);
    for expression in expressions.into_iter().flatten() {
        let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = text("key");
        let values = expression.get("values").and_then(Value::as_array);
        let mut values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort();
    parts
        .into_iter()
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::*;

    #[test]
    fn deployment_replicas_are_read_and_written_through_scale() {
        let kind = Registry::builtin().resource("apps", "v1", "deployments").unwrap();
        let mut object = json!({
            "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7", "labels": { "a": "b" } },
            "spec": { "replicas": 3, "selector": {
                "matchLabels": { "tier": "front", "app": "web" },
                "matchExpressions": [{ "key": "env", "operator": "In", "values": ["test", "prod"] }],
            } },
            "status": { "replicas": 2 },
        });

        assert_eq!(
            kind.read_scale(&object).unwrap(),
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7" },
                "spec": { "replicas": 3 },
                "status": { "replicas": 2, "selector": "app=web,env in (prod,test),tier=front" },
            })
        );

        kind.write_scale(&mut object, &json!({ "spec": { "replicas": 5 } }))
            .unwrap();
        assert_eq!(object["spec"]["replicas"], 5);
    }

    #[test]
    fn invalid_replica_counts_are_rejected() {
        let kind = Kind::new("example.com", "v1", "Widget").with_scale();
        let mut object = json!({});

        let negative = kind.write_scale(&mut object, &json!({ "spec": { "replicas": -1 } }));
        assert_eq!(
            negative,
            Err(ScaleError::Invalid(FieldError::invalid(
                "spec.replicas",
                -1,
                "must be greater than or equal to 0"
            )))
        );
        assert!(
            kind.write_scale(&mut object, &json!({ "spec": { "replicas": "x" } }))
                .is_err()
        );
        assert_eq!(object, json!({}));
        let plain = Kind::new("example.com", "v1", "Gadget");
        assert_eq!(
            plain.write_scale(&mut object, &json!({})),
            Err(ScaleError::NotScalable)
        );
        assert_eq!(plain.read_scale(&object), None);
    }
}
