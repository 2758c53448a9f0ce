//! Services, ingresses and network policies.

use std::collections::HashSet;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::names;
use kube_protobuf::schema;
use serde_json::{Value, json};

use crate::typed::internal::quoted;
use crate::typed::{items, text};

pub(super) fn check_service(service: &Value, errors: &mut Vec<FieldError>) {
    let kind = text(service, "/spec/type");
    let ports: Vec<(usize, &Value)> = items(service, "/spec/ports").collect();
    let headless = text(service, "/spec/clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if kind == "ExternalName" {
        let name = text(service, "/spec/externalName").trim_end_matches('.');
        if name.is_empty() {
            errors.push(FieldError::required("spec.externalName", ""));
        } else {
            for broken in names::dns_1123_subdomain(name) {
                errors.push(FieldError::invalid("spec.externalName", name, broken));
            }
        }
        if !matches!(text(service, "/spec/clusterIP"), "" | "None") {
            let detail = "may not be set when `type` is 'ExternalName'";
            errors.push(FieldError::forbidden("spec.clusterIPs[0]", detail));
        }
    }
    if kind == "LoadBalancer" && headless {
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            "None",
            "may not be set to 'None' for LoadBalancer services",
        ));
    }
    let address = text(service, "/spec/clusterIP");
    if !matches!(address, "" | "None") && address.parse::<std::net::IpAddr>().is_err() {
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            address,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
    }
    if let Ok(std::net::IpAddr::V4(ip)) = address.parse::<std::net::IpAddr>()
        && ip.octets()[..2] != [10, 0]
    {
        let detail =
            format!("failed to allocate IP {address}: the provided network does not match the current range");
        errors.push(FieldError::invalid("spec.clusterIPs", json!([address]), detail));
    }
    let (mut seen_names, mut seen_ports) = (HashSet::new(), HashSet::new());
    for (index, port) in &ports {
        let at = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if !name.is_empty() && !seen_names.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        let key = (port["port"].to_string(), text(port, "/protocol"));
        if !seen_ports.insert(key) {
            let value = json!({ "port": port["port"], "protocol": port["protocol"] });
            let shown = quoted(schema::lookup("v1", "Service"), "spec.ports", &value);
            errors.push(FieldError::duplicate(at.as_str(), value).showing(shown));
        }
        let node_port = port.get("nodePort").and_then(Value::as_u64).unwrap_or(0);
        if node_port > 0 && kind == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("{at}.nodePort"), detail));
        } else if node_port > 0 && !(30_000..=32_767).contains(&node_port) {
            let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            errors.push(FieldError::invalid(format!("{at}.nodePort"), node_port, detail));
        }
    }
    for (key, value) in service
        .pointer("/spec/selector")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        for broken in names::label_key(key) {
            errors.push(FieldError::invalid("spec.selector", key.as_str(), broken));
        }
        let value = value.as_str().unwrap_or_default();
        for broken in names::label_value(value) {
            errors.push(FieldError::invalid("spec.selector", value, broken));
        }
    }
}

pub(super) fn check_ingress(ingress: &Value, errors: &mut Vec<FieldError>) {
    let has_default = ingress
        .pointer("/spec/defaultBackend")
        .is_some_and(Value::is_object);
    if items(ingress, "/spec/rules").next().is_none() && !has_default {
        let spec = ingress
            .get("spec")
            .cloned()
            .filter(|spec| *spec != json!({}))
            .unwrap_or_default();
        errors.push(FieldError::invalid(
            "spec",
            spec,
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    for (index, rule) in items(ingress, "/spec/rules") {
        let at = format!("spec.rules[{index}]");
        let host = text(rule, "/host");
        if !host.is_empty() {
            let plain = host.strip_prefix("*.").unwrap_or(host);
            for broken in names::dns_1123_subdomain(plain) {
                errors.push(FieldError::invalid(format!("{at}.host"), host, broken));
            }
        }
        if rule.get("http").is_some_and(Value::is_object) && items(rule, "/http/paths").next().is_none() {
            errors.push(FieldError::required(format!("{at}.http.paths"), ""));
        }
        for (index, path) in items(rule, "/http/paths") {
            let at = format!("{at}.http.paths[{index}]");
            let value = text(path, "/path");
            if !value.starts_with('/') && matches!(text(path, "/pathType"), "Exact" | "Prefix") {
                errors.push(FieldError::invalid(
                    format!("{at}.path"),
                    value,
                    "must be an absolute path",
                ));
            }
            check_backend(&path["backend"], &format!("{at}.backend"), errors);
        }
    }
    if has_default {
        check_backend(&ingress["spec"]["defaultBackend"], "spec.defaultBackend", errors);
    }
}

fn check_backend(backend: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let has = |name: &str| backend.get(name).is_some_and(Value::is_object);
    match (has("service"), has("resource")) {
        (false, false) => {
            errors.push(FieldError::invalid(
                at,
                "",
                "resource or service backend is required",
            ));
        }
        (true, true) => {
            let value = backend.clone();
            errors.push(FieldError::invalid(
                at,
                value,
                "cannot set both resource and service backends",
            ));
        }
        (true, false) => {
            let name = text(backend, "/service/port/name");
            let number = backend
                .pointer("/service/port/number")
                .and_then(Value::as_i64)
                .unwrap_or(0);
            if name.is_empty() && number == 0 {
                errors.push(FieldError::required(at, "port name or number is required"));
            }
        }
        (false, true) => {}
    }
}

pub(super) fn check_policy(policy: &Value, errors: &mut Vec<FieldError>) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(policy, &format!("/spec/{direction}")) {
            for (peer_index, peer) in items(rule, &format!("/{peers}")) {
                let at = format!("spec.{direction}[{index}].{peers}[{peer_index}]");
                let given = ["podSelector", "namespaceSelector", "ipBlock"]
                    .iter()
                    .filter(|name| peer.get(name).is_some_and(Value::is_object))
                    .count();
                if given == 0 {
                    errors.push(FieldError::required(at.as_str(), "must specify a peer"));
                }
                if let Some(block) = peer.get("ipBlock").filter(|block| block.is_object()) {
                    let cidr = text(block, "/cidr");
                    if !is_cidr(cidr) {
                        errors.push(FieldError::invalid(
                            format!("{at}.ipBlock.cidr"),
                            cidr,
                            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                        ));
                    }
                }
            }
        }
    }
    for (index, kind) in items(policy, "/spec/policyTypes") {
        let kind = kind.as_str().unwrap_or_default();
        if !matches!(kind, "Ingress" | "Egress") {
            let at = format!("spec.policyTypes[{index}]");
            errors.push(FieldError::not_supported(at, kind, &["Ingress", "Egress"]));
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let limit = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}
