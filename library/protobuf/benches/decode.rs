//! What it costs to decode, project or keep a pod. `cargo bench -p kube-protobuf`
//!
//! Each row is a process that decodes all pods and keeps them, once: time and memory are those of fresh memory, as at the
//! first list of an informer. The time is the median of a few processes.

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

/// The variable that names the row a process measures; without it, all rows are run.
const ROW: &str = "KUBE_PROTOBUF_BENCH_ROW";

/// Measures a row in this process, or in a few others.
fn row<T>(name: &str, encoded: &[&[u8]], read: impl Fn(&[u8]) -> T) {
    if let Some(only) = std::env::var_os(ROW) {
        if only == name {
            let (before, started) = (resident(), Instant::now());
            let mut kept = Vec::with_capacity(encoded.len());
            kept.extend(encoded.iter().map(|bytes| Arc::new(read(black_box(bytes)))));
            let time = started.elapsed().as_secs_f64() * 1e6 / encoded.len() as f64;
            println!(
                "{time} {}",
                resident().saturating_sub(before) / encoded.len() as u64
            );
            black_box(&kept);
        }
        return;
    }
    let mut results: Vec<(f64, u64)> = (0..ROUNDS)
        .map(|_| {
            let mut command = std::process::Command::new(std::env::current_exe().expect("a program"));
            let output = command
                .args(std::env::args().skip(1))
                .env(ROW, name)
                .output()
                .expect("a process");
            let text = String::from_utf8(output.stdout).expect("text");
            let (time, bytes) = text.trim().split_once(' ').expect("two numbers");
            (time.parse().expect("a number"), bytes.parse().expect("a number"))
        })
        .collect();
    results.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (time, bytes) = results[ROUNDS / 2];
    println!("{name:<42} {time:>8.2} µs {bytes:>8} resident bytes");
}

/// Writes the pods to a file, so that the processes that measure have no freed memory to use.
fn write_pods(path: &std::path::Path, pods: usize) {
    let message = schema::lookup("v1", "Pod").expect("Pod is in the table");
    let (mut out, mut sizes) = (Vec::new(), [0; 3]);
    for i in 0..pods {
        let mut pod = pod(i);
        let protobuf = ser::value_to_message(message, &pod).expect("a valid pod");
        let json = pod.to_string().into_bytes();
        pod["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove("managedFields");
        for (n, bytes) in [protobuf, json, pod.to_string().into_bytes()].iter().enumerate() {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
            sizes[n] += bytes.len();
        }
    }
    std::fs::write(path, out).expect("a file");
    let [protobuf, json, cut_json] = sizes.map(|size| size / pods);
    println!("{pods} pods: JSON {json} bytes, without managedFields {cut_json}, protobuf {protobuf}");
}

fn main() {
    // `cargo test --benches` runs this, too: that must not take long.
    let pods = if std::env::args().any(|arg| arg == "--bench") {
        PODS
    } else {
        10
    };
    let message = schema::lookup("v1", "Pod").expect("Pod is in the table");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pods-{pods}.bin"));
    if std::env::var_os(ROW).is_none() {
        write_pods(&path, pods);
    }
    let file = std::fs::read(&path).expect("a file");
    let (mut rest, mut sets) = (&file[..], [const { Vec::new() }; 3]);
    for n in (0..3).cycle() {
        let Some((length, after)) = rest.split_first_chunk::<4>() else {
            break;
        };
        let (bytes, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        sets[n].push(bytes);
        rest = after;
    }
    let [protobuf, json, cut_json] = sets;
    let types = Some(TypeMeta {
        api_version: "v1",
        kind: "Pod",
    });
    let all = Options::new();
    let cut = Options::new().without_managed_fields();
    let node = raw::Path::parse(message, "spec.nodeName").expect("a field");
    let ready = raw::Path::parse(message, "status.conditions[Ready].status").expect("a field");
    let spec = raw::Path::parse(message, "spec").expect("a field");
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
