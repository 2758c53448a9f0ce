//! Pods and the templates of pods.

use std::cmp::Ordering;
use std::collections::HashSet;

use kube_api_protocol::field_error::FieldError;
use serde_json::{Value, json};

use crate::typed::{items, quantity, text};

/// The rules of a pod that span several fields.
pub(super) fn check(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let volumes = check_volumes(spec, path, errors);
    let mut names = HashSet::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, &format!("/{list}")) {
            let at = format!("{path}.{list}[{index}]");
            let name = text(container, "/name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{at}.name"), name));
            }
            check_container(container, &at, &volumes, errors);
            if list == "ephemeralContainers" {
                check_ephemeral(container, spec, &at, errors);
            } else {
                check_probes(container, &at, errors);
            }
        }
    }
    if text(spec, "/serviceAccountName").is_empty() {
        for (index, volume) in items(spec, "/volumes") {
            for (position, source) in items(volume, "/projected/sources") {
                if source.get("serviceAccountToken").is_some_and(Value::is_object) {
                    errors.push(FieldError::forbidden(
                        format!("{path}.volumes[{index}].projected.sources[{position}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    ));
                }
            }
        }
    }
    for (index, toleration) in items(spec, "/tolerations") {
        let at = format!("{path}.tolerations[{index}]");
        let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
        if key.is_empty() && operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{at}.operator"), operator, detail));
        }
        if operator == "Exists" && !text(toleration, "/value").is_empty() {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(
                format!("{at}.operator"),
                toleration.clone(),
                detail,
            ));
        }
    }
    if text(spec, "/dnsPolicy") == "None" && spec.get("dnsConfig").is_none_or(Value::is_null) {
        let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
        errors.push(FieldError::required(format!("{path}.dnsConfig"), detail));
    } else if text(spec, "/dnsPolicy") == "None" && items(spec, "/dnsConfig/nameservers").next().is_none() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(
            format!("{path}.dnsConfig.nameservers"),
            detail,
        ));
    }
    if let Some(hostname) = spec.get("hostname").and_then(Value::as_str) {
        for broken in kube_api_protocol::names::dns_1123_label(hostname) {
            errors.push(FieldError::invalid(format!("{path}.hostname"), hostname, broken));
        }
    }
}

/// The names of the volumes.
fn check_volumes<'a>(spec: &'a Value, path: &str, errors: &mut Vec<FieldError>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (index, volume) in items(spec, "/volumes") {
        let at = format!("{path}.volumes[{index}]");
        let name = text(volume, "/name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        let sources: Vec<&String> = volume
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(field, value)| *field != "name" && !value.is_null())
            .map(|(field, _)| field)
            .collect();
        for extra in sources.iter().skip(1) {
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{at}.{extra}"), detail));
        }
    }
    names
}

fn check_container(container: &Value, at: &str, volumes: &HashSet<&str>, errors: &mut Vec<FieldError>) {
    let mut port_names = HashSet::new();
    for (index, port) in items(container, "/ports") {
        let name = text(port, "/name");
        if !name.is_empty() && !port_names.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.ports[{index}].name"), name));
        }
    }
    let mut paths = HashSet::new();
    for (index, mount) in items(container, "/volumeMounts") {
        let mount_at = format!("{at}.volumeMounts[{index}]");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if !name.is_empty() && !volumes.contains(name) {
            errors.push(FieldError::not_found(format!("{mount_at}.name"), name));
        }
        if !path.is_empty() && !paths.insert(path) {
            errors.push(FieldError::invalid(
                format!("{mount_at}.mountPath"),
                path,
                "must be unique",
            ));
        }
        if text(mount, "/subPath").starts_with('/') {
            let detail = "must be a relative path";
            errors.push(FieldError::invalid(
                format!("{mount_at}.subPath"),
                text(mount, "/subPath"),
                detail,
            ));
        }
    }
    for (index, variable) in items(container, "/env") {
        check_variable(variable, &format!("{at}.env[{index}]"), errors);
    }
    check_resources(container, at, errors);
}

/// Fields that ephemeral containers have in common with others, but must not set, in the order of the Go struct.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

#[doc(alias = "validateEphemeralContainers")]
fn check_ephemeral(container: &Value, spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    let target = text(container, "/targetContainerName");
    let mut others = items(spec, "/containers").chain(items(spec, "/initContainers"));
    if !target.is_empty() && !others.any(|(_, other)| text(other, "/name") == target) {
        errors.push(FieldError::not_found(format!("{at}.targetContainerName"), target));
    }
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    for field in NOT_EPHEMERAL {
        if container.get(*field).is_some_and(|value| !is_empty(value)) {
            errors.push(FieldError::forbidden(format!("{at}.{field}"), DETAIL));
        }
    }
    for (index, mount) in items(container, "/volumeMounts") {
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, &format!("/{field}")).is_empty() {
                let at = format!("{at}.volumeMounts[{index}].{field}");
                errors.push(FieldError::forbidden(at, DETAIL));
            }
        }
    }
}

fn check_probes(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get(probe).filter(|probe| probe.is_object()) {
            check_probe(found, probe, &format!("{at}.{probe}"), errors);
        }
    }
}

fn check_variable(variable: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let Some(source) = variable.get("valueFrom").filter(|source| source.is_object()) else {
        return;
    };
    let given = source.as_object().map_or(0, |source| {
        source.values().filter(|value| !value.is_null()).count()
    });
    let at = format!("{at}.valueFrom");
    if given == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.push(FieldError::invalid(at, json!(""), detail));
    } else if given > 1 {
        errors.push(FieldError::invalid(
            at,
            json!(""),
            "may not have more than one field specified at a time",
        ));
    } else if !text(variable, "/value").is_empty() {
        errors.push(FieldError::invalid(
            at,
            json!(""),
            "may not be specified when `value` is not empty",
        ));
    }
}

fn check_resources(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let of = |kind: &str| {
        container
            .pointer(&format!("/resources/{kind}"))
            .and_then(Value::as_object)
    };
    let limits = of("limits");
    for (name, request) in of("requests").into_iter().flatten() {
        let Some(limit) = limits.and_then(|limits| limits.get(name)) else {
            continue;
        };
        if quantity::compare(request, limit) == Some(Ordering::Greater) {
            let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(
                format!("{at}.resources.requests"),
                request.clone(),
                detail,
            ));
        }
    }
}

fn check_probe(probe: &Value, name: &str, at: &str, errors: &mut Vec<FieldError>) {
    let handlers: Vec<&str> = ["exec", "grpc", "httpGet", "tcpSocket"]
        .into_iter()
        .filter(|handler| probe.get(handler).is_some_and(|value| !value.is_null()))
        .collect();
    if handlers.is_empty() {
        errors.push(FieldError::required(at, "must specify a handler type"));
    }
    for extra in handlers.iter().skip(1) {
        errors.push(FieldError::forbidden(
            format!("{at}.{extra}"),
            "may not specify more than 1 handler type",
        ));
    }
    if name != "readinessProbe"
        && let Some(threshold) = probe
            .get("successThreshold")
            .filter(|threshold| **threshold != json!(1))
    {
        errors.push(FieldError::invalid(
            format!("{at}.successThreshold"),
            threshold.clone(),
            "must be 1",
        ));
    }
}
