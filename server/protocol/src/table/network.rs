//! Tables of nodes, events, services and other network kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cells;
use super::age;
use super::cells::{Reader, few};
use super::columns::{AGE, Column, NAME, text, wide};

pub(super) fn columns(key: (&str, &str)) -> Option<(&'static [Column], Cells)> {
    Some(match key {
        ("", "nodes") => (NODE, node),
        ("", "services") => (SERVICE, service),
        ("", "events") | ("events.k8s.io", "events") => (EVENT, event),
        ("", "endpoints") => (ENDPOINTS, endpoints),
        ("discovery.k8s.io", "endpointslices") => (ENDPOINT_SLICE, endpoint_slice),
        ("networking.k8s.io", "ingresses") => (INGRESS, ingress),
        _ => return None,
    })
}

const NODE: &[Column] = &[
    NAME,
    text("Status"),
    text("Roles"),
    AGE,
    text("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let node = Reader(object);
    let mut status = match node.condition("Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.flag("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let addresses = node.list("/status/addresses").iter().map(Reader);
        let found = addresses
            .into_iter()
            .find(|address| address.text("/type") == kind);
        json!(found.map_or("<none>", |address| address.text("/address")))
    };
    let mut kernel = node
        .text_or("/status/nodeInfo/kernelVersion", "<unknown>")
        .to_owned();
    match node.text("/status/nodeInfo/architecture") {
        "" => {}
        architecture => kernel.push_str(&format!(" ({architecture})")),
    }
    vec![
        node.name(),
        json!(status),
        json!(node_roles(node)),
        node.age(now),
        json!(node.text("/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(node.text_or("/status/nodeInfo/osImage", "<unknown>")),
        json!(kernel),
        json!(node.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>")),
    ]
}

fn node_roles(node: Reader<'_>) -> String {
    let labels = node.at("/metadata/labels").and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let mut roles: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

const SERVICE: &[Column] = &[
    NAME,
    text("Type"),
    text("Cluster-IP"),
    text("External-IP"),
    text("Port(s)"),
    AGE,
    wide("Selector"),
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = Reader(object);
    let kind = service.text_or("/spec/type", "ClusterIP");
    let address = match service.text("/spec/clusterIPs/0") {
        "" => service.text_or("/spec/clusterIP", "<none>"),
        first => first,
    };
    let external: Vec<&str> = service
        .list("/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let external = match kind {
        "ExternalName" => service.text("/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let balancer = balancer_addresses(service);
            let all: Vec<&str> = balancer
                .split(',')
                .filter(|part| !part.is_empty())
                .chain(external)
                .collect();
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        _ if external.is_empty() => "<none>".to_owned(),
        _ => external.join(","),
    };
    let ports: Vec<String> = service
        .list("/spec/ports")
        .iter()
        .map(|port| service_port(Reader(port)))
        .collect();
    vec![
        service.name(),
        json!(kind),
        json!(address),
        json!(external),
        json!(if ports.is_empty() {
            "<none>".to_owned()
        } else {
            ports.join(",")
        }),
        service.age(now),
        json!(service.selector("/spec/selector")),
    ]
}

fn service_port(port: Reader<'_>) -> String {
    let (number, protocol) = (port.number("/port"), port.text_or("/protocol", "TCP"));
    match port.number("/nodePort") {
        0 => format!("{number}/{protocol}"),
        node_port => format!("{number}:{node_port}/{protocol}"),
    }
}

fn balancer_addresses(object: Reader<'_>) -> String {
    let points = object.list("/status/loadBalancer/ingress").iter().map(Reader);
    let mut addresses: Vec<&str> = points
        .map(|point| point.text_or("/ip", point.text("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

const EVENT: &[Column] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    wide("Count"),
    Column::wide_name("Name"),
];

/// Events of both groups, whose field names differ.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let event = Reader(object);
    let either = |core: &str, events: &'static str| match event.text(core) {
        "" => event.text(events),
        text => text,
    };
    let first = match either("/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => event.text("/eventTime"),
        first => first,
    };
    let (mut last, mut count) = match either("/lastTimestamp", "/deprecatedLastTimestamp") {
        "" => (first, 0),
        last => (last, 0),
    };
    count += event
        .number("/count")
        .max(event.number("/deprecatedCount"))
        .max(1);
    if event.at("/series").is_some() {
        (last, count) = (
            event.text("/series/lastObservedTime"),
            event.number("/series/count"),
        );
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = match either("/source/component", "/deprecatedSource/component") {
        "" => either("/reportingComponent", "/reportingController"),
        component => component,
    };
    let source = match either("/source/host", "/deprecatedSource/host") {
        "" => event.text("/reportingInstance"),
        host => host,
    };
    let source = if source.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {source}")
    };
    vec![
        json!(age::since(last, now)),
        json!(event.text("/type")),
        json!(event.text("/reason")),
        json!(target),
        json!(either("/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source),
        json!(either("/message", "/note").trim()),
        json!(age::since(first, now)),
        json!(count),
        event.name(),
    ]
}

const ENDPOINTS: &[Column] = &[NAME, text("Endpoints"), AGE];

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let mut all = Vec::new();
    for subset in object.list("/subsets").iter().map(Reader) {
        let addresses = || {
            subset
                .list("/addresses")
                .iter()
                .map(|address| Reader(address).text("/ip"))
        };
        let ports = subset.list("/ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = Reader(port).number("/port");
            all.extend(addresses().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    vec![object.name(), json!(few(&all, 3, "<none>")), object.age(now)]
}

const ENDPOINT_SLICE: &[Column] = &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE];

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let ports: Vec<String> = object
        .list("/ports")
        .iter()
        .map(|port| Reader(port).scalar_or("/port", Reader(port).text_or("/name", "*")))
        .collect();
    let addresses: Vec<String> = object
        .list("/endpoints")
        .iter()
        .flat_map(|endpoint| Reader(endpoint).list("/addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    vec![
        object.name(),
        json!(object.text("/addressType")),
        json!(few(&ports, 3, "<unset>")),
        json!(few(&addresses, 3, "<unset>")),
        object.age(now),
    ]
}

const INGRESS: &[Column] = &[
    NAME,
    text("Class"),
    text("Hosts"),
    text("Address"),
    text("Ports"),
    AGE,
];

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let hosts: Vec<String> = object
        .list("/spec/rules")
        .iter()
        .map(|rule| Reader(rule).text("/host").to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    let secure = !object.list("/spec/tls").is_empty();
    vec![
        object.name(),
        json!(object.text_or("/spec/ingressClassName", "<none>")),
        json!(few(&hosts, 3, "*")),
        json!(balancer_addresses(object)),
        json!(if secure { "80, 443" } else { "80" }),
        object.age(now),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, printed};
    use super::*;

    #[test]
    fn nodes_services_and_ingresses_show_their_columns() {
        let node = json!({
            "metadata": { "name": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "node-role.kubernetes.io/control-plane": "" } },
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": "False" }], "nodeInfo": { "kubeletVersion": "v1.37.1" } },
        });
        assert_eq!(
            printed("", "nodes", node, false),
            pairs(&[
                ("Name", "n"),
                ("Status", "NotReady,SchedulingDisabled"),
                ("Roles", "control-plane"),
                ("Age", "24h"),
                ("Version", "v1.37.1"),
            ])
        );

        let service = json!({ "metadata": { "name": "s" }, "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1",
            "selector": { "app": "web" }, "ports": [{ "port": 80, "nodePort": 30080 }, { "port": 53, "protocol": "UDP" }] } });
        assert_eq!(
            printed("", "services", service, true),
            pairs(&[
                ("Name", "s"),
                ("Type", "LoadBalancer"),
                ("Cluster-IP", "10.0.0.1"),
                ("External-IP", "<pending>"),
                ("Port(s)", "80:30080/TCP,53/UDP"),
                ("Age", "<unknown>"),
                ("Selector", "app=web"),
            ])
        );

        let ingress = json!({ "metadata": { "name": "i" }, "spec": { "tls": [{}],
            "rules": [{ "host": "a" }, { "host": "b" }, { "host": "c" }, { "host": "d" }] } });
        let shown = printed("networking.k8s.io", "ingresses", ingress, false);
        assert_eq!(shown[2].1, "a,b,c + 1 more...");
        assert_eq!(shown[4].1, "80, 443");
    }

    #[test]
    fn events_of_both_groups_have_the_same_row() {
        let core = json!({
            "metadata": { "name": "e" }, "type": "Warning", "reason": "BackOff", "message": " waiting \n", "count": 3,
            "involvedObject": { "kind": "Pod", "name": "cart" }, "lastTimestamp": "2026-01-01T23:59:00Z",
        });
        let other = json!({
            "metadata": { "name": "e" }, "type": "Warning", "reason": "BackOff", "note": " waiting \n", "deprecatedCount": 3,
            "regarding": { "kind": "Pod", "name": "cart" }, "deprecatedLastTimestamp": "2026-01-01T23:59:00Z",
        });

        let shown = printed("", "events", core, false);
        assert_eq!(
            shown,
            pairs(&[
                ("Last Seen", "60s"),
                ("Type", "Warning"),
                ("Reason", "BackOff"),
                ("Object", "pod/cart"),
                ("Message", "waiting"),
            ])
        );
        assert_eq!(printed("events.k8s.io", "events", other, false), shown);
    }
}
