//! OpenAPI documents, sufficient for kubectl to validate, apply, diff and explain.
//!
//! Built-in kinds are described by the schemas of a real server, custom kinds by those of their definitions.

use kube_api_protocol::selector::fnv1a;
use serde_json::{Map, Value, json};

use crate::documents::discovery::GIT_VERSION;
use crate::documents::schemas;
use crate::kinds::{Kind, Registry};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// `GET /openapi/v3`: the index of documents. The hash in the URL changes with the document.
pub fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    let groups = std::iter::once(String::new()).chain(registry.groups());
    for group in groups {
        for version in registry.versions(&group) {
            let path = base_path(&group, &version);
            let custom = registry.kinds_in(&group, &version).iter().any(|kind| kind.custom);
            // Documents of built-in kinds change with the version of Kubernetes only.
            let content = if custom {
                document(registry, &group, &version)
                    .unwrap_or_default()
                    .to_string()
            } else {
                format!("{GIT_VERSION} {path}")
            };
            let hash = fnv1a(content.as_bytes());
            let address = format!("/openapi/v3/{path}?hash={hash:016X}");
            paths.insert(path, json!({ "serverRelativeURL": address }));
        }
    }
    json!({ "paths": paths })
}

/// `GET /openapi/v3/api/v1` or `GET /openapi/v3/apis/{group}/{version}`; `None` if the version has no kinds.
pub fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = registry.kinds_in(group, version);
    if kinds.is_empty() {
        return None;
    }
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas::add(OBJECT_META, &mut schemas);
    for kind in &kinds {
        paths.extend(kind_paths(kind));
        match schemas::name_of(kind) {
            Some(name) => schemas::add(name, &mut schemas),
            None => {
                schemas.insert(schema_name(kind), schema(kind));
            }
        }
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": GIT_VERSION },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

fn base_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The paths of a kind, with their operations.
pub(super) fn kind_paths(kind: &Kind) -> Vec<(String, Value)> {
    let base = base_path(&kind.group, &kind.version);
    let collection = if kind.namespaced {
        format!("/{base}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("/{base}/{}", kind.plural)
    };
    let mut of_collection = Map::new();
    for (method, verb, action) in [
        ("get", "list", "list"),
        ("post", "create", "post"),
        ("delete", "deletecollection", "deletecollection"),
    ] {
        if kind.allows(verb) {
            of_collection.insert(method.to_owned(), operation(kind, action));
        }
    }
    let mut of_object = Map::new();
    for (method, verb, action) in [
        ("get", "get", "get"),
        ("put", "update", "put"),
        ("patch", "patch", "patch"),
        ("delete", "delete", "delete"),
    ] {
        if kind.allows(verb) {
            of_object.insert(method.to_owned(), operation(kind, action));
        }
    }
    let object = format!("{collection}/{{name}}");
    let paths = [(collection, of_collection), (object, of_object)];
    paths
        .into_iter()
        .filter(|(_, methods)| !methods.is_empty())
        .map(|(path, of)| (path, Value::Object(of)))
        .collect()
}

fn operation(kind: &Kind, action: &str) -> Value {
    let query =
        |name: &str, schema: &str| json!({ "name": name, "in": "query", "schema": { "type": schema } });
    let reference = json!({ "schema": { "$ref": format!("#/components/schemas/{}", schema_name(kind)) } });
    let mut operation = json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": { "group": kind.group, "version": kind.version, "kind": kind.kind },
        "responses": { "200": { "description": "OK", "content": { "application/json": reference } } },
    });
    let Value::Object(fields) = &mut operation else {
        return operation;
    };
    if matches!(action, "post" | "put" | "patch") {
        let mut parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"]
            .iter()
            .map(|name| query(name, "string"))
            .collect();
        if action == "patch" {
            parameters.push(query("force", "boolean"));
        }
        fields.insert("parameters".to_owned(), Value::Array(parameters));
        // A client that finds strategic merge patch here looks for merge keys in the schema, which custom kinds lack.
        let patches = [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
        ];
        let types = match action {
            "patch" if kind.custom => &patches[..3],
            "patch" => &patches[..],
            _ => &["application/json"],
        };
        let content: Map<String, Value> = types
            .iter()
            .map(|name| ((*name).to_owned(), reference.clone()))
            .collect();
        fields.insert(
            "requestBody".to_owned(),
            json!({ "required": true, "content": content }),
        );
    }
    operation
}

