//! Tables of configuration, storage and everything else that is not a workload.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cells;
use super::cells::Reader;
use super::columns::{AGE, Column, NAME, boolean, integer, text, wide};

pub(super) fn columns(key: (&str, &str)) -> Option<(&'static [Column], Cells)> {
    Some(match key {
        ("", "configmaps") => (CONFIG_MAP, config_map),
        ("", "secrets") => (SECRET, secret),
        ("", "namespaces") => (NAMESPACE, namespace),
        ("", "serviceaccounts") => NAME_AND_AGE,
        ("", "componentstatuses") => (COMPONENT_STATUS, component_status),
        ("", "persistentvolumes") => (VOLUME, volume),
        ("", "persistentvolumeclaims") => (CLAIM, claim),
        ("", "resourcequotas") => (QUOTA, quota),
        ("coordination.k8s.io", "leases") => (LEASE, lease),
        ("networking.k8s.io", "networkpolicies") => (NETWORK_POLICY, network_policy),
        ("networking.k8s.io", "ingressclasses") => (INGRESS_CLASS, ingress_class),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => (BINDING, binding),
        ("storage.k8s.io", "storageclasses") => (STORAGE_CLASS, storage_class),
        ("storage.k8s.io", "csinodes") => (CSI_NODE, csi_node),
        ("storage.k8s.io", "volumeattachments") => (ATTACHMENT, attachment),
        ("scheduling.k8s.io", "priorityclasses") => (PRIORITY_CLASS, priority_class),
        ("node.k8s.io", "runtimeclasses") => (RUNTIME_CLASS, runtime_class),
        ("certificates.k8s.io", "certificatesigningrequests") => (SIGNING_REQUEST, signing_request),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => (WEBHOOKS, webhooks),
        ("apiregistration.k8s.io", "apiservices") => (API_SERVICE, api_service),
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => NAME_AND_AGE,
        ("resource.k8s.io", "resourceclaims") => (RESOURCE_CLAIM, resource_claim),
        ("resource.k8s.io", "resourceslices") => (RESOURCE_SLICE, resource_slice),
        _ => return None,
    })
}

/// The columns of kinds without columns of their own.
pub(super) const NAME_AND_AGE: (&[Column], Cells) = (&[NAME, AGE], name_and_age);

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![Reader(object).name(), Reader(object).age(now)]
}

const CONFIG_MAP: &[Column] = &[NAME, text("Data"), AGE];

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.fields("/data") + object.fields("/binaryData")),
        object.age(now),
    ]
}

const SECRET: &[Column] = &[NAME, text("Type"), text("Data"), AGE];

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let kind = object.text_or("/type", "Opaque");
    vec![
        object.name(),
        json!(kind),
        json!(object.fields("/data")),
        object.age(now),
    ]
}

const COMPONENT_STATUS: &[Column] = &[NAME, text("Status"), text("Message"), text("Error")];

fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let status = match object.text("/conditions/0/status") {
        "True" => "Healthy",
        "False" => "Unhealthy",
        _ => "Unknown",
    };
    vec![
        object.name(),
        json!(status),
        json!(object.text("/conditions/0/message")),
        json!(object.text("/conditions/0/error")),
    ]
}

const NAMESPACE: &[Column] = &[NAME, text("Status"), AGE];

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.text_or("/status/phase", "Active")),
        object.age(now),
    ]
}

const VOLUME: &[Column] = &[
    NAME,
    text("Capacity"),
    text("Access Modes"),
    text("Reclaim Policy"),
    text("Status"),
    text("Claim"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    text("Reason"),
    AGE,
    wide("VolumeMode"),
];

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let claim = match object.at("/spec/claimRef") {
        Some(_) => format!(
            "{}/{}",
            object.text("/spec/claimRef/namespace"),
            object.text("/spec/claimRef/name")
        ),
        None => String::new(),
    };
    vec![
        object.name(),
        json!(object.text_or("/spec/capacity/storage", "0")),
        json!(access_modes(object.list("/spec/accessModes"))),
        json!(object.text("/spec/persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim),
        json!(object.text("/spec/storageClassName")),
        json!(object.text_or("/spec/volumeAttributesClassName", "<unset>")),
        json!(object.text("/status/reason")),
        object.age(now),
        json!(object.text_or("/spec/volumeMode", "<unset>")),
    ]
}

const CLAIM: &[Column] = &[
    NAME,
    text("Status"),
    text("Volume"),
    text("Capacity"),
    text("Access Modes"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    AGE,
    wide("VolumeMode"),
];

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let bound = !object.text("/spec/volumeName").is_empty();
    let capacity = if bound {
        object.text_or("/status/capacity/storage", "0")
    } else {
        ""
    };
    let modes = if bound {
        access_modes(object.list("/status/accessModes"))
    } else {
        String::new()
    };
    vec![
        object.name(),
        json!(phase(object)),
        json!(object.text("/spec/volumeName")),
        json!(capacity),
        json!(modes),
        json!(object.text("/spec/storageClassName")),
        json!(object.text_or("/spec/volumeAttributesClassName", "<unset>")),
        object.age(now),
        json!(object.text_or("/spec/volumeMode", "<unset>")),
    ]
}

fn phase(object: Reader<'_>) -> &str {
    if object.is_being_deleted() {
        "Terminating"
    } else {
        object.text_or("/status/phase", "Pending")
    }
}

/// Access modes in their short form: `RWO,ROX`.
fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short: Vec<&str> = known
        .iter()
        .filter(|(mode, _)| modes.iter().any(|found| found == mode))
        .map(|(_, short)| *short)
        .collect();
    short.join(",")
}

const QUOTA: &[Column] = &[NAME, text("Request"), text("Limit"), AGE];

fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let hard = object
        .at("/status/hard")
        .or_else(|| object.at("/spec/hard"))
        .and_then(Value::as_object);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, amount) in hard.into_iter().flatten() {
        let used = object
            .at("/status/used")
            .and_then(|used| used.get(name))
            .and_then(Value::as_str)
            .unwrap_or("0");
        let text = format!("{name}: {used}/{}", amount.as_str().unwrap_or_default());
        if name.starts_with("limits") {
            limits.push(text)
        } else {
            requests.push(text)
        }
    }
    vec![
        object.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        object.age(now),
    ]
}

