//! How the lists and maps of a kind are merged: by key, as a set, or as one value.
//!
//! Input is a kind and a path of field names without list items (`spec.containers.ports`). Built-in kinds use a table,
//! custom kinds their schema. Strategic merge patch and server-side apply follow different rules.

use serde_json::{Map, Value};

use crate::kinds::Kind;

/// How server-side apply treats a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListShape {
    /// One value with one owner.
    Atomic,
    /// Scalars, each with its own owners.
    Set,
    /// Objects identified by these fields.
    Map(Vec<String>),
}

/// How a strategic merge patch treats a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListMerge {
    /// The list is replaced.
    Replace,
    /// Scalars are added without duplicates.
    Union,
    /// Objects are merged by this field.
    ByKey(&'static str),
}

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The shape of the list at `path` for server-side apply.
pub(super) fn list_shape(kind: &Kind, path: &[&str]) -> ListShape {
    match path {
        ["metadata", "finalizers"] => return ListShape::Set,
        ["metadata", "ownerReferences"] => return ListShape::Map(vec!["uid".to_owned()]),
        ["metadata", ..] => return ListShape::Atomic,
        _ => {}
    }
    if kind.custom {
        return schema_at(kind, path).map_or(ListShape::Atomic, schema_shape);
    }
    let Some((field, parents)) = path.split_last() else {
        return ListShape::Atomic;
    };
    let parent = parents.last().copied().unwrap_or_default();
    let keys: &[&str] = match (kind.plural.as_str(), parent, *field) {
        ("services", "spec", "ports") => &["port", "protocol"],
        ("nodes", "status", "addresses") => &["type"],
        ("endpointslices", "endpoints", "addresses")
        | ("nodes", "spec", "podCIDRs")
        | ("csidrivers", "spec", "volumeLifecycleModes")
        | ("validatingadmissionpolicybindings", "spec", "validationActions") => {
            return ListShape::Set;
        }
        ("serviceaccounts", "", "secrets") => &["name"],
        ("csinodes", "spec", "drivers") => &["name"],
        ("jobs", "status", "conditions") => return ListShape::Atomic,
        (_, "status", "conditions") => &["type"],
        ("resourceclaims", "status", "reservedFor") => &["uid"],
        ("resourceclaims", "status", "devices") => &["driver", "device", "pool", "shareID"],
        ("validatingwebhookconfigurations" | "mutatingwebhookconfigurations", "", "webhooks") => &["name"],
        ("validatingadmissionpolicies", "spec", "variables") => &["name"],
        (_, _, "matchConditions") => &["name"],
        (_, container, "ports") if CONTAINERS.contains(&container) => &["containerPort", "protocol"],
        (_, "spec", "topologySpreadConstraints") => &["topologyKey", "whenUnsatisfiable"],
        (_, "resources", "claims") => &["name"],
        (_, "spec", "hostAliases") | ("pods", "status", "podIPs") => &["ip"],
        (_, container, "volumeMounts") if CONTAINERS.contains(&container) => &["mountPath"],
        (_, container, "volumeDevices") if CONTAINERS.contains(&container) => &["devicePath"],
        (_, container, "env") if CONTAINERS.contains(&container) => &["name"],
        (
            _,
            "spec",
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "imagePullSecrets"
            | "schedulingGates"
            | "resourceClaims"
            | "evictionResponders",
        ) => &["name"],
        _ => return ListShape::Atomic,
    };
    ListShape::Map(keys.iter().map(|key| (*key).to_owned()).collect())
}

/// Whether server-side apply treats the object at `path` as one value.
pub(super) fn is_atomic_map(kind: &Kind, path: &[&str]) -> bool {
    if path.first() == Some(&"metadata") {
        return path.len() > 1 && path.get(1) == Some(&"ownerReferences");
    }
    if kind.custom {
        return schema_at(kind, path).is_some_and(|schema| {
            schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
        });
    }
    let last = path.last().copied().unwrap_or_default();
    if let ("controllerrevisions", ["data"])
    | ("ingresses", [.., "service", "port"])
    | ("validatingadmissionpolicies" | "mutatingadmissionpolicies", ["spec", "matchConstraints"]) =
        (kind.plural.as_str(), path)
    {
        return true;
    }
    matches!(
        last,
        "selector"
            | "nodeSelector"
            | "labelSelector"
            | "namespaceSelector"
            | "podSelector"
            | "objectSelector"
            | "nodeSelectorTerms"
            | "requiredDuringSchedulingIgnoredDuringExecution"
            | "configMapKeyRef"
            | "secretKeyRef"
            | "fieldRef"
            | "resourceFieldRef"
            | "targetRef"
            | "roleRef"
            | "claimRef"
            | "involvedObject"
            | "regarding"
            | "related"
            | "imagePullSecrets"
    )
}

/// The default of a key field.
pub(super) fn key_default(key: &str) -> Option<Value> {
    (key == "protocol").then(|| Value::String("TCP".to_owned()))
}

