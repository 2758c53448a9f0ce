//! Realistic pods: two containers, environment, probes, a projected volume, status and managedFields.

use serde_json::{Value, json};

pub const NAMESPACES: usize = 64;

/// One pod of about 9 kB, a third of it managedFields.
pub fn pod(number: usize, version: usize) -> Value {
    let name = format!(
        "workload-{:03}-{:08x}-{:05}",
        number % 600,
        number.wrapping_mul(2_654_435_761),
        number
    );
    let container = |name: &str, port: u16| {
        json!({
            "name": name,
            "image": format!("registry.example/team/{name}:v1.{}.3", number % 40),
            "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
            "env": (0..8).map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("value-{i}-{}", number % 10)})).collect::<Vec<_>>(),
            "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"name": "kube-api-access-x", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": port, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        })
    };
    let owned_fields: Value = (0..24)
        .map(|i| {
            (
                format!("f:field-{i}"),
                json!({"f:inner": {}, "f:other": {".": {}, "f:deep": {}}}),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T10:00:05Z"}));
    let statuses = ["app", "sidecar"].map(|name| {
        json!({
            "name": name, "ready": true, "restartCount": 0, "started": true,
            "image": format!("registry.example/team/{name}:v1"),
            "imageID": format!("registry.example/team/{name}@sha256:{:064}", 0),
            "containerID": format!("containerd://{number:064x}"),
            "state": {"running": {"startedAt": "2026-11-01T10:00:05Z"}},
        })
    });
    json!({
        "metadata": {
            "name": name,
            "generateName": format!("workload-{:03}-", number % 600),
            "namespace": format!("namespace-{:02}", number % NAMESPACES),
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
            "resourceVersion": (1000 + number + version * 1_000_000).to_string(),
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {"app": format!("workload-{:03}", number % 600), "tier": "web", "pod-template-hash": format!("{:08x}", number % 600)},
            "annotations": {"example.org/checked": "true", "example.org/team": format!("team-{}", number % 12)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("workload-{:03}", number % 600), "uid": format!("10000000-0000-4000-8000-{:012x}", number % 600), "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-11-01T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": owned_fields.clone(), "f:spec": owned_fields}},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-01T10:00:09Z", "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {}, "f:phase": {}, "f:podIPs": {".": {}}}}},
            ],
        },
        "spec": {
            "containers": [container("app", 8080), container("sidecar", 9090)],
            "volumes": [{"name": "kube-api-access-x", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}, {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
            "nodeName": format!("node-{:04}", number % 1000),
            "serviceAccountName": "default", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255), "qosClass": "Burstable",
            "startTime": "2026-11-01T10:00:00Z",
            "conditions": conditions,
            "containerStatuses": statuses,
        },
    })
}

/// A list body of this number of pods; `changed` selects those with a newer version.
pub fn list_body(pods: usize, changed: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(pods * 9_500);
    body.extend_from_slice(
        br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9000000"},"items":["#,
    );
    for number in 0..pods {
        if number > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, &pod(number, usize::from(changed(number)))).expect("a pod");
    }
    body.extend_from_slice(b"]}");
    body
}
