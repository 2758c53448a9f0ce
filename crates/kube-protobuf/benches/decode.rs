//! What it costs to decode, project or keep a pod. `cargo bench -p kube-protobuf`
//!
//! Each row decodes all pods into new memory and keeps them; the time is the median of a few rounds.

#![allow(clippy::disallowed_methods)] // Measures real time.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_protobuf::{Options, TypeMeta, from_message, raw, schema, ser};
use serde::Deserialize;
use serde_json::{Value, json};

const PODS: usize = 2000;
const ROUNDS: usize = 5;

#[derive(Deserialize)]
#[allow(dead_code)]
struct Projection {
    metadata: Names,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)]
struct Names {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)]
struct Spec {
    node_name: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Status {
    phase: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

#[allow(dead_code)]
struct Kept {
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    version: u64,
    bytes: Box<[u8]>,
}

/// A pod of two containers, with the managed fields of three managers.
fn pod(i: usize) -> Value {
    let app = format!("app-{:03}", i % 200);
    let container = |name: &str, port: u16| {
        let mut env: Vec<_> = (0..8)
            .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-for-{app}")}))
            .collect();
        let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
        env.push(json!({"name": "POD_NAME", "valueFrom": {"fieldRef": field}}));
        json!({
            "name": name, "image": format!("registry.example.com/team/{app}:v1.2.3"), "env": env,
            "args": ["--config=/etc/config/config.yaml", "--v=2"],
            "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}, {"name": "tmp", "mountPath": "/tmp"}],
            "livenessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 10, "timeoutSeconds": 1,
                "successThreshold": 1, "failureThreshold": 3},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        })
    };
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let time = "2025-10-09T11:39:59Z";
    let status = |name: &str| {
        json!({"name": name, "ready": true, "started": true, "restartCount": 0, "lastState": {},
            "image": format!("registry.example.com/team/{app}:v1.2.3"),
            "imageID": format!("registry.example.com/team/x@sha256:{digest}"),
            "containerID": format!("containerd://{digest}"), "state": {"running": {"startedAt": time}}})
    };
    let conditions: Vec<_> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .iter()
        .map(
            |kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": time}),
        )
        .collect();
    // What server-side apply records about the fields above.
    let fields = |root: &str| {
        let env: serde_json::Map<_, _> = (0..8)
            .map(|n| {
                (
                    format!("k:{{\"name\":\"SETTING_{n}\"}}"),
                    json!({".": {}, "f:name": {}, "f:value": {}}),
                )
            })
            .collect();
        let container = json!({".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:env": env, "f:ports": {},
            "f:livenessProbe": {".": {}, "f:tcpSocket": {"f:port": {}}, "f:periodSeconds": {}},
            "f:resources": {".": {}, "f:limits": {"f:cpu": {}, "f:memory": {}}}, "f:volumeMounts": {}});
        json!({root: {"k:{\"name\":\"main\"}": container, "k:{\"name\":\"sidecar\"}": container}})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-7d9c5b8f4-{i:06}"), "namespace": format!("ns-{:02}", i % 20),
            "uid": format!("{:08x}-2222-4333-8444-{:012x}", i * 7919, i * 104_729),
            "resourceVersion": (100_000 + i * 3).to_string(), "generation": 1, "creationTimestamp": time,
            "labels": {"app": app, "pod-template-hash": "7d9c5b8f4", "tier": "frontend", "team": "team-1"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": digest},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7d9c5b8f4"),
                "uid": "11111111-2222-3333-4444-555555555555", "controller": true}],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": time,
                    "fieldsType": "FieldsV1", "fieldsV1": fields("f:spec")},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": time,
                    "fieldsType": "FieldsV1", "fieldsV1": fields("f:status"), "subresource": "status"},
            ],
        },
        "spec": {
            "nodeName": format!("node-{:04}", i % 500), "serviceAccountName": "default", "serviceAccount": "default",
            "containers": [container("main", 8080), container("sidecar", 9090)], "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
            "securityContext": {}, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
            "volumes": [{"name": "config", "configMap": {"name": format!("{app}-config"), "defaultMode": 420}},
                {"name": "tmp", "emptyDir": {}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running", "qosClass": "Burstable", "hostIP": "192.168.0.1", "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}], "startTime": time, "conditions": conditions,
            "containerStatuses": [status("main"), status("sidecar")]},
    })
}

