//! Realistic pods: two containers, environment, probes, a projected volume, status and managedFields.
//!
//! As a kube-apiserver would store them: valid, defaulted, and with matching managedFields.

use serde_json::{Value, json};

/// The number of namespaces.
pub const NAMESPACES: usize = 64;
/// The annotation with the round and the time of the last write.
pub const SENT: &str = "example.org/sent";
/// The value of [`SENT`] on objects that no round has written; of the same length as every other.
pub const NEVER: &str = "0000-0000000000000000000";
/// The number of pods per node.
const PODS_PER_NODE: usize = 20;
const WORKLOADS: usize = 600;

/// The value of [`SENT`]: the round and the time in nanoseconds since 1970. Of fixed length, so that it can be replaced
/// in encoded objects.
#[must_use]
pub fn sent(round: u16, nanos: u64) -> String {
    format!("{:04}-{nanos:019}", round % 10_000)
}

/// Parses the result of [`sent`].
#[must_use]
pub fn parse_sent(value: &str) -> Option<(u16, u64)> {
    let (round, nanos) = value.split_once('-')?;
    Some((round.parse().ok()?, nanos.parse().ok()?))
}

/// Nanoseconds since 1970, the common clock of writer and handler.
#[must_use]
pub fn now_nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The namespace of a pod.
#[must_use]
pub fn namespace(number: usize) -> String {
    format!("team-{:02}", number % NAMESPACES)
}

/// The name of a pod.
#[must_use]
pub fn name(number: usize) -> String {
    let workload = number % WORKLOADS;
    format!(
        "workload-{workload:03}-{:09x}-{number:06}",
        hash(workload) & 0xF_FFFF_FFFF
    )
}

/// The node a pod runs on.
#[must_use]
pub fn node(number: usize) -> String {
    format!("worker-{:05}", number / PODS_PER_NODE)
}

/// Scatters numbers, so that names, addresses and ids are not in the order of the pods.
pub(crate) fn hash(number: usize) -> u64 {
    let mut state = number as u64 ^ 0x9E37_79B9_7F4A_7C15;
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

pub(crate) fn uid(number: usize) -> String {
    let bits = hash(number);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{number:012x}",
        bits >> 32,
        bits >> 16 & 0xFFFF,
        bits >> 4 & 0xFFF,
        bits & 0xFFF
    )
}

/// One pod of about 9 kB, of which managedFields are about 3.8 kB.
#[must_use]
pub fn pod(number: usize) -> Value {
    let workload = number % WORKLOADS;
    let template = format!("{:09x}", hash(workload) & 0xF_FFFF_FFFF);
    let app = format!("workload-{workload:03}");
    let token_volume = format!("kube-api-access-{:05x}", hash(number) & 0xF_FFFF);
    let address = format!(
        "10.{}.{}.{}",
        64 + (number >> 16 & 63),
        number >> 8 & 255,
        number & 255
    );
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(number),
            "generateName": format!("{app}-{template}-"),
            "namespace": namespace(number),
            "uid": uid(number),
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {"app": app, "tier": "web", "pod-template-hash": template, "example.org/number": number.to_string()},
            "annotations": {SENT: NEVER, "example.org/config-checksum": format!("{:016x}{:016x}", hash(workload), hash(workload + 7))},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-{template}"),
                "uid": uid(1_000_000 + workload), "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": managed_fields(&token_volume, &address, &uid(1_000_000 + workload)),
        },
        "spec": {
            "containers": [container("app", 8080, number, &token_volume), container("proxy", 9090, number, &token_volume)],
            "volumes": [{"name": token_volume, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ]}}],
            "nodeName": node(number),
            "serviceAccountName": "default", "serviceAccount": "default",
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0, "securityContext": {},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
        "status": status(number, &address),
    })
}

