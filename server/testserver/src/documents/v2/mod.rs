//! The OpenAPI v2 document, derived from the v3 schemas. kubectl and other current clients use v3; older ones, and
//! client-go's `OpenAPISchema`, use this one, most of them in protobuf.

mod protobuf;

use serde_json::{Map, Value, json};

use super::openapi::{self, schema_name};
use super::{discovery::GIT_VERSION, schemas};
use crate::kinds::Registry;

pub(super) use protobuf::encode;

/// The media type of the document in protobuf.
pub(super) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Its older form, which clients still send.
const PROTOBUF_BEFORE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Whether an `Accept` header prefers protobuf: the first media type that is known decides.
pub(super) fn wants_protobuf(accept: &str) -> bool {
    let media = accept
        .split(',')
        .map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let mut known = media.filter(|media| {
        matches!(
            *media,
            PROTOBUF | PROTOBUF_BEFORE | "application/json" | "application/*" | "*/*"
        )
    });
    matches!(known.next(), Some(PROTOBUF | PROTOBUF_BEFORE))
}

/// `GET /openapi/v2`.
pub(super) fn document(registry: &Registry) -> Value {
    let mut definitions: Map<String, Value> = schemas::every()
        .map(|(name, schema)| (name.clone(), convert(schema)))
        .collect();
    let mut paths = Map::new();
    for kind in registry.iter() {
        for (path, mut methods) in openapi::kind_paths(kind) {
            for operation in methods.as_object_mut().into_iter().flat_map(Map::values_mut) {
                *operation = convert_operation(operation);
            }
            paths.insert(path, methods);
        }
        if kind.custom {
            definitions.insert(schema_name(kind), convert(&openapi::schema(kind)));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": GIT_VERSION },
        "paths": paths,
        "definitions": definitions,
    })
}

/// A schema of v3 as v2 writes it: references elsewhere, and without what v2 does not have.
fn convert(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    let mut converted = Map::new();
    let is_nullable = fields.get("nullable") == Some(&Value::Bool(true));
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("default" | "nullable" | "anyOf" | "not" | "oneOf", _) => {}
            // Clients of v2 would reject null for a type.
            ("type" | "items" | "properties", _) if is_nullable => {}
            ("properties", Value::Object(properties)) => {
                let properties = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), convert(schema)));
                converted.insert(name.clone(), Value::Object(properties.collect()));
            }
            ("items" | "additionalProperties", schema) => {
                converted.insert(name.clone(), convert(schema));
            }
            // A reference with a description.
            ("allOf", Value::Array(parts)) => {
                if let [part] = parts.as_slice()
                    && let Some(target) = part.get("$ref").and_then(Value::as_str)
                {
                    converted.insert("$ref".to_owned(), reference(target));
                }
            }
            ("$ref", Value::String(target)) => {
                converted.insert(name.clone(), reference(target));
            }
            _ => {
                converted.insert(name.clone(), value.clone());
            }
        }
    }
    // Values of several types are strings in v2.
    if fields.contains_key("oneOf") && !fields.contains_key("type") {
        converted.insert("type".to_owned(), "string".into());
    }
    Value::Object(converted)
}

fn reference(target: &str) -> Value {
    target.replace("#/components/schemas/", "#/definitions/").into()
}

fn convert_operation(operation: &Value) -> Value {
    let mut converted = operation.clone();
    let Value::Object(fields) = &mut converted else {
        return converted;
    };
    let body = fields.remove("requestBody");
    let mut parameters: Vec<Value> = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (name, kind) = (&parameter["name"], &parameter["schema"]["type"]);
        parameters.push(json!({ "name": name, "in": parameter["in"], "type": kind, "uniqueItems": true }));
    }
    if let Some(content) = body.as_ref().and_then(|body| body["content"].as_object()) {
        let schema = content.values().next().map(|content| convert(&content["schema"]));
        parameters.insert(
            0,
            json!({ "name": "body", "in": "body", "required": true, "schema": schema }),
        );
        fields.insert("consumes".to_owned(), content.keys().cloned().collect());
    }
    fields.insert("parameters".to_owned(), parameters.into());
    fields.insert("produces".to_owned(), json!(["application/json"]));
    let schema = convert(&operation["responses"]["200"]["content"]["application/json"]["schema"]);
    fields.insert(
        "responses".to_owned(),
        json!({ "200": { "description": "OK", "schema": schema } }),
    );
    converted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;

    #[test]
    fn schemas_are_written_as_v2_has_them() {
        let document = document(&Registry::builtin());
        let definitions = &document["definitions"];
        let pod = &definitions["io.k8s.api.core.v1.Pod"];
        assert_eq!(
            pod["properties"]["spec"]["$ref"],
            "#/definitions/io.k8s.api.core.v1.PodSpec"
        );
        assert!(pod["properties"]["spec"]["description"].is_string());
        assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
        let quantity = &definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"];
        assert_eq!(
            (&quantity["type"], quantity.get("oneOf")),
            (&json!("string"), None)
        );
        let text = document.to_string();
        assert!(!text.contains("#/components/schemas/"));
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        assert_eq!(patch["parameters"][0]["in"], "body");
    }

    #[test]
    fn custom_kinds_are_part_of_the_document() {
        let mut kind = Kind::new("example.com", "v1", "Widget");
        kind.schema = Some(std::sync::Arc::new(json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "size": { "type": "integer", "default": 3, "anyOf": [{ "minimum": 1 }] },
                "note": { "type": "string", "nullable": true, "description": "A note." },
            } },
        } })));
        let mut registry = Registry::empty();
        registry.insert(kind);
        let document = document(&registry);
        let spec = &document["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["properties"];
        assert_eq!(spec["size"], json!({ "type": "integer" }));
        assert_eq!(spec["note"], json!({ "description": "A note." }));
    }

    #[test]
    fn the_first_known_media_type_decides() {
        assert!(wants_protobuf(
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        ));
        assert!(wants_protobuf(
            "application/odd, application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=0.5"
        ));
        assert!(!wants_protobuf(
            "application/json, application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        ));
        assert!(!wants_protobuf("*/*"));
    }
}