/// Resident bytes of this process, where the system tells.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.starts_with("Rss:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or_default()
        * 1024
}

fn row<T>(name: &str, encoded: &[Vec<u8>], read: impl Fn(&[u8]) -> T) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for round in 0..ROUNDS {
        let before = resident();
        let started = Instant::now();
        let mut kept = Vec::with_capacity(encoded.len());
        kept.extend(encoded.iter().map(|bytes| Arc::new(read(black_box(bytes)))));
        times.push(started.elapsed().as_secs_f64() * 1e6 / encoded.len() as f64);
        if round == 0 {
            bytes = resident().saturating_sub(before) / encoded.len() as u64;
        }
        black_box(&kept);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{name:<42} {:>8.2} µs {bytes:>8} resident bytes",
        times[ROUNDS / 2]
    );
}

fn main() {
    // `cargo test` builds and runs benches, too: that must not take long.
    let pods = if std::env::args().any(|arg| arg == "--bench") {
        PODS
    } else {
        10
    };
    let message = schema::lookup("v1", "Pod").expect("Pod is in the table");
    let (mut json, mut cut_json, mut protobuf) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..pods {
        let mut pod = pod(i);
        protobuf.push(ser::value_to_message(message, &pod).expect("a valid pod"));
        json.push(pod.to_string().into_bytes());
        pod["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove("managedFields");
        cut_json.push(pod.to_string().into_bytes());
    }
    let mean = |all: &[Vec<u8>]| all.iter().map(Vec::len).sum::<usize>() / all.len();
    println!(
        "{pods} pods: JSON {} bytes, without managedFields {}, protobuf {}",
        mean(&json),
        mean(&cut_json),
        mean(&protobuf)
    );
    let types = Some(TypeMeta {
        api_version: "v1",
        kind: "Pod",
    });
    let all = Options::new();
    let cut = Options::new().without_managed_fields();
    let node = raw::Path::parse(message, "spec.nodeName").expect("a field");
    let ready = raw::Path::parse(message, "status.conditions[Ready].status").expect("a field");
    let spec = raw::Path::parse(message, "spec").expect("a field");
    // What grows the heap least comes first, so that no row reuses the memory of another.
    row("one path: spec.nodeName", &protobuf, |b| {
        node.read(b).map(|v| v.is_some()).expect("readable")
    });
    row("one path: status.conditions[Ready].status", &protobuf, |b| {
        ready.read(b).map(|v| v.is_some()).expect("readable")
    });
    row("spec unchanged, with a copy", &protobuf, |b| {
        // An unknown field at the end: another version with the same spec.
        let mut other = b.to_vec();
        kube_protobuf::wire::put_bytes(&mut other, 61, b"");
        raw::changed(&spec, b, &other).expect("readable")
    });
    row("protobuf, projection of 5 fields", &protobuf, |b| {
        from_message::<Projection>(message, b, None, &cut).expect("a pod")
    });
    row("JSON, projection of 5 fields", &json, |b| {
        serde_json::from_slice::<Projection>(b).expect("a pod")
    });
    row("protobuf, metadata only", &protobuf, |b| {
        from_message::<MetadataOnly>(message, b, None, &cut).expect("a pod")
    });
    row("protobuf kept as bytes, managedFields cut", &protobuf, |b| {
        let header = raw::header(b).expect("metadata");
        Kept {
            namespace: header.namespace.into(),
            name: header.name.into(),
            uid: header.uid.into(),
            version: header.resource_version.parse().expect("a version"),
            bytes: raw::without_managed_fields(b).expect("a pod").into(),
        }
    });
    row("protobuf typed, managedFields skipped", &protobuf, |b| {
        from_message::<Pod>(message, b, types, &cut).expect("a pod")
    });
    row("JSON typed, without managedFields", &cut_json, |b| {
        serde_json::from_slice::<Pod>(b).expect("a pod")
    });
    row("protobuf typed, whole", &protobuf, |b| {
        from_message::<Pod>(message, b, types, &all).expect("a pod")
    });
    row("JSON typed, whole", &json, |b| {
        serde_json::from_slice::<Pod>(b).expect("a pod")
    });
}
