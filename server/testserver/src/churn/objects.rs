//! The objects of a generated cluster, as JSON: nodes, leases, deployments, replica sets, pods, events.

use serde_json::{Map, Value, json};

/// Namespaces that every cluster has.
pub(super) const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Namespaces of the generated applications.
pub(super) const NAMESPACES: [&str; 4] = ["shop", "payments", "search", "media"];
/// Names of the generated applications.
pub(super) const APPLICATIONS: [&str; 12] = [
    "cart",
    "checkout",
    "catalog",
    "pricing",
    "ledger",
    "invoice",
    "indexer",
    "query",
    "suggest",
    "encoder",
    "thumbnail",
    "player",
];

/// The owner of generated objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl Owner<'_> {
    fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

pub(super) fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

pub(super) fn node(index: usize, now: &str) -> Value {
    let name = node_name(index);
    let role = if index == 0 {
        "node-role.kubernetes.io/control-plane"
    } else {
        "node-role.kubernetes.io/worker"
    };
    let resources = json!({ "cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "200Gi" });
    let zone = ["a", "b", "c"].get(index % 3).copied().unwrap_or("a");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": format!("zone-{zone}"), role: "",
        } },
        "spec": { "podCIDR": format!("10.{}.{}.0/24", 64 + (index / 256) % 64, index % 256) },
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [
                { "type": "InternalIP", "address": node_address(index) },
                { "type": "Hostname", "address": name },
            ],
            "conditions": [
                condition("MemoryPressure", false, "KubeletHasSufficientMemory", now),
                condition("DiskPressure", false, "KubeletHasNoDiskPressure", now),
                condition("PIDPressure", false, "KubeletHasSufficientPID", now),
                condition("Ready", true, "KubeletReady", now),
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.37.1", "osImage": "Imaginary Linux 1", "kernelVersion": "6.12.0",
                "containerRuntimeVersion": "containerd://2.1.0", "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

pub(super) fn node_name(index: usize) -> String {
    format!("node-{index:03}")
}

fn node_address(index: usize) -> String {
    format!("192.168.{}.{}", (index / 250) % 250, index % 250 + 1)
}

/// The address of a generated node; empty for other nodes.
pub(super) fn host_address(node: &str) -> String {
    let index = node.strip_prefix("node-").and_then(|index| index.parse().ok());
    index.map(node_address).unwrap_or_default()
}

pub(super) fn condition(kind: &str, holds: bool, reason: &str, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({ "type": kind, "status": status, "reason": reason, "lastTransitionTime": now, "lastHeartbeatTime": now })
}

pub(super) fn lease(node: &str, now: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": node, "namespace": "kube-node-lease" },
        "spec": { "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micro(now) },
    })
}

/// A timestamp with microseconds, as leases and newer events require.
pub(super) fn micro(now: &str) -> String {
    format!("{}.000000Z", now.trim_end_matches('Z'))
}

pub(super) fn deployment(namespace: &str, name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name },
                      "annotations": { "deployment.kubernetes.io/revision": "1" } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{
                    "name": name, "image": format!("registry.example/{name}:1.0.0"),
                    "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
                    "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
                }] },
            },
        },
    })
}

/// The replica set of a deployment for one version of its template, identified by `hash`.
pub(super) fn replica_set(deployment: &Value, hash: &str, revision: u64) -> Value {
    let text = |pointer: &str| {
        deployment
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let owner = Owner {
        api_version: "apps/v1",
        kind: "Deployment",
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
    };
    let mut template = deployment
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_else(|| json!({}));
    add_label(&mut template, "pod-template-hash", hash);
    let mut labels = template
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    labels.insert("pod-template-hash".to_owned(), json!(hash));
    let mut selector = deployment
        .pointer("/spec/selector")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let Value::Object(fields) = &mut selector {
        let labels = fields.entry("matchLabels").or_insert_with(|| json!({}));
        if let Value::Object(labels) = labels {
            labels.insert("pod-template-hash".to_owned(), json!(hash));
        }
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", owner.name), "namespace": text("/metadata/namespace"), "labels": labels,
            "annotations": { "deployment.kubernetes.io/revision": revision.to_string() },
            "ownerReferences": [owner.reference()],
        },
        "spec": { "replicas": 0, "selector": selector, "template": template },
        "status": { "replicas": 0 },
    })
}

/// A new, unscheduled pod of a replica set.
pub(super) fn pod_of(replica_set: &Value, suffix: &str) -> Value {
    let text = |pointer: &str| {
        replica_set
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let owner = Owner {
        api_version: "apps/v1",
        kind: "ReplicaSet",
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
    };
    let spec = replica_set
        .pointer("/spec/template/spec")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let labels = replica_set
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{}-{suffix}", owner.name), "generateName": format!("{}-", owner.name),
            "namespace": text("/metadata/namespace"), "labels": labels, "ownerReferences": [owner.reference()],
        },
        "spec": spec,
        "status": { "phase": "Pending" },
    })
}

/// A pod without an owner.
pub(super) fn bare_pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "registry.example/main:1.0.0" }] },
        "status": { "phase": "Pending" },
    })
}

/// A service for an application.
pub(super) fn service(namespace: &str, name: &str, index: usize) -> Value {
    let address = format!("10.96.{}.{}", (index / 250) % 250, index % 250 + 1);
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name } },
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "selector": { "app": name },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }],
        },
    })
}

/// A minimal object of any other kind.
pub(super) fn plain(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), json!(namespace))));
    metadata.insert("labels".to_owned(), json!({ "app": name }));
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
    let content = match kind {
        "ConfigMap" => Some(("data", json!({ "revision": "0" }))),
        "Secret" => Some(("data", json!({}))),
        "ServiceAccount" | "Role" | "ClusterRole" => None,
        _ => Some(("spec", json!({}))),
    };
    if let Value::Object(fields) = &mut object {
        fields.extend(content.map(|(name, value)| (name.to_owned(), value)));
    }
    object
}

fn add_label(template: &mut Value, key: &str, value: &str) {
    let Value::Object(template) = template else { return };
    let metadata = template.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata
        && let Value::Object(labels) = metadata.entry("labels").or_insert_with(|| json!({}))
    {
        labels.insert(key.to_owned(), json!(value));
    }
}
