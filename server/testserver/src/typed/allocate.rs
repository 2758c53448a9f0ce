//! Values that the server assigns when it stores a new object: addresses and ports of services, selectors of jobs,
//! tolerations of pods, and the finalizers that protect volumes.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::storage::Store;

/// The first port that services are assigned on nodes, and the number of ports.
const NODE_PORTS: (u64, u64) = (30_000, 2_768);
/// Addresses of services are 10.0.0.1 to 10.0.0.254, then those of the following networks.
const HOSTS: usize = 254;

/// Assigns what only the server can: called with the uid set, after managed fields are recorded.
pub(crate) fn allocate(kind: &Kind, object: &mut Map<String, Value>, store: &Store) {
    if kind.custom {
        return;
    }
    let mut whole = Value::Object(std::mem::take(object));
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => service(&mut whole, store),
        ("", "Pod") => pod(&mut whole),
        ("", "PersistentVolumeClaim") => protect(&mut whole, "kubernetes.io/pvc-protection"),
        ("", "PersistentVolume") => protect(&mut whole, "kubernetes.io/pv-protection"),
        ("batch", "Job") => job(&mut whole),
        _ => {}
    }
    if let Value::Object(map) = whole {
        *object = map;
    }
}

fn service(service: &mut Value, store: &Store) {
    let Some(kind) = service
        .pointer("/spec/type")
        .and_then(Value::as_str)
        .map(str::to_owned)
    else {
        return;
    };
    if kind == "ExternalName" {
        return;
    }
    let selects = service.pointer("/spec/selector").is_some();
    let given = service
        .pointer("/spec/clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let address = if given.is_empty() {
        free_address(store)
    } else {
        given
    };
    let spec = &mut service["spec"];
    let dual = address == "None" && !selects;
    set_missing(spec, "clusterIPs", json!([address]));
    spec["clusterIP"] = address.into();
    set_missing(
        spec,
        "ipFamilies",
        if dual {
            json!(["IPv4", "IPv6"])
        } else {
            json!(["IPv4"])
        },
    );
    set_missing(
        spec,
        "ipFamilyPolicy",
        json!(if dual { "RequireDualStack" } else { "SingleStack" }),
    );
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") && spec["allocateLoadBalancerNodePorts"] != false
    {
        let mut taken = node_ports(store);
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            if port.get("nodePort").and_then(Value::as_u64).unwrap_or(0) == 0 {
                let (first, count) = NODE_PORTS;
                if let Some(free) = (first..first + count).find(|port| !taken.contains(port)) {
                    taken.insert(free);
                    port["nodePort"] = free.into();
                }
            }
        }
    }
    if kind == "LoadBalancer" || service.pointer("/spec/externalTrafficPolicy") == Some(&json!("Local")) {
        // Only an external load balancer with local traffic checks the health of nodes.
        let local = service.pointer("/spec/externalTrafficPolicy") == Some(&json!("Local"));
        if local && kind == "LoadBalancer" {
            let taken = node_ports(store);
            let (first, count) = NODE_PORTS;
            if let Some(free) = (first..first + count).rev().find(|port| !taken.contains(port)) {
                set_missing(&mut service["spec"], "healthCheckNodePort", free.into());
            }
        }
    }
}

fn free_address(store: &Store) -> String {
    let taken: HashSet<String> = of_services(store, "spec.clusterIP", |service| {
        let address = service.pointer("/spec/clusterIP").and_then(Value::as_str);
        address.unwrap_or_default().to_owned()
    })
    .collect();
    // 10.0.0.1 is the address of the API server.
    (1..)
        .map(|number: usize| format!("10.0.{}.{}", number / HOSTS, number % HOSTS + 1))
        .find(|address| !taken.contains(address))
        .unwrap_or_default()
}

fn node_ports(store: &Store) -> HashSet<u64> {
    let ports = of_services(store, "spec.ports[*].nodePort", |service| {
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        let ports = ports
            .into_iter()
            .flatten()
            .filter_map(|port| port.get("nodePort"));
        let ports: Vec<String> = ports.map(ToString::to_string).collect();
        ports.join(" ")
    });
    ports
        .flat_map(|ports| {
            ports
                .split(' ')
                .filter_map(|port| port.parse().ok())
                .collect::<Vec<u64>>()
        })
        .collect()
}