const LEASE: &[Column] = &[NAME, text("Holder"), AGE];

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.text("/spec/holderIdentity")),
        object.age(now),
    ]
}

const NETWORK_POLICY: &[Column] = &[NAME, text("Pod-Selector"), AGE];

fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.selector("/spec/podSelector")),
        object.age(now),
    ]
}

const INGRESS_CLASS: &[Column] = &[NAME, text("Controller"), text("Parameters"), AGE];

fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let parameters = object.at("/spec/parameters").map(Reader).map_or_else(
        || "<none>".to_owned(),
        |parameters| {
            let kind = match parameters.text("/apiGroup") {
                "" => parameters.text("/kind").to_owned(),
                group => format!("{}.{group}", parameters.text("/kind")),
            };
            format!("{kind}/{}", parameters.text("/name"))
        },
    );
    vec![
        with_default(object, "ingressclass.kubernetes.io/is-default-class"),
        json!(object.text("/spec/controller")),
        json!(parameters),
        object.age(now),
    ]
}

/// The name, marked if the object is the default of its kind.
fn with_default(object: Reader<'_>, annotation: &str) -> Value {
    let annotations = object.at("/metadata/annotations");
    let is_default = annotations
        .and_then(|found| found.get(annotation))
        .is_some_and(|value| value == "true");
    let mark = if is_default { " (default)" } else { "" };
    json!(format!("{}{mark}", object.text("/metadata/name")))
}

const BINDING: &[Column] = &[
    NAME,
    text("Role"),
    AGE,
    wide("Users"),
    wide("Groups"),
    wide("ServiceAccounts"),
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let subjects = |kind: &str| {
        let found = object
            .list("/subjects")
            .iter()
            .map(Reader)
            .filter(|subject| subject.text("/kind") == kind);
        let names: Vec<String> = found
            .map(|subject| match (kind, subject.text("/namespace")) {
                ("ServiceAccount", namespace) if !namespace.is_empty() => {
                    format!("{namespace}/{}", subject.text("/name"))
                }
                _ => subject.text("/name").to_owned(),
            })
            .collect();
        json!(names.join(", "))
    };
    vec![
        object.name(),
        json!(format!(
            "{}/{}",
            object.text("/roleRef/kind"),
            object.text("/roleRef/name")
        )),
        object.age(now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

const STORAGE_CLASS: &[Column] = &[
    NAME,
    text("Provisioner"),
    text("ReclaimPolicy"),
    text("VolumeBindingMode"),
    text("AllowVolumeExpansion"),
    AGE,
];

fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        with_default(object, "storageclass.kubernetes.io/is-default-class"),
        json!(object.text("/provisioner")),
        json!(object.text_or("/reclaimPolicy", "Delete")),
        json!(object.text_or("/volumeBindingMode", "Immediate")),
        json!(object.flag("/allowVolumeExpansion")),
        object.age(now),
    ]
}

const CSI_NODE: &[Column] = &[NAME, integer("Drivers"), AGE];

fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.list("/spec/drivers").len()),
        object.age(now),
    ]
}

const ATTACHMENT: &[Column] = &[
    NAME,
    text("Attacher"),
    text("PV"),
    text("Node"),
    boolean("Attached"),
    AGE,
];

fn attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.text("/spec/attacher")),
        json!(object.text("/spec/source/persistentVolumeName")),
        json!(object.text("/spec/nodeName")),
        json!(object.flag("/status/attached")),
        object.age(now),
    ]
}

