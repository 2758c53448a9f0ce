//! Fields of built-in objects that an update may not change.

use serde_json::{Map, Value, json};

use crate::admission::field_error::{FieldError, quote};
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
        let what = match kept {
            None => "removed",
            Some(kept) if kept != container => "changed",
            Some(_) => continue,
        };
        let detail = format!(
            "existing ephemeral containers {} may not be {what}\n",
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
            Immutable => FieldError::invalid(*field, value, "field is immutable"),
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
        ("", "PersistentVolumeClaim")
            if differs(
                old,
                new,
                &["resources", "volumeAttributesClassName", "volumeName"],
            ) =>
        {
            errors.push(FieldError::forbidden("spec", CLAIM_TEXT));
        }
        ("", "Service") => errors.extend(service(old, new)),
        ("", "Pod") if pod_differs(old, new) => errors.push(FieldError::forbidden("spec", POD_TEXT)),
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

/// A pod's images, deadline and additional tolerations may change.
fn pod_differs(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let reduced = |object: &Map<String, Value>| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                container.remove("image");
            }
        }
        if let Some(spec) = spec.as_object_mut() {
            for free in [
                "activeDeadlineSeconds",
                "tolerations",
                "terminationGracePeriodSeconds",
                "schedulingGates",
            ] {
                spec.remove(free);
            }
        }
        spec
    };
    reduced(old) != reduced(new)
}