/// A value of every service. It is read from each stored object once.
fn of_services(store: &Store, name: &str, read: impl Fn(&Value) -> String) -> impl Iterator<Item = String> {
    let services = store.collection("services");
    services
        .into_iter()
        .flat_map(|services| services.objects())
        .map(move |service| service.with_field(name, &read, str::to_owned))
}

fn set_missing(object: &mut Value, name: &str, value: Value) {
    if object.get(name).is_none_or(Value::is_null) {
        object[name] = value;
    }
}

/// A job selects its pods by its own uid, unless the selector is manual.
fn job(job: &mut Value) {
    let uid = job.pointer("/metadata/uid").cloned().unwrap_or_default();
    let name = job.pointer("/metadata/name").cloned().unwrap_or_default();
    if job.pointer("/spec/manualSelector") == Some(&json!(true)) || job.pointer("/spec/template").is_none() {
        return;
    }
    // Labels that were copied from the template are the same map in Go, so they get the additions, too.
    let shared = job.pointer("/metadata/labels") == job.pointer("/spec/template/metadata/labels");
    let spec = &mut job["spec"];
    for (key, value) in [
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        set_missing(&mut spec["template"]["metadata"]["labels"], key, value.clone());
    }
    if shared {
        let labels = spec["template"]["metadata"]["labels"].clone();
        job["metadata"]["labels"] = labels;
    }
    let spec = &mut job["spec"];
    set_missing(spec, "selector", json!({}));
    spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
}

/// A new job as it is validated: with the selector and the labels that it gets when it is stored. `None` for everything that is validated
/// as it is.
pub(crate) fn to_validate(
    kind: &Kind,
    object: &Map<String, Value>,
    uid: impl FnOnce() -> String,
) -> Option<Map<String, Value>> {
    let is_job = kind.group == "batch" && kind.kind == "Job";
    let selector = object.get("spec").and_then(|spec| spec.get("selector"));
    if !is_job || selector.is_none_or(Value::is_null) {
        return None;
    }
    let mut whole = Value::Object(object.clone());
    whole["metadata"]["uid"] = uid().into();
    job(&mut whole);
    match whole {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// Completes an updated object: what admission adds to every write.
pub(crate) fn complete_update(kind: &Kind, object: &mut Map<String, Value>) {
    if kind.group.is_empty() && kind.kind == "Pod" {
        let mut whole = Value::Object(std::mem::take(object));
        pod(&mut whole);
        if let Value::Object(map) = whole {
            *object = map;
        }
    }
}

/// A pod stays on a lost node for five minutes, unless it says otherwise.
fn pod(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    let mut tolerations = spec
        .get("tolerations")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let text = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            (text("key") == key || text("key").is_empty()) && matches!(text("effect"), "NoExecute" | "")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    spec["tolerations"] = tolerations.into();
}

/// Sets the time at which a volume entered its phase, unless the writer of the status sets it.
pub(crate) fn time_phase(kind: &Kind, old: &Map<String, Value>, new: &mut Map<String, Value>, now: &str) {
    const TIME: &str = "lastPhaseTransitionTime";
    if !kind.group.is_empty() || kind.kind != "PersistentVolume" {
        return;
    }
    let of = |volume: &Map<String, Value>, field: &str| {
        let field = volume.get("status").and_then(|status| status.get(field));
        field.filter(|value| !value.is_null()).cloned()
    };
    let (before, given) = (of(old, TIME), of(new, TIME));
    let time = match (of(old, "phase") == of(new, "phase"), &given) {
        (true, None) => before,
        (false, given) if given.is_none() || *given == before => Some(now.into()),
        _ => None,
    };
    if let Some(time) = time {
        let status = new.entry("status").or_insert_with(|| json!({}));
        status[TIME] = time;
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let metadata = &mut object["metadata"];
    let mut finalizers = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.into());
        metadata["finalizers"] = finalizers.into();
    }
}
