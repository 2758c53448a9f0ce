//! The scale subresource: the desired and current number of replicas of an object.

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::jsonpath::JsonPath;
use kube_api_protocol::selector::selector_text;
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
        let number = |path: &JsonPath| path.first(object).and_then(Value::as_i64);
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
