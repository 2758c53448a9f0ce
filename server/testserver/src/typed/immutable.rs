//! Fields of built-in objects that an update may not change.

use kube_api_protocol::field_error::{FieldError, quote};
use kube_protobuf::schema;
use serde_json::{Map, Value, json};

use super::internal::{difference, quoted};
use crate::admission::metadata::same;
use crate::kinds::Kind;

/// What a changed field means.
enum Change {
    /// `Invalid value: …: field is immutable`.
    Immutable,
    /// `Forbidden` with this text.
    Forbidden(&'static str),
    /// The same without the value.
    ImmutableField,
    /// The same with the value as a Go struct.
    RoleRef,
}

use Change::{Forbidden, Immutable, ImmutableField, RoleRef};

/// Group, kind, field, and what changing it means.
const FIELDS: &[(&str, &str, &str, Change)] = &[
    ("apps", "Deployment", "spec.selector", Immutable),
    ("apps", "ReplicaSet", "spec.selector", Immutable),
    ("apps", "DaemonSet", "spec.selector", Immutable),
    ("apps", "StatefulSet", "spec.serviceName", Immutable),
    ("batch", "Job", "spec.completions", Immutable),
    ("batch", "Job", "spec.selector", Immutable),
    ("batch", "Job", "spec.template", Immutable),
    ("batch", "Job", "spec.completionMode", Immutable),
    ("batch", "Job", "spec.podFailurePolicy", Immutable),
    ("batch", "Job", "spec.backoffLimitPerIndex", Immutable),
    ("rbac.authorization.k8s.io", "RoleBinding", "roleRef", RoleRef),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "roleRef",
        RoleRef,
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "value",
        Forbidden("may not be changed in an update."),
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "preemptionPolicy",
        Immutable,
    ),
    ("storage.k8s.io", "StorageClass", "parameters", ImmutableField),
    ("storage.k8s.io", "StorageClass", "provisioner", ImmutableField),
    ("storage.k8s.io", "StorageClass", "reclaimPolicy", ImmutableField),
    ("storage.k8s.io", "StorageClass", "volumeBindingMode", Immutable),
    ("discovery.k8s.io", "EndpointSlice", "addressType", Immutable),
    ("networking.k8s.io", "IngressClass", "spec.controller", Immutable),
    ("node.k8s.io", "RuntimeClass", "handler", Immutable),
];

/// Fields of a stateful set that an update may change.
const STATEFUL_SET: &[&str] = &[
    "replicas",
    "serviceName",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const STATEFUL_SET_TEXT: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
/// Fields of a claim that an update may change.
const CLAIM: &[&str] = &["resources", "volumeAttributesClassName", "volumeName"];
const CLAIM_TEXT: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
     bound claims";
const POD_TEXT: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
     tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Ephemeral containers can be added, but not changed or removed. Pods of a file on the node have none.
#[doc(alias = "ValidatePodEphemeralContainersUpdate")]
pub(crate) fn check_ephemeral_containers(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Vec<FieldError> {
    const FIELD: &str = "spec.ephemeralContainers";
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let annotations = at(old, "metadata.annotations");
    if annotations.is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        // The path of the whole object is empty, which Go prints so.
        let detail = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden("[]", detail)];
    }
    let containers = |pod| at(pod, FIELD).and_then(Value::as_array).into_iter().flatten();
    let mut errors = Vec::new();
    for container in containers(old) {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let kept = containers(new).find(|other| other.get("name").and_then(Value::as_str) == Some(name));
        let (what, diff) = match kept {
            None => ("removed", String::new()),
            Some(kept) if kept != container => (
                "changed",
                difference(schema::lookup("v1", "Pod"), FIELD, container, kept),
            ),
            Some(_) => continue,
        };
        let detail = format!(
            "existing ephemeral containers {} may not be {what}\n{diff}",
            quote(name)
        );
        errors.push(FieldError::forbidden(FIELD, detail));
    }
    errors
}

