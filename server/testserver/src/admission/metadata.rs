//! The fields of `metadata` that the server owns or validates: names, uid, timestamps, generation.

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::go_json::json_type;
use kube_api_protocol::names;
use kube_api_protocol::status::ApiError;
use serde_json::{Map, Value};

use crate::kinds::Kind;

/// Built-in kinds with `metadata.generation`. All custom kinds have it.
const COUNTED: &[&str] = &[
    "Pod",
    "ReplicationController",
    "Deployment",
    "DaemonSet",
    "ReplicaSet",
    "StatefulSet",
    "Job",
    "CronJob",
    "Ingress",
    "IngressClass",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodTemplate",
    "HorizontalPodAutoscaler",
    "EndpointSlice",
    "PriorityClass",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "CustomResourceDefinition",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ResourceSlice",
    "DeviceClass",
];

/// Whether objects of the kind have a generation.
pub(crate) fn has_generation(kind: &Kind) -> bool {
    kind.custom || COUNTED.contains(&kind.kind.as_str())
}

/// Whether the generation must increase: something other than metadata changed, or status if it is not a subresource.
pub(crate) fn differs(kind: &Kind, old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let counted = |key: &str| key != "metadata" && (key != "status" || (kind.custom && !kind.has_status()));
    let annotations = |object: &Map<String, Value>| object.get("metadata")?.get("annotations").cloned();
    if kind.kind == "Deployment" && !same(annotations(old).as_ref(), annotations(new).as_ref()) {
        // Its annotations are copied to its replica sets, so they count as part of the spec.
        return true;
    }
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    let keys = old.keys().chain(new.keys());
    keys.into_iter().any(|key| {
        let (old, new) = (old.get(key), new.get(key));
        counted(key) && !same(old, new) && !(is_pod && key == "spec" && is_bound(old, new))
    })
}

/// Whether two specs of a pod differ only in the node: a binding is no new generation.
fn is_bound(old: Option<&Value>, new: Option<&Value>) -> bool {
    let unbound = |spec: Option<&Value>| {
        let mut spec = spec.cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("nodeName");
        }
        spec
    };
    unbound(old) == unbound(new)
}

/// Whether two fields are equal; null equals a missing field.
pub(crate) fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    old.filter(|value| !value.is_null()) == new.filter(|value| !value.is_null())
}

/// `metadata` as a map, created if it is missing; anything but an object is replaced.
pub(crate) fn metadata_mut(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    match metadata {
        Value::Object(map) => map,
        // Made an object two lines above.
        _ => unreachable!("metadata is an object"),
    }
}

pub(crate) fn text<'a>(metadata: &'a Map<String, Value>, key: &str) -> &'a str {
    metadata.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object is marked for deletion and has no finalizers left.
pub(crate) fn is_gone(metadata: &Map<String, Value>) -> bool {
    let deleting = metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null());
    let held = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    let graced = metadata
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_u64)
        .unwrap_or(0)
        > 0;
    deleting && !held && !graced
}

/// The Go types of the fields of `metadata` that clients set.
const STRINGS: &[&str] = &["name", "generateName", "namespace", "uid", "resourceVersion"];
const MAPS: &[&str] = &["labels", "annotations"];
const LISTS: &[(&str, &str)] = &[
    ("finalizers", "[]string"),
    ("ownerReferences", "[]v1.OwnerReference"),
];