fn container(name: &str, port: u16, number: usize, token_volume: &str) -> Value {
    let probe = |path: &str| {
        json!({
            "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        })
    };
    json!({
        "name": name,
        "image": format!("registry.example/team/{name}:v1.{}.3", number % WORKLOADS % 40),
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "SHARD", "value": (number % 10).to_string()},
            {"name": "UPSTREAM", "value": format!("http://upstream-{}.svc:8080", number % WORKLOADS)},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        ],
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": token_volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    })
}

fn status(number: usize, address: &str) -> Value {
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({"type": kind, "status": "True", "observedGeneration": 1, "lastProbeTime": null, "lastTransitionTime": "2026-11-01T10:00:05Z"}));
    let statuses = ["app", "proxy"].map(|name| {
        let image = format!("registry.example/team/{name}");
        json!({
            "name": name, "ready": true, "restartCount": 0, "started": true, "lastState": {},
            "image": format!("{image}:v1.{}.3", number % WORKLOADS % 40),
            "imageID": format!("{image}@sha256:{:016x}{:016x}{:016x}{:016x}", hash(1), hash(2), hash(3), hash(number % WORKLOADS % 40)),
            "containerID": format!("containerd://{:016x}{:016x}{:016x}{:016x}", hash(number), hash(number + 1), hash(number + 2), hash(name.len() + number)),
            "state": {"running": {"startedAt": "2026-11-01T10:00:05Z"}},
        })
    });
    json!({
        "phase": "Running", "qosClass": "Burstable", "observedGeneration": 1,
        "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "podIP": address, "podIPs": [{"ip": address}],
        "startTime": "2026-11-01T10:00:00Z",
        "conditions": conditions,
        "containerStatuses": statuses,
    })
}

fn managed_fields(token_volume: &str, address: &str, owner: &str) -> Value {
    let probe = json!({
        ".": {}, "f:failureThreshold": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}, "f:scheme": {}},
        "f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {},
    });
    let container = |name: &str, port: u16| {
        json!({
            ".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {},
            "f:env": {
                ".": {},
                "k:{\"name\":\"LOG_LEVEL\"}": {".": {}, "f:name": {}, "f:value": {}},
                "k:{\"name\":\"POD_IP\"}": {".": {}, "f:name": {}, "f:valueFrom": {".": {}, "f:fieldRef": {}}},
                "k:{\"name\":\"SHARD\"}": {".": {}, "f:name": {}, "f:value": {}},
                "k:{\"name\":\"UPSTREAM\"}": {".": {}, "f:name": {}, "f:value": {}},
            },
            "f:livenessProbe": probe.clone(), "f:readinessProbe": probe.clone(),
            "f:ports": {".": {}, format!("k:{{\"containerPort\":{port},\"protocol\":\"TCP\"}}"): {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
            "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
            "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}, "name": name,
        })
    };
    let mut containers = serde_json::Map::new();
    for (name, port) in [("app", 8080), ("proxy", 9090)] {
        let mut fields = container(name, port);
        // The name was only needed for the key.
        let name = fields.as_object_mut().and_then(|fields| fields.remove("name"));
        containers.insert(format!("k:{{\"name\":{}}}", name.unwrap_or_default()), fields);
    }
    let condition = json!({".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:observedGeneration": {}, "f:status": {}, "f:type": {}});
    json!([
        {
            "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-11-01T10:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:annotations": {".": {}, "f:example.org/config-checksum": {}, format!("f:{SENT}"): {}},
                    "f:generateName": {},
                    "f:labels": {".": {}, "f:app": {}, "f:example.org/number": {}, "f:pod-template-hash": {}, "f:tier": {}},
                    "f:ownerReferences": {".": {}, format!("k:{{\"uid\":\"{owner}\"}}"): {}},
                },
                "f:spec": {
                    "f:containers": containers,
                    "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
                    "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
                    "f:volumes": {".": {}, format!("k:{{\"name\":\"{token_volume}\"}}"): {".": {}, "f:name": {}, "f:projected": {".": {}, "f:defaultMode": {}, "f:sources": {}}}},
                },
            },
        },
        {
            "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-01T10:00:09Z",
            "fieldsType": "FieldsV1", "subresource": "status",
            "fieldsV1": {"f:status": {
                "f:conditions": {
                    "k:{\"type\":\"ContainersReady\"}": condition.clone(), "k:{\"type\":\"Initialized\"}": condition.clone(),
                    "k:{\"type\":\"PodReadyToStartContainers\"}": condition.clone(), "k:{\"type\":\"Ready\"}": condition,
                },
                "f:containerStatuses": {}, "f:hostIP": {}, "f:hostIPs": {}, "f:observedGeneration": {}, "f:phase": {}, "f:podIP": {},
                "f:podIPs": {".": {}, format!("k:{{\"ip\":\"{address}\"}}"): {".": {}, "f:ip": {}}}, "f:startTime": {},
            }},
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_round_trips_with_a_fixed_length() {
        let value = sent(12, 34);

        assert_eq!(parse_sent(&value), Some((12, 34)));
        assert_eq!(parse_sent(NEVER), Some((0, 0)));
        assert_eq!(value.len(), NEVER.len());
        assert_eq!(sent(9_999, now_nanos()).len(), NEVER.len());
        assert_eq!(parse_sent("yesterday"), None);
    }

    #[test]
    fn pod_has_the_documented_size() {
        let value = pod(1_234);
        let text = value.to_string();
        let managed = value["metadata"]["managedFields"].to_string();
        let decoded: k8s_openapi::api::core::v1::Pod = serde_json::from_value(value).unwrap();

        assert_eq!(decoded.metadata.name, Some(name(1_234)));
        assert_eq!(decoded.spec.unwrap().containers.len(), 2);
        assert!((8_000..10_000).contains(&text.len()), "{} bytes", text.len());
        assert!(
            (3_000..4_500).contains(&managed.len()),
            "{} bytes of managedFields",
            managed.len()
        );
    }
}