/// `io.k8s.api.apps.v1.Deployment` or `com.example.v1.Widget`.
pub(super) fn schema_name(kind: &Kind) -> String {
    if let Some(name) = schemas::name_of(kind) {
        return name.to_owned();
    }
    if kind.custom {
        let mut domain: Vec<&str> = kind.group.split('.').collect();
        domain.reverse();
        return format!("{}.{}.{}", domain.join("."), kind.version, kind.kind);
    }
    let group = kind
        .group
        .split('.')
        .next()
        .filter(|group| !group.is_empty())
        .unwrap_or("core");
    format!("io.k8s.api.{group}.{}.{}", kind.version, kind.kind)
}

/// The schema of a kind that is not built in.
pub(super) fn schema(kind: &Kind) -> Value {
    let own = kind.schema.as_deref().and_then(Value::as_object).cloned();
    let described = own.is_some();
    let mut schema = own.unwrap_or_default();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([{ "group": kind.group, "version": kind.version, "kind": kind.kind }]),
    );
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else {
        return Value::Object(schema);
    };
    if !described {
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        for name in ["spec", "status"] {
            if kind.custom || kind.has_status() {
                properties.insert(name.to_owned(), open.clone());
            }
        }
    }
    let text = |description: &str| json!({ "type": "string", "description": description });
    properties.insert(
        "apiVersion".to_owned(),
        text("The group and version of this object."),
    );
    properties.insert("kind".to_owned(), text("The kind of this object."));
    properties.insert(
        "metadata".to_owned(),
        json!({
            "description": "What every object has: name, namespace, labels, owners.",
            "allOf": [{ "$ref": format!("#/components/schemas/{OBJECT_META}") }],
            "default": {},
        }),
    );
    if !described {
        schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
        schema.insert(
            "description".to_owned(),
            json!(format!("{} as the server stores it.", kind.kind)),
        );
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_has_one_document_per_version() {
        let mut registry = Registry::builtin();
        let before = index(&registry);
        registry.insert(Kind::new("example.com", "v1", "Widget"));
        let after = index(&registry);

        let address = after["paths"]["apis/apps/v1"]["serverRelativeURL"]
            .as_str()
            .unwrap();
        assert!(address.starts_with("/openapi/v3/apis/apps/v1?hash="), "{address}");
        assert_eq!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
        assert!(before["paths"].get("apis/example.com/v1").is_none());
        assert!(after["paths"].get("apis/example.com/v1").is_some());
    }

    #[test]
    fn patch_operations_support_field_validation() {
        let registry = Registry::builtin();
        for kind in registry.iter().filter(|kind| kind.allows("patch")) {
            let document = document(&registry, &kind.group, &kind.version).unwrap();
            let wanted = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
            let found = document["paths"].as_object().unwrap().values().any(|path| {
                let patch = &path["patch"];
                let parameters = patch["parameters"].as_array();
                patch["x-kubernetes-group-version-kind"] == wanted
                    && parameters.is_some_and(|all| all.iter().any(|one| one["name"] == "fieldValidation"))
            });
            assert!(found, "{}", kind.group_kind());
        }
    }

    #[test]
    fn built_in_kinds_are_described_to_any_depth() {
        let document = document(&Registry::builtin(), "apps", "v1").unwrap();
        let schemas = &document["components"]["schemas"];

        let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
        assert!(ports["description"].as_str().is_some_and(|text| !text.is_empty()));
    }

    #[test]
    fn custom_kind_is_described_by_its_schema() {
        let mut kind = Kind::new("example.com", "v1", "Widget");
        kind.schema = Some(std::sync::Arc::new(json!({
            "type": "object", "description": "A widget.",
            "properties": { "spec": { "type": "object", "properties": { "color": { "type": "string" } } } },
        })));
        let mut registry = Registry::empty();
        registry.insert(kind);
        let document = document(&registry, "example.com", "v1").unwrap();

        let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
        assert_eq!(schema["description"], "A widget.");
        assert_eq!(
            schema["properties"]["spec"]["properties"]["color"]["type"],
            "string"
        );
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
        assert!(schema["properties"].get("metadata").is_some());
        assert!(
            document["paths"]
                .get("/apis/example.com/v1/namespaces/{namespace}/widgets/{name}")
                .is_some()
        );
    }
}
