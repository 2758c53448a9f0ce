//! Pods as the workload controllers see them: made from templates, adopted, counted, and chosen for deletion.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use crate::fields::{
    annotation, condition, condition_is, controller_reference, controller_uid, flag, list, number,
    seconds_since, selects, set, text,
};
use crate::storage::storage_key;

/// `namespace/name` of an object.
pub(super) fn key_of(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    storage_key(
        Some(namespace).filter(|namespace| !namespace.is_empty()),
        text(object, "/metadata/name"),
    )
}

pub(super) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Neither ended nor being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_deleting(pod) && !has_ended(pod)
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition_is(pod, "Ready", "True")
}

/// Ready for at least `seconds`.
pub(super) fn is_available(pod: &Value, seconds: i64, now: Timestamp) -> bool {
    is_ready(pod) && (seconds <= 0 || ready_for(pod, now).is_some_and(|ready| ready >= seconds))
}

/// How long a pod has been ready, in seconds.
pub(super) fn ready_for(pod: &Value, now: Timestamp) -> Option<i64> {
    let ready = condition(pod, "Ready").filter(|_| is_ready(pod))?;
    seconds_since(text(ready, "/lastTransitionTime"), now)
}

/// The seconds until the next of these pods has been ready for long enough.
pub(super) fn next_available(pods: &[Value], seconds: i64, now: Timestamp) -> Option<u64> {
    pods.iter()
        .filter_map(|pod| ready_for(pod, now))
        .filter(|ready| *ready < seconds)
        .map(|ready| seconds.saturating_sub(ready))
        .min()
        .and_then(|left| u64::try_from(left).ok())
}

/// A new pod of a workload: its template with an owner. The caller sets the name.
pub(super) fn from_template(owner: &Value, template: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("namespace".to_owned(), text(owner, "/metadata/namespace").into());
    metadata.insert("ownerReferences".to_owned(), json!([controller_reference(owner)]));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": { "phase": "Pending" },
    })
}

/// Gives a pod a generated name, as `generateName` does.
pub(super) fn generate_name(pod: &mut Value, owner: &Value, suffix: &str) {
    let base = format!("{}-", text(owner, "/metadata/name"));
    // The length of a name is limited, and the suffix must fit.
    let short: String = base.chars().take(58).collect();
    set(pod, &["metadata", "name"], format!("{short}{suffix}"));
    set(pod, &["metadata", "generateName"], base);
}

/// The objects of a collection that a workload controls. Objects without a controller that its selector matches are adopted,
/// and its own that no longer match are released, unless the workload is being deleted.
pub(super) fn claim(cluster: &mut Cluster<'_>, collection: &str, owner: &Value) -> Vec<Value> {
    let uid = text(owner, "/metadata/uid").to_owned();
    let selector = owner.pointer("/spec/selector").cloned().unwrap_or_default();
    let namespace = text(owner, "/metadata/namespace");
    let mut claimed = Vec::new();
    for stored in cluster.owned(collection, &uid) {
        let object = stored.value();
        if controller_uid(&object) != Some(&uid) {
            continue;
        }
        if selects(&selector, &stored.meta.labels) || is_deleting(owner) {
            claimed.push(object);
        } else {
            cluster.edit(collection, &stored.key, |object| release(object, &uid));
        }
    }
    if is_deleting(owner) {
        return claimed;
    }
    for stored in cluster.unowned(collection, namespace) {
        if selects(&selector, &stored.meta.labels) && !has_ended(&stored.value()) {
            let adopted = cluster.edit(collection, &stored.key, |object| {
                set(
                    object,
                    &["metadata", "ownerReferences"],
                    json!([controller_reference(owner)]),
                );
            });
            claimed.extend(adopted);
        }
    }
    claimed
}

fn release(object: &mut Value, uid: &str) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
        owners.retain(|owner| text(owner, "/uid") != uid);
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

/// Sorts pods so that those to delete first come first: unscheduled, pending, not ready, cheap, ready for a short time, restarted
/// often, new.
pub(super) fn sort_for_deletion(pods: &mut [Value]) {
    pods.sort_by_cached_key(|pod| {
        let phase = match text(pod, "/status/phase") {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost: i64 = annotation(pod, "controller.kubernetes.io/pod-deletion-cost")
            .parse()
            .unwrap_or(0);
        let ready_since = condition(pod, "Ready").map(|ready| text(ready, "/lastTransitionTime").to_owned());
        let restarts = list(pod, "/status/containerStatuses")
            .iter()
            .filter_map(|status| number(status, "/restartCount"))
            .max();
        (
            !text(pod, "/spec/nodeName").is_empty(),
            phase,
            is_ready(pod),
            cost,
            Reverse(ready_since.filter(|_| is_ready(pod))),
            Reverse(restarts),
            Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
            text(pod, "/metadata/name").to_owned(),
        )
    });
}

/// Adds a toleration that a pod does not have yet.
pub(super) fn tolerate(pod: &mut Value, key: &str, effect: &str) {
    let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
    let Some(Value::Object(spec)) = pod.get_mut("spec") else {
        return;
    };
    let all = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let Value::Array(all) = all
        && !all.contains(&toleration)
    {
        all.push(toleration);
    }
}

/// Whether a pod uses the network of its node.
pub(super) fn uses_host_network(pod: &Value) -> bool {
    flag(pod, "/spec/hostNetwork")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_serve_least_are_deleted_first() {
        let pod = |name: &str, node: &str, phase: &str, ready: Option<&str>| {
            json!({
                "metadata": { "name": name }, "spec": { "nodeName": node },
                "status": { "phase": phase, "conditions": ready.iter().map(|since| json!({
                    "type": "Ready", "status": "True", "lastTransitionTime": since,
                })).collect::<Vec<_>>() },
            })
        };
        let mut pods = vec![
            pod("old", "n", "Running", Some("2026-01-01T00:00:00Z")),
            pod("young", "n", "Running", Some("2026-01-02T00:00:00Z")),
            pod("not-ready", "n", "Running", None),
            pod("pending", "n", "Pending", None),
            pod("unscheduled", "", "Pending", None),
        ];

        sort_for_deletion(&mut pods);

        let names: Vec<&str> = pods.iter().map(|pod| text(pod, "/metadata/name")).collect();
        assert_eq!(names, ["unscheduled", "pending", "not-ready", "young", "old"]);
    }
}