/// The immutable fields that an update changes.
pub(crate) fn check_update(
    kind: &Kind,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (group, name, field, change) in FIELDS {
        if *group != kind.group || *name != kind.kind {
            continue;
        }
        let (before, after) = (at(old, field), at(new, field));
        if same(before, after) {
            continue;
        }
        let value = after.cloned().unwrap_or_default();
        errors.push(match change {
            Immutable => {
                let shown = value.is_object().then(|| quoted(kind.message(), field, &value));
                let error = FieldError::invalid(*field, value, "field is immutable");
                match shown {
                    Some(shown) => error.showing(shown),
                    None => error,
                }
            }
            ImmutableField => FieldError::invalid(*field, Value::Null, "field is immutable"),
            RoleRef => {
                let go =
                    json!({ "APIGroup": value["apiGroup"], "Kind": value["kind"], "Name": value["name"] });
                FieldError::invalid(*field, go, "field is immutable")
            }
            Forbidden(detail) => FieldError::forbidden(*field, *detail),
        });
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "StatefulSet") if differs(old, new, STATEFUL_SET) => {
            errors.push(FieldError::forbidden("spec", STATEFUL_SET_TEXT));
        }
        ("", "PersistentVolumeClaim") if differs(old, new, CLAIM) => {
            errors.push(spec_change(
                kind,
                CLAIM_TEXT,
                old,
                &claim_with_free_fields(old, new),
            ));
        }
        ("", "Service") => errors.extend(service(old, new)),
        ("", "Pod") => {
            let restored = pod_with_free_fields(old, new);
            if Some(&restored) != old.get("spec") {
                errors.push(spec_change(kind, POD_TEXT, old, &restored));
            }
        }
        _ => {}
    }
    errors
}

fn at<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let mut value = object.get(names.next()?)?;
    for name in names {
        value = value.get(name)?;
    }
    Some(value)
}

/// Whether fields of `spec` other than the free ones differ.
fn differs(old: &Map<String, Value>, new: &Map<String, Value>, free: &[&str]) -> bool {
    let spec = |object: &Map<String, Value>| {
        object
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (old, new) = (spec(old), spec(new));
    let keys = old.keys().chain(new.keys());
    keys.filter(|key| !free.contains(&key.as_str()))
        .any(|key| !same(old.get(key), new.get(key)))
}

fn service(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<FieldError> {
    let (before, after) = (at(old, "spec.clusterIP"), at(new, "spec.clusterIP"));
    let external = |object| at(object, "spec.type").is_some_and(|kind| kind == "ExternalName");
    if external(old) || external(new) || before.is_none() || same(before, after) {
        return Vec::new();
    }
    let value = json!([after]);
    vec![FieldError::invalid(
        "spec.clusterIPs[0]",
        value,
        "may not change once set",
    )]
}

/// The error of a changed spec, with the changes that are not allowed.
fn spec_change(kind: &Kind, text: &str, old: &Map<String, Value>, new: &Value) -> FieldError {
    let empty = json!({});
    let old = old.get("spec").unwrap_or(&empty);
    let diff = difference(kind.message(), "spec", old, new);
    FieldError::forbidden("spec", format!("{text}\n{diff}"))
}

/// The new spec of a claim, with the old values of the fields that may change.
fn claim_with_free_fields(old: &Map<String, Value>, new: &Map<String, Value>) -> Value {
    let mut spec = new.get("spec").cloned().unwrap_or_default();
    restore(&mut spec, old.get("spec"), CLAIM);
    spec
}

/// The same of a pod: its images, deadline and additional tolerations may change.
fn pod_with_free_fields(old: &Map<String, Value>, new: &Map<String, Value>) -> Value {
    let mut spec = new.get("spec").cloned().unwrap_or_default();
    let old = old.get("spec");
    for list in ["containers", "initContainers"] {
        let before = old.and_then(|spec| spec.get(list)?.as_array());
        let after = spec.get_mut(list).and_then(Value::as_array_mut);
        for (position, container) in after.into_iter().flatten().enumerate() {
            if let Some(before) = before.and_then(|containers| containers.get(position)) {
                restore(container, Some(before), &["image"]);
            }
        }
    }
    restore(
        &mut spec,
        old,
        &[
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "schedulingGates",
        ],
    );
    spec
}

/// Sets fields to their old values.
fn restore(value: &mut Value, old: Option<&Value>, names: &[&str]) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    for name in names {
        match old.and_then(|old| old.get(name)) {
            Some(old) => fields.insert((*name).to_owned(), old.clone()),
            None => fields.remove(*name),
        };
    }
}
