//! EndpointSlice: the pods that a service selects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::pods::{has_ended, is_deleting, is_ready};
use crate::fields::{controller_reference, flag, list, selects, set, text};

const COLLECTION: &str = "endpointslices.discovery.k8s.io";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The number of endpoints in a slice, as in kube-controller-manager.
const SLICE: usize = 100;

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let selects_pods = |service: &Value| {
        let selector = service.pointer("/spec/selector").and_then(Value::as_object);
        selector.is_some_and(|selector| !selector.is_empty())
            && text(service, "/spec/type") != "ExternalName"
            && !is_deleting(service)
    };
    // The slices of a deleted service are garbage.
    let Some(service) = cluster.get("services", key).filter(selects_pods) else {
        return;
    };
    let wanted = slices(cluster, &service);
    let mut present: Vec<String> = cluster
        .owned(COLLECTION, text(&service, "/metadata/uid"))
        .iter()
        .filter(|slice| {
            let manager = slice.meta.labels.get("endpointslice.kubernetes.io/managed-by");
            manager.is_some_and(|manager| manager == MANAGER)
        })
        .map(|slice| slice.key.to_string())
        .collect();
    present.sort();
    let mut present = present.into_iter();
    for slice in wanted {
        match present.next() {
            Some(key) => {
                cluster.edit(COLLECTION, &key, |object| {
                    object["endpoints"] = slice["endpoints"].clone();
                    object["ports"] = slice["ports"].clone();
                });
            }
            None => {
                let mut slice = slice;
                let base = format!("{}-", text(&service, "/metadata/name"));
                set(
                    &mut slice,
                    &["metadata", "name"],
                    format!("{base}{}", cluster.suffix()),
                );
                set(&mut slice, &["metadata", "generateName"], base);
                cluster.create(slice);
            }
        }
    }
    for surplus in present {
        cluster.delete(COLLECTION, &surplus);
    }
}

/// The slices of a service: by the ports of its pods, which may differ for named ports, in pieces. A service without pods has
/// one empty slice.
fn slices(cluster: &Cluster<'_>, service: &Value) -> Vec<Value> {
    let namespace = text(service, "/metadata/namespace");
    let selector = json!({ "matchLabels": service.pointer("/spec/selector") });
    let mut by_ports: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
    for stored in cluster.all("pods", Some(namespace)) {
        if !selects(&selector, &stored.meta.labels) {
            continue;
        }
        let pod = stored.value();
        if has_ended(&pod) || text(&pod, "/status/podIP").is_empty() {
            continue;
        }
        let ports = ports(service, &pod);
        let entry = by_ports.entry(ports.to_string());
        let (_, endpoints) = entry.or_insert_with(|| (ports, Vec::new()));
        endpoints.push(endpoint(cluster, service, &pod));
    }
    if by_ports.is_empty() {
        by_ports.insert(String::new(), (Value::Null, Vec::new()));
    }
    let mut slices = Vec::new();
    for (ports, endpoints) in by_ports.into_values() {
        if endpoints.is_empty() {
            slices.push(slice(service, &ports, Value::Null));
        }
        for piece in endpoints.chunks(SLICE) {
            slices.push(slice(service, &ports, json!(piece)));
        }
    }
    slices
}

fn slice(service: &Value, ports: &Value, endpoints: Value) -> Value {
    let mut labels = Map::new();
    let own = service.pointer("/metadata/labels").and_then(Value::as_object);
    labels.extend(
        own.into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    labels.insert(
        "endpointslice.kubernetes.io/managed-by".to_owned(),
        json!(MANAGER),
    );
    labels.insert(
        "kubernetes.io/service-name".to_owned(),
        text(service, "/metadata/name").into(),
    );
    if text(service, "/spec/clusterIP") == "None" {
        labels.insert("service.kubernetes.io/headless".to_owned(), json!(""));
    }
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "namespace": text(service, "/metadata/namespace"), "labels": labels,
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}

fn endpoint(cluster: &Cluster<'_>, service: &Value, pod: &Value) -> Value {
    let (serving, terminating) = (is_ready(pod), is_deleting(pod));
    let published = flag(service, "/spec/publishNotReadyAddresses");
    let node = text(pod, "/spec/nodeName");
    let mut endpoint = json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {
            "ready": published || (serving && !terminating), "serving": serving, "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod", "namespace": text(pod, "/metadata/namespace"), "name": text(pod, "/metadata/name"),
            "uid": text(pod, "/metadata/uid"),
        },
    });
    if !node.is_empty() {
        endpoint["nodeName"] = node.into();
        let zone = cluster.stored("nodes", node);
        if let Some(zone) = zone.and_then(|node| node.meta.labels.get("topology.kubernetes.io/zone").cloned())
        {
            endpoint["zone"] = zone.into();
        }
    }
    let hostname = text(pod, "/spec/hostname");
    if !hostname.is_empty() && text(pod, "/spec/subdomain") == text(service, "/metadata/name") {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

/// The ports of a service as numbers; those with a name are looked up in the pod.
fn ports(service: &Value, pod: &Value) -> Value {
    let ports = list(service, "/spec/ports").iter().filter_map(|port| {
        let protocol = match text(port, "/protocol") {
            "" => "TCP",
            protocol => protocol,
        };
        let number = match port.get("targetPort") {
            Some(Value::String(name)) => container_port(pod, name, protocol)?,
            Some(target) if target.as_i64().is_some_and(|number| number > 0) => target.clone(),
            _ => port.get("port")?.clone(),
        };
        let mut found = json!({ "name": text(port, "/name"), "port": number, "protocol": protocol });
        if let Some(protocol) = port.get("appProtocol") {
            found["appProtocol"] = protocol.clone();
        }
        Some(found)
    });
    ports.collect()
}

fn container_port(pod: &Value, name: &str, protocol: &str) -> Option<Value> {
    let containers = list(pod, "/spec/containers").iter();
    let mut ports = containers.flat_map(|container| list(container, "/ports"));
    let found = ports.find(|port| {
        let own = text(port, "/protocol");
        text(port, "/name") == name && (own.is_empty() || own == protocol)
    });
    found.and_then(|port| port.get("containerPort")).cloned()
}