const PRIORITY_CLASS: &[Column] = &[
    NAME,
    integer("Value"),
    boolean("Global-Default"),
    AGE,
    text("PreemptionPolicy"),
];

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.number("/value")),
        json!(object.flag("/globalDefault")),
        object.age(now),
        json!(object.text_or("/preemptionPolicy", "PreemptLowerPriority")),
    ]
}

const RUNTIME_CLASS: &[Column] = &[NAME, text("Handler"), AGE];

fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![object.name(), json!(object.text("/handler")), object.age(now)]
}

const SIGNING_REQUEST: &[Column] = &[
    NAME,
    AGE,
    text("SignerName"),
    text("Requestor"),
    text("RequestedDuration"),
    text("Condition"),
];

fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let duration = object.at("/spec/expirationSeconds").and_then(Value::as_i64);
    let mut condition: Vec<&str> = Vec::new();
    for kind in ["Approved", "Denied", "Failed"] {
        if object.condition(kind).is_some() {
            condition.push(kind);
        }
    }
    if condition.is_empty() {
        condition.push("Pending");
    }
    if !object.text("/status/certificate").is_empty() {
        condition.push("Issued");
    }
    vec![
        object.name(),
        object.age(now),
        json!(object.text_or("/spec/signerName", "<none>")),
        json!(object.text("/spec/username")),
        json!(duration.map_or_else(|| "<none>".to_owned(), super::age::human)),
        json!(condition.join(",")),
    ]
}

const WEBHOOKS: &[Column] = &[NAME, integer("Webhooks"), AGE];

fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.list("/webhooks").len()),
        object.age(now),
    ]
}

const API_SERVICE: &[Column] = &[NAME, text("Service"), text("Available"), AGE];

fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let service = match object.at("/spec/service") {
        Some(_) => format!(
            "{}/{}",
            object.text("/spec/service/namespace"),
            object.text("/spec/service/name")
        ),
        None => "Local".to_owned(),
    };
    let available = object.condition("Available").unwrap_or("Unknown");
    vec![object.name(), json!(service), json!(available), object.age(now)]
}

const RESOURCE_CLAIM: &[Column] = &[NAME, text("State"), AGE];

fn resource_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let mut states = Vec::new();
    if object.is_being_deleted() {
        states.push("deleted");
    }
    if object.at("/status/allocation").is_some() {
        states.push("allocated");
    } else if !object.is_being_deleted() {
        states.push("pending");
    }
    if !object.list("/status/reservedFor").is_empty() {
        states.push("reserved");
    }
    vec![object.name(), json!(states.join(",")), object.age(now)]
}

const RESOURCE_SLICE: &[Column] = &[NAME, text("Node"), text("Driver"), text("Pool"), AGE];

fn resource_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.text_or("/spec/nodeName", "<unset>")),
        json!(object.text("/spec/driver")),
        json!(object.text("/spec/pool/name")),
        object.age(now),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, printed};
    use super::*;

    #[test]
    fn configuration_shows_its_size_and_never_its_content() {
        let secret = json!({ "metadata": { "name": "s" }, "data": { "password": "aHVudGVyMg==" } });
        assert_eq!(
            printed("", "secrets", secret, true),
            pairs(&[
                ("Name", "s"),
                ("Type", "Opaque"),
                ("Data", "1"),
                ("Age", "<unknown>")
            ])
        );
        let config = json!({ "metadata": { "name": "c" }, "data": { "a": "" }, "binaryData": { "b": "" } });
        assert_eq!(
            printed("", "configmaps", config, false)[1],
            ("Data".to_owned(), "2".to_owned())
        );
    }

    #[test]
    fn storage_shows_claims_modes_and_defaults() {
        let volume = json!({ "metadata": { "name": "v" }, "status": { "phase": "Bound" }, "spec": {
            "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "claimRef": { "namespace": "shop", "name": "data" } } });
        let shown = printed("", "persistentvolumes", volume, false);
        assert_eq!(
            shown[1..6]
                .iter()
                .map(|(_, text)| text.as_str())
                .collect::<Vec<_>>(),
            ["5Gi", "RWO,RWX", "", "Bound", "shop/data"]
        );

        let class = json!({ "metadata": { "name": "fast",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } }, "provisioner": "x" });
        assert_eq!(
            printed("storage.k8s.io", "storageclasses", class, false)[0].1,
            "fast (default)"
        );
    }

    #[test]
    fn bindings_name_their_subjects() {
        let binding = json!({ "metadata": { "name": "b" }, "roleRef": { "kind": "Role", "name": "r" }, "subjects": [
            { "kind": "User", "name": "u" }, { "kind": "ServiceAccount", "namespace": "shop", "name": "bot" },
        ] });
        let shown = printed("rbac.authorization.k8s.io", "rolebindings", binding, true);
        assert_eq!(
            shown,
            pairs(&[
                ("Name", "b"),
                ("Role", "Role/r"),
                ("Age", "<unknown>"),
                ("Users", "u"),
                ("Groups", ""),
                ("ServiceAccounts", "shop/bot"),
            ])
        );
    }
}
