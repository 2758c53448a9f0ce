//! The remaining kinds: volumes, budgets, autoscalers, roles, priorities, limits.

use std::cmp::Ordering;

use kube_api_protocol::field_error::FieldError;
use kube_protobuf::schema;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::typed::internal::quoted;
use crate::typed::{items, quantity, text};

/// The highest value of a priority that is not reserved for the system.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(super) fn check(kind: &Kind, object: &Value, errors: &mut Vec<FieldError>) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "PersistentVolumeClaim") => check_claim(object, errors),
        ("", "PersistentVolume") => check_volume(object, errors),
        ("", "ConfigMap") => check_config_map(object, errors),
        ("", "Secret") => check_secret(object, errors),
        ("discovery.k8s.io", "EndpointSlice") => check_slice(object, errors),
        ("", "LimitRange") => check_limits(object, errors),
        ("autoscaling", _) => check_autoscaler(object, errors),
        ("policy", "PodDisruptionBudget") => check_budget(object, errors),
        ("rbac.authorization.k8s.io", _) => check_roles(object, errors),
        ("scheduling.k8s.io", "PriorityClass") => check_priority(object, errors),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            check_priority_level(object, errors)
        }
        _ => {}
    }
}

/// A priority level is exempt or limited, and what it limits either waits or is rejected.
fn check_priority_level(level: &Value, errors: &mut Vec<FieldError>) {
    let has = |pointer: &str| level.pointer(pointer).is_some_and(|value| !value.is_null());
    let kind = text(level, "/spec/type");
    if (text(level, "/metadata/name") == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid("spec.type", kind, detail));
    }
    match kind {
        "Exempt" if has("/spec/limited") => {
            let detail = "must be nil if the type is not Limited";
            errors.push(FieldError::forbidden("spec.limited", detail));
        }
        "Limited" => {
            if has("/spec/exempt") {
                let detail = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden("spec.exempt", detail));
            }
            if !has("/spec/limited") {
                errors.push(FieldError::required("spec.limited", ""));
                return;
            }
            let queuing = "spec.limited.limitResponse.queuing";
            match text(level, "/spec/limited/limitResponse/type") {
                "Queue" if !has("/spec/limited/limitResponse/queuing") => {
                    errors.push(FieldError::required(queuing, ""));
                }
                "Reject" if has("/spec/limited/limitResponse/queuing") => {
                    let detail = "must be nil if limited.limitResponse.type is not Limited";
                    errors.push(FieldError::forbidden(queuing, detail));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

fn check_access_modes(object: &Value, errors: &mut Vec<FieldError>) {
    for (_, mode) in items(object, "/spec/accessModes") {
        let mode = mode.as_str().unwrap_or_default();
        if !ACCESS_MODES.contains(&mode) {
            errors.push(FieldError::not_supported("spec.accessModes", mode, ACCESS_MODES));
        }
    }
}

fn check_claim(claim: &Value, errors: &mut Vec<FieldError>) {
    check_access_modes(claim, errors);
    match claim.pointer("/spec/resources/requests/storage") {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(size) if quantity::compare(size, &json!(0)) != Some(Ordering::Greater) => {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(
                "spec.resources[storage]",
                size.clone(),
                detail,
            ));
        }
        Some(_) => {}
    }
}

fn check_volume(volume: &Value, errors: &mut Vec<FieldError>) {
    check_access_modes(volume, errors);
    if volume.pointer("/spec/capacity/storage").is_none() {
        let given = volume.pointer("/spec/capacity").cloned().unwrap_or_default();
        errors.push(FieldError::not_supported("spec.capacity", given, &["storage"]));
    }
    const PLAIN: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let spec = volume.get("spec").and_then(Value::as_object);
    let sources = spec
        .into_iter()
        .flatten()
        .filter(|(name, _)| !PLAIN.contains(&name.as_str()));
    if sources.count() == 0 {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
}

/// The keys that secrets of well-known types must have.
const SECRET_KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

fn check_secret(secret: &Value, errors: &mut Vec<FieldError>) {
    let known = SECRET_KEYS
        .iter()
        .find(|(name, _)| *name == text(secret, "/type"));
    for key in known.into_iter().flat_map(|(_, keys)| *keys) {
        if secret.get("data").and_then(|data| data.get(key)).is_none() {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
}

fn check_slice(slice: &Value, errors: &mut Vec<FieldError>) {
    if !matches!(text(slice, "/addressType"), "IPv4" | "IPv6") {
        return;
    }
    for (index, endpoint) in items(slice, "/endpoints") {
        for (position, address) in items(endpoint, "/addresses") {
            let address = address.as_str().unwrap_or_default();
            if address.parse::<std::net::IpAddr>().is_err() {
                let at = format!("endpoints[{index}].addresses[{position}]");
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(FieldError::invalid(at, address, detail));
            }
        }
    }
}

fn check_config_map(map: &Value, errors: &mut Vec<FieldError>) {
    let binary = map.get("binaryData").and_then(Value::as_object);
    for key in binary.into_iter().flatten().map(|(key, _)| key) {
        if map.get("data").and_then(|data| data.get(key)).is_some() {
            let detail = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(format!("data[{key}]"), key.as_str(), detail));
        }
    }
    let size = |name: &str| -> usize {
        let data = map.get(name).and_then(Value::as_object);
        data.into_iter()
            .flatten()
            .map(|(_, value)| value.as_str().map_or(0, str::len))
            .sum()
    };
    if size("data") + size("binaryData") / 4 * 3 > 1024 * 1024 {
        errors.push(FieldError::too_long("", 1024 * 1024));
    }
}

fn check_limits(range: &Value, errors: &mut Vec<FieldError>) {
    for (index, limit) in items(range, "/spec/limits") {
        for (name, least) in limit.get("min").and_then(Value::as_object).into_iter().flatten() {
            let most = limit.get("max").and_then(|max| max.get(name));
            if most.is_some_and(|most| quantity::compare(least, most) == Some(Ordering::Greater)) {
                let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let detail = format!(
                    "min value {} is greater than max value {}",
                    shown(least),
                    most.map(shown).unwrap_or_default()
                );
                errors.push(FieldError::invalid(
                    format!("spec.limits[{index}].min[{name}]"),
                    least.clone(),
                    detail,
                ));
            }
        }
    }
}

fn check_autoscaler(scaler: &Value, errors: &mut Vec<FieldError>) {
    let number = |name: &str| scaler.pointer(&format!("/spec/{name}")).and_then(Value::as_i64);
    let most = number("maxReplicas").unwrap_or(0);
    if number("minReplicas").is_some_and(|least| least > most) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", most, detail));
    }
    if most == 0 {
        errors.push(FieldError::required("spec.maxReplicas", ""));
    } else if most < 0 {
        errors.push(FieldError::invalid(
            "spec.maxReplicas",
            most,
            "must be greater than 0",
        ));
    }
    if text(scaler, "/spec/scaleTargetRef/apiVersion").is_empty() {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", "", detail));
    }
}

fn check_budget(budget: &Value, errors: &mut Vec<FieldError>) {
    let given = |name: &str| {
        budget
            .pointer(&format!("/spec/{name}"))
            .is_some_and(|value| !value.is_null())
    };
    if given("minAvailable") && given("maxUnavailable") {
        let spec = budget.get("spec").cloned().unwrap_or_default();
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let shown = quoted(schema::lookup("policy/v1", "PodDisruptionBudget"), "spec", &spec);
        errors.push(FieldError::invalid("spec", spec, detail).showing(shown));
    }
}

fn check_roles(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, rule) in items(object, "/rules") {
        let at = format!("rules[{index}]");
        let has = |name: &str| {
            rule.get(name)
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty())
        };
        if has("nonResourceURLs") && text(object, "/kind") == "Role" {
            let urls = rule["nonResourceURLs"].clone();
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(format!("{at}.nonResourceURLs"), urls, detail));
            continue;
        }
        if has("nonResourceURLs") {
            if has("apiGroups") || has("resources") || has("resourceNames") {
                let urls = rule["nonResourceURLs"].clone();
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(format!("{at}.nonResourceURLs"), urls, detail));
            }
            continue;
        }
        if !has("apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{at}.apiGroups"), detail));
        }
        if !has("resources") {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{at}.resources"), detail));
        }
    }
    for (index, subject) in items(object, "/subjects") {
        let at = format!("subjects[{index}]");
        let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        match kind {
            "ServiceAccount" => {
                if text(subject, "/namespace").is_empty() && text(object, "/kind") == "ClusterRoleBinding" {
                    errors.push(FieldError::required(format!("{at}.namespace"), ""));
                }
            }
            "User" | "Group" => {}
            other => {
                let supported = &["ServiceAccount", "User", "Group"];
                errors.push(FieldError::not_supported(format!("{at}.kind"), other, supported));
            }
        }
    }
}

fn check_priority(class: &Value, errors: &mut Vec<FieldError>) {
    let name = text(class, "/metadata/name");
    let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
    if name.starts_with("system-") {
        let known = matches!(
            (name, value),
            ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
        );
        if !known {
            let detail =
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                    .to_owned();
            let detail = detail + &format!("{name} is not a known system priority class");
            errors.push(FieldError::forbidden("metadata.name", detail));
        }
    } else if value > HIGHEST_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.push(FieldError::forbidden("value", detail));
    }
}