/// How a strategic merge patch treats the list at `path`.
pub(super) fn list_merge(kind: &Kind, path: &[&str]) -> ListMerge {
    let Some((field, parents)) = path.split_last() else {
        return ListMerge::Replace;
    };
    let parent = parents.last().copied().unwrap_or_default();
    match (kind.plural.as_str(), parent, *field) {
        (_, "metadata", "finalizers") => ListMerge::Union,
        (_, "metadata", "ownerReferences") => ListMerge::ByKey("uid"),
        // The conditions of these kinds are replaced as a whole.
        ("customresourcedefinitions" | "certificatesigningrequests", _, _) => ListMerge::Replace,
        ("services", "spec", "ports") => ListMerge::ByKey("port"),
        ("nodes", "status", "addresses") => ListMerge::ByKey("type"),
        ("nodes", "spec", "podCIDRs") => ListMerge::Union,
        ("serviceaccounts", "", "secrets" | "imagePullSecrets") => ListMerge::ByKey("name"),
        ("csinodes", "spec", "drivers") => ListMerge::ByKey("name"),
        (_, "status", "conditions") => ListMerge::ByKey("type"),
        ("resourceclaims", "status", "reservedFor") => ListMerge::ByKey("uid"),
        (_, "", "webhooks") | (_, _, "matchConditions") => ListMerge::ByKey("name"),
        (_, "spec", "variables") => ListMerge::ByKey("name"),
        (_, container, "ports") if CONTAINERS.contains(&container) => ListMerge::ByKey("containerPort"),
        (_, container, "volumeMounts") if CONTAINERS.contains(&container) => ListMerge::ByKey("mountPath"),
        (_, container, "volumeDevices") if CONTAINERS.contains(&container) => ListMerge::ByKey("devicePath"),
        (_, container, "env") if CONTAINERS.contains(&container) => ListMerge::ByKey("name"),
        (_, "spec", "topologySpreadConstraints") => ListMerge::ByKey("topologyKey"),
        (_, "spec", "hostAliases") | ("pods", "status", "podIPs" | "hostIPs") => ListMerge::ByKey("ip"),
        (
            _,
            "spec",
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "imagePullSecrets"
            | "schedulingGates"
            | "resourceClaims"
            | "evictionResponders",
        )
        | ("pods", "status", "resourceClaimStatuses") => ListMerge::ByKey("name"),
        _ => ListMerge::Replace,
    }
}

/// Whether a strategic merge patch replaces the object at `path` instead of merging into it.
pub(super) fn replaces_map(kind: &Kind, path: &[&str]) -> bool {
    kind.plural == "poddisruptionbudgets" && path == ["spec", "selector"]
}

fn schema_shape(schema: &Map<String, Value>) -> ListShape {
    let texts = |name: &str| -> Vec<String> {
        let list = schema.get(name).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListShape::Set,
        Some("map") => match texts("x-kubernetes-list-map-keys") {
            keys if keys.is_empty() => ListShape::Atomic,
            keys => ListShape::Map(keys),
        },
        _ => ListShape::Atomic,
    }
}

/// The part of a custom kind's schema that describes `path`, skipping list levels.
fn schema_at<'a>(kind: &'a Kind, path: &[&str]) -> Option<&'a Map<String, Value>> {
    let mut place = kind.schema.as_deref()?.as_object()?;
    for (index, name) in path.iter().enumerate() {
        let properties = place
            .get("properties")
            .and_then(|properties| properties.get(*name));
        let next = properties
            .or_else(|| place.get("additionalProperties"))?
            .as_object()?;
        let last = index + 1 == path.len();
        place = match next.get("items").and_then(Value::as_object) {
            Some(items) if !last => items,
            _ => next,
        };
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn lists_of_built_in_kinds_use_the_table() {
        let registry = Registry::builtin();
        let pods = registry.resource("", "v1", "pods").unwrap();
        let deployments = registry.resource("apps", "v1", "deployments").unwrap();
        let services = registry.resource("", "v1", "services").unwrap();

        let ports = ["spec", "template", "spec", "containers", "ports"];
        assert_eq!(
            list_merge(&deployments, &ports),
            ListMerge::ByKey("containerPort")
        );
        assert_eq!(
            list_shape(&deployments, &ports),
            ListShape::Map(vec!["containerPort".into(), "protocol".into()])
        );
        assert_eq!(
            list_merge(&services, &["spec", "ports"]),
            ListMerge::ByKey("port")
        );
        assert_eq!(list_merge(&pods, &["spec", "tolerations"]), ListMerge::Replace);
        assert_eq!(list_shape(&pods, &["spec", "tolerations"]), ListShape::Atomic);
        assert_eq!(list_merge(&pods, &["metadata", "finalizers"]), ListMerge::Union);
        assert_eq!(list_shape(&pods, &["metadata", "finalizers"]), ListShape::Set);
    }

    #[test]
    fn lists_of_custom_kinds_use_the_schema() {
        let mut kind = Kind::new("example.com", "v1", "Widget");
        kind.schema = Some(Arc::new(
            json!({ "type": "object", "properties": { "spec": { "properties": {
            "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": { "properties": {
                    "tags": { "type": "array", "x-kubernetes-list-type": "set" },
                    "fit": { "type": "object", "x-kubernetes-map-type": "atomic" },
                } } },
            "plain": { "type": "array" },
        } } } }),
        ));

        assert_eq!(
            list_shape(&kind, &["spec", "parts"]),
            ListShape::Map(vec!["id".into()])
        );
        assert_eq!(list_shape(&kind, &["spec", "parts", "tags"]), ListShape::Set);
        assert_eq!(list_shape(&kind, &["spec", "plain"]), ListShape::Atomic);
        assert!(is_atomic_map(&kind, &["spec", "parts", "fit"]));
        assert!(!is_atomic_map(&kind, &["spec"]));
    }
}
