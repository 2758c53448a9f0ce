//! The scheduler: assigns pods to nodes that fit. Nodes take turns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::pods::{has_ended, is_deleting};
use crate::fields::{condition, condition_is, flag, list, meets, put_condition, set, text};

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let waits = |pod: &Value| {
        let gated = !list(pod, "/spec/schedulingGates").is_empty();
        text(pod, "/spec/nodeName").is_empty() && !is_deleting(pod) && !has_ended(pod) && !gated
    };
    let Some(pod) = cluster.get("pods", key).filter(waits) else {
        cluster.memory.unschedulable.remove(key);
        return;
    };
    let nodes: Vec<Value> = cluster
        .all("nodes", None)
        .iter()
        .map(|node| node.value())
        .collect();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for node in &nodes {
        match obstacle(&pod, node) {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => fitting.push(text(node, "/metadata/name").to_owned()),
        }
    }
    if fitting.is_empty() {
        refuse(cluster, key, &pod, nodes.len(), &reasons);
        return;
    }
    let node = fitting.swap_remove(cluster.memory.turns % fitting.len());
    cluster.memory.turns = cluster.memory.turns.wrapping_add(1);
    cluster.memory.unschedulable.remove(key);
    let now = cluster.timestamp();
    let bound = cluster.edit("pods", key, |pod| {
        set(pod, &["spec", "nodeName"], node.as_str());
        let mut conditions = list(pod, "/status/conditions").to_vec();
        put_condition(
            &mut conditions,
            json!({ "type": "PodScheduled", "status": "True" }),
            &now,
        );
        set(pod, &["status", "conditions"], conditions);
    });
    if let Some(pod) = bound {
        let message = format!("Successfully assigned {key} to {node}");
        cluster.record(&pod, "Normal", "Scheduled", &message);
    }
}

/// Notes that no node fits. The pod is looked at again when a node changes.
fn refuse(cluster: &mut Cluster<'_>, key: &str, pod: &Value, nodes: usize, reasons: &BTreeMap<&str, usize>) {
    cluster.memory.unschedulable.insert(key.to_owned());
    let reasons: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let message = match reasons.as_slice() {
        [] => "no nodes available to schedule pods".to_owned(),
        _ => format!("0/{nodes} nodes are available: {}.", reasons.join(", ")),
    };
    let before = condition(pod, "PodScheduled");
    if before.is_some_and(|before| text(before, "/message") == message) {
        return;
    }
    let now = cluster.timestamp();
    cluster.edit("pods", key, |pod| {
        let mut conditions = list(pod, "/status/conditions").to_vec();
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        });
        put_condition(&mut conditions, condition, &now);
        set(pod, &["status", "conditions"], conditions);
    });
    cluster.record(pod, "Warning", "FailedScheduling", &message);
}

/// Why a pod cannot run on a node, in the words of kube-scheduler.
pub(super) fn obstacle(pod: &Value, node: &Value) -> Option<&'static str> {
    let unschedulable = flag(node, "/spec/unschedulable");
    let taint = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    if unschedulable && !tolerates(pod, &taint) {
        return Some("node(s) were unschedulable");
    }
    if is_deleting(node) || condition_is(node, "Ready", "False") || condition_is(node, "Ready", "Unknown") {
        return Some("node(s) were not ready");
    }
    if !selects_node(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    let hard = |taint: &&Value| matches!(text(taint, "/effect"), "NoSchedule" | "NoExecute");
    let taints = list(node, "/spec/taints");
    if taints.iter().filter(hard).any(|taint| !tolerates(pod, taint)) {
        return Some("node(s) had untolerated taint(s)");
    }
    None
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    list(pod, "/spec/tolerations").iter().any(|toleration| {
        let effect = text(toleration, "/effect");
        let key = text(toleration, "/key");
        let same_effect = effect.is_empty() || effect == text(taint, "/effect");
        let same_key = key.is_empty() || key == text(taint, "/key");
        let same_value = match text(toleration, "/operator") {
            "Exists" => true,
            _ => !key.is_empty() && text(toleration, "/value") == text(taint, "/value"),
        };
        same_effect && same_key && same_value
    })
}

/// Whether the node selector and the required node affinity of a pod match a node.
pub(super) fn selects_node(pod: &Value, node: &Value) -> bool {
    let labels = node.pointer("/metadata/labels");
    let label = |key: &str| labels?.get(key)?.as_str();
    let selector = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    let selected = selector
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key).is_some() && label(key) == value.as_str());
    const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let Some(required) = pod.pointer(REQUIRED) else {
        return selected;
    };
    let name = text(node, "/metadata/name");
    let field = |key: &str| (key == "metadata.name").then_some(name);
    let matches = |term: &Value| {
        let (labels, fields) = (list(term, "/matchExpressions"), list(term, "/matchFields"));
        // A term without requirements matches no node.
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(|one| meets(one, label))
            && fields.iter().all(|one| meets(one, field))
    };
    selected && list(required, "/nodeSelectorTerms").iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_must_match_selector_taints_and_affinity() {
        let node = json!({
            "metadata": { "name": "n1", "labels": { "disk": "ssd" } },
            "spec": { "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] },
        });
        let toleration =
            json!([{ "key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule" }]);
        let pod = |spec: Value| json!({ "spec": spec });
        assert_eq!(
            obstacle(&pod(json!({})), &node),
            Some("node(s) had untolerated taint(s)")
        );
        assert_eq!(obstacle(&pod(json!({ "tolerations": toleration })), &node), None);
        assert_eq!(
            obstacle(&pod(json!({ "tolerations": [{ "operator": "Exists" }] })), &node),
            None
        );
        let selecting = pod(json!({ "tolerations": toleration, "nodeSelector": { "disk": "hdd" } }));
        assert_eq!(
            obstacle(&selecting, &node),
            Some("node(s) didn't match Pod's node affinity/selector")
        );
        let affine = |field: &str, name: &str| {
            let terms = json!([{ field: [{ "key": name, "operator": "In", "values": ["n1", "ssd"] }] }]);
            pod(json!({ "tolerations": toleration, "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
            } } }))
        };
        assert_eq!(obstacle(&affine("matchFields", "metadata.name"), &node), None);
        assert_eq!(obstacle(&affine("matchExpressions", "disk"), &node), None);
        assert!(obstacle(&affine("matchExpressions", "zone"), &node).is_some());
    }
}