/// Rejects fields of `metadata` that are not of their type, such as `finalizers: {}`, as decoding fails in a real server.
pub(crate) fn check_types(kind: &Kind, object: &Map<String, Value>) -> Result<(), ApiError> {
    let wrong = |value: &Value, field: &str, wanted: &str| {
        let found = json_type(value);
        Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct \
             field {field} of type {wanted}",
            kind = kind.kind,
            version = kind.version,
        )))
    };
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return wrong(other, &format!("{}.metadata", kind.kind), "v1.ObjectMeta"),
    };
    for (name, value) in metadata.iter().filter(|(_, value)| !value.is_null()) {
        let field = format!("ObjectMeta.metadata.{name}");
        let name = name.as_str();
        if STRINGS.contains(&name) && !value.is_string() {
            return wrong(value, &field, "string");
        }
        if MAPS.contains(&name) {
            let Some(map) = value.as_object() else {
                return wrong(value, &field, "map[string]string");
            };
            if let Some(value) = map.values().find(|value| !value.is_string() && !value.is_null()) {
                return wrong(value, &field, "string");
            }
        }
        if let Some((_, wanted)) = LISTS.iter().find(|(list, _)| *list == name) {
            let Some(items) = value.as_array() else {
                return wrong(value, &field, wanted);
            };
            let fits = |item: &&Value| {
                item.is_null() || (item.is_string() == (name == "finalizers") && !item.is_array())
            };
            if let Some(item) = items.iter().find(|item| !fits(item)) {
                return wrong(item, &field, wanted.trim_start_matches("[]"));
            }
        }
    }
    Ok(())
}

/// Validates name, labels, annotations, finalizers and owner references.
pub(crate) fn check(kind: &Kind, metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for broken in name_rule(kind)(name) {
            errors.push(FieldError::invalid("metadata.name", name, broken));
        }
    }
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        errors.extend(check_labels("metadata.labels", labels));
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        errors.extend(check_annotations("metadata.annotations", annotations));
    }
    errors.extend(check_finalizers(kind, metadata));
    errors.extend(check_owners(metadata));
    errors
}

/// Validates the keys and values of labels.
pub(crate) fn check_labels(field: &str, labels: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        for broken in names::label_key(key) {
            errors.push(FieldError::invalid(field, key.as_str(), broken));
        }
        let value = value.as_str().unwrap_or_default();
        for broken in names::label_value(value) {
            errors.push(FieldError::invalid(field, value, broken));
        }
    }
    errors
}

/// Validates the keys of annotations and their total size.
pub(crate) fn check_annotations(field: &str, annotations: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        for broken in names::label_key(&key.to_lowercase()) {
            errors.push(FieldError::invalid(field, key.as_str(), broken));
        }
    }
    if size > 256 * 1024 {
        errors.push(FieldError::too_long(field, 256 * 1024));
    }
    errors
}

/// Finalizers are qualified names. On built-in kinds they need the prefix, except those that Kubernetes itself sets.
fn check_finalizers(kind: &Kind, metadata: &Map<String, Value>) -> Vec<FieldError> {
    const STANDARD: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    let names = || {
        finalizers
            .into_iter()
            .flatten()
            .map(|name| name.as_str().unwrap_or_default())
    };
    let mut errors = Vec::new();
    for name in names() {
        for broken in names::label_key(name) {
            errors.push(FieldError::invalid("metadata.finalizers", name, broken));
        }
    }
    for (position, name) in names().enumerate() {
        if !kind.custom && !name.contains('/') && !STANDARD.contains(&name) {
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{position}]"),
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    errors
}

fn check_owners(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(owners) = metadata.get("ownerReferences").and_then(Value::as_array) else {
        return errors;
    };
    let text = |owner: &Value, field: &str| {
        owner
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut controller: Option<String> = None;
    for (position, owner) in owners.iter().enumerate() {
        let path = format!("metadata.ownerReferences[{position}]");
        for field in ["apiVersion", "kind", "name", "uid"] {
            let value = text(owner, field);
            if value.is_empty() {
                errors.push(FieldError::required(
                    format!("{path}.{field}"),
                    "must not be empty",
                ));
            } else if field == "apiVersion" && value.split('/').count() > 2 {
                let rule = "must be <group>/<version> or <version>";
                errors.push(FieldError::invalid(format!("{path}.apiVersion"), value, rule));
            }
        }
        if (text(owner, "apiVersion").as_str(), text(owner, "kind").as_str()) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(other) => errors.push(FieldError::invalid(
                    "metadata.ownerReferences",
                    owners.clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {other} \
                         and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
    errors
}

fn name_rule(kind: &Kind) -> fn(&str) -> Vec<String> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace" | "Service") => names::dns_1123_label,
        ("rbac.authorization.k8s.io", _) | ("coordination.k8s.io" | "apiregistration.k8s.io", _) => {
            names::path_segment
        }
        _ => names::dns_1123_subdomain,
    }
}
