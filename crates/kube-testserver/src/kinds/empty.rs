//! The fields that an empty object of a built-in kind still has, because a typed server always encodes them.

use serde_json::{Value, json};

use super::Kind;

/// The parts besides type and metadata that a bookmark of this kind contains. Recorded from a real server; rare kinds
/// and custom kinds have none.
pub fn empty_parts(kind: &Kind) -> Value {
    let pod_template = || json!({ "metadata": {}, "spec": { "containers": null } });
    match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
        ("", _, "Event") => json!({
            "eventTime": null, "firstTimestamp": null, "involvedObject": {}, "lastTimestamp": null,
            "reportingComponent": "", "reportingInstance": "", "source": {},
        }),
        ("", _, "LimitRange") => json!({ "spec": { "limits": null } }),
        ("", _, "PersistentVolumeClaim") => json!({ "spec": { "resources": {} }, "status": {} }),
        ("", _, "Pod") => json!({ "spec": { "containers": null }, "status": {} }),
        ("", _, "PodTemplate") => json!({ "template": pod_template() }),
        ("", _, "ReplicationController") => json!({ "spec": {}, "status": { "replicas": 0 } }),
        ("", _, "Service") => json!({ "spec": {}, "status": { "loadBalancer": {} } }),
        ("", _, "Namespace" | "PersistentVolume" | "ResourceQuota") => json!({ "spec": {}, "status": {} }),
        ("", _, "Node") => json!({ "spec": {}, "status": {
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 0 } },
            "nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": "",
            },
        } }),
        ("apps", _, "ControllerRevision") => json!({ "data": null, "revision": 0 }),
        ("apps", _, "DaemonSet") => json!({
            "spec": { "selector": null, "template": pod_template(), "updateStrategy": {} },
            "status": {
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            },
        }),
        ("apps", _, "Deployment") => json!({
            "spec": { "replicas": 0, "selector": null, "strategy": {}, "template": pod_template() },
            "status": {},
        }),
        ("apps", _, "ReplicaSet") => json!({
            "spec": { "replicas": 0, "selector": null, "template": pod_template() },
            "status": { "replicas": 0 },
        }),
        ("apps", _, "StatefulSet") => json!({
            "spec": {
                "replicas": 0, "selector": null, "serviceName": "", "template": pod_template(), "updateStrategy": {},
            },
            "status": { "availableReplicas": 0, "replicas": 0 },
        }),
        ("batch", _, "CronJob") => json!({
            "spec": {
                "jobTemplate": { "metadata": {}, "spec": { "template": pod_template() } }, "schedule": "",
            },
            "status": {},
        }),
        ("batch", _, "Job") => json!({ "spec": { "template": pod_template() }, "status": {} }),
        ("networking.k8s.io", _, "Ingress") => json!({ "spec": {}, "status": { "loadBalancer": {} } }),
        ("networking.k8s.io", _, "NetworkPolicy") => json!({ "spec": { "podSelector": {} } }),
        ("policy", _, "PodDisruptionBudget") => json!({
            "spec": {},
            "status": { "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0 },
        }),
        ("autoscaling", "v2", "HorizontalPodAutoscaler") => json!({
            "spec": { "maxReplicas": 0, "scaleTargetRef": { "kind": "", "name": "" } },
            "status": { "currentMetrics": null, "desiredReplicas": 0 },
        }),
        ("coordination.k8s.io", "v1", "Lease") => json!({ "spec": {} }),
        ("discovery.k8s.io", _, "EndpointSlice") => {
            json!({ "addressType": "", "endpoints": null, "ports": null })
        }
        ("rbac.authorization.k8s.io", _, "Role" | "ClusterRole") => json!({ "rules": null }),
        ("rbac.authorization.k8s.io", _, "RoleBinding" | "ClusterRoleBinding") => {
            json!({ "roleRef": { "apiGroup": "", "kind": "", "name": "" } })
        }
        ("storage.k8s.io", _, "StorageClass") => json!({ "provisioner": "" }),
        ("storage.k8s.io", _, "CSINode") => json!({ "spec": { "drivers": null }, "status": {} }),
        ("storage.k8s.io", _, "CSIDriver") => json!({ "spec": {} }),
        ("storage.k8s.io", _, "VolumeAttachment") => json!({
            "spec": { "attacher": "", "nodeName": "", "source": {} },
            "status": { "attached": false },
        }),
        ("apiextensions.k8s.io", _, "CustomResourceDefinition") => json!({
            "spec": { "group": "", "names": { "kind": "", "plural": "" }, "scope": "", "versions": null },
            "status": {
                "acceptedNames": { "kind": "", "plural": "" }, "conditions": null, "storedVersions": null,
            },
        }),
        ("scheduling.k8s.io", _, "PriorityClass") => json!({ "value": 0 }),
        _ => json!({}),
    }
}
