//! Sets the defaults of `defaults.txt`, and those that a table cannot express.

use std::collections::HashMap;
use std::sync::OnceLock;

use kube_api_protocol::resource::TEMPLATE_GENERATION;
use kube_protobuf::schema::Message;
use serde_json::{Map, Value, json};

use super::table;
use crate::kinds::Kind;

/// One row: a field, its default, and when it applies.
#[derive(Debug)]
struct Row {
    path: &'static str,
    default: Default,
    condition: Option<Condition>,
}

#[derive(Debug)]
enum Default {
    Value(Value),
    /// The value of another field.
    CopyOf(&'static str),
}

#[derive(Debug)]
struct Condition {
    path: &'static str,
    /// The required value; any if there is none.
    value: Option<Value>,
    negated: bool,
}

fn rows() -> &'static HashMap<&'static str, Vec<Row>> {
    static ROWS: OnceLock<HashMap<&'static str, Vec<Row>>> = OnceLock::new();
    ROWS.get_or_init(|| table::parse(include_str!("defaults.txt"), Row::parse))
}

impl Row {
    fn parse(line: &'static str) -> Option<Row> {
        let (path, rest) = line.split_once(" = ")?;
        let split = [(" if ", false), (" unless ", true)]
            .into_iter()
            .find_map(|(word, negated)| {
                rest.split_once(word)
                    .map(|(default, when)| (default, when, negated))
            });
        let (default, condition) = match split {
            None => (rest, None),
            Some((default, when, negated)) => {
                let (path, value) = match when.split_once(' ') {
                    Some((path, value)) => (path, Some(serde_json::from_str(value).ok()?)),
                    None => (when, None),
                };
                let condition = Condition { path, value, negated };
                (default, Some(condition))
            }
        };
        let default = match default.strip_prefix('@') {
            Some(other) => Default::CopyOf(other),
            None => Default::Value(serde_json::from_str(default).ok()?),
        };
        Some(Row {
            path,
            default,
            condition,
        })
    }

    fn apply(&self, object: &mut Value) {
        if table::at(object, self.path).is_some()
            || !self.condition.as_ref().is_none_or(|when| when.holds(object))
        {
            return;
        }
        let default = match &self.default {
            Default::Value(value) => Some(value.clone()),
            Default::CopyOf(other) => table::at(object, other).cloned(),
        };
        if let Some(default) = default {
            set(object, self.path, default);
        }
    }
}

impl Condition {
    fn holds(&self, object: &Value) -> bool {
        let found = table::at(object, self.path);
        let holds = match &self.value {
            Some(value) => found == Some(value),
            None => found.is_some_and(|found| found.as_array().is_none_or(|list| !list.is_empty())),
        };
        holds != self.negated
    }
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for name in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}

/// Sets the defaults of a normalized object.
pub(crate) fn set_defaults(kind: &Kind, object: &mut Map<String, Value>) {
    let Some(message) = kind.message() else { return };
    let mut whole = Value::Object(std::mem::take(object));
    if message.name() == "core.v1.Secret" {
        fold_string_data(&mut whole);
    }
    table::change(message, &mut whole, &mut |message, value| {
        before(message, value);
        for row in rows().get(message.name()).into_iter().flatten() {
            row.apply(value);
        }
    });
    if message.name() == "core.v1.Pod" {
        of_pod(&mut whole);
    }
    if let Value::Object(map) = whole {
        *object = map;
    }
}

/// The defaults that depend on more than the presence of other fields.
fn before(message: &'static Message, value: &mut Value) {
    match message.name() {
        "core.v1.Container" | "core.v1.EphemeralContainerCommon" => {
            let policy = pull_policy(value["image"].as_str().unwrap_or_default());
            default(value, "imagePullPolicy", json!(policy));
        }
        "core.v1.Volume" => {
            let has_source = value.as_object().is_some_and(|volume| {
                volume
                    .iter()
                    .any(|(name, source)| name != "name" && !source.is_null())
            });
            if !has_source {
                default(value, "emptyDir", json!({}));
            }
            let image = value.get("image").filter(|image| image.is_object());
            if let Some(policy) =
                image.map(|image| pull_policy(image["reference"].as_str().unwrap_or_default()))
            {
                default(&mut value["image"], "pullPolicy", json!(policy));
            }
        }
        "core.v1.Service" => {
            if value
                .pointer("/spec/sessionAffinity")
                .is_none_or(|affinity| affinity != "ClientIP")
                && let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut)
            {
                spec.remove("sessionAffinityConfig");
            }
        }
        "core.v1.ServicePort" => {
            // The zero value of a port is no port.
            if value.get("targetPort") == Some(&json!(0))
                && let Some(port) = value.as_object_mut()
            {
                port.remove("targetPort");
            }
        }
        "core.v1.LimitRangeItem" if value["type"] == "Container" => {
            for (from, to) in [
                ("max", "default"),
                ("default", "defaultRequest"),
                ("min", "defaultRequest"),
            ] {
                fill(value, from, to);
            }
        }
        "flowcontrol.v1.FlowSchemaSpec" | "flowcontrol.v1.QueuingConfiguration" => {
            // Zero is no value here.
            if let Some(object) = value.as_object_mut() {
                object.retain(|_, value| *value != json!(0));
            }
        }
        "apps.v1.DaemonSet" => {
            // Added by the conversion from a version that no longer exists.
            let generation = &mut value["metadata"]["annotations"][TEMPLATE_GENERATION];
            if generation.is_null() {
                *generation = json!("1");
            }
        }
        "apps.v1.StatefulSetSpec" => {
            let claims = value
                .get_mut("volumeClaimTemplates")
                .and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                default(claim, "apiVersion", json!("v1"));
                default(claim, "kind", json!("PersistentVolumeClaim"));
            }
        }
        "core.v1.Namespace" => {
            let name = value.pointer("/metadata/name").cloned().unwrap_or_default();
            if name.as_str().is_some_and(|name| !name.is_empty()) {
                set(value, "metadata.labels", {
                    let mut labels = value
                        .pointer("/metadata/labels")
                        .cloned()
                        .unwrap_or_else(|| json!({}));
                    labels["kubernetes.io/metadata.name"] = name;
                    labels
                });
            }
        }
        _ => {}
    }
}

fn default(value: &mut Value, name: &str, default: Value) {
    if table::at(value, name).is_none()
        && let Some(object) = value.as_object_mut()
    {
        object.insert(name.to_owned(), default);
    }
}

/// Copies the entries of one map that another does not have.
fn fill(value: &mut Value, from: &str, to: &str) {
    let Some(Value::Object(source)) = value.get(from).cloned() else {
        return;
    };
    let target = value[to].as_object().cloned().unwrap_or_default();
    let mut filled = source;
    filled.extend(target);
    value[to] = Value::Object(filled);
}

/// Limits are requests unless requests are given, and containers in the network of the node use its ports. In pod
/// templates neither is set.
fn of_pod(pod: &mut Value) {
    let grace = pod
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    if grace.is_some_and(|grace| grace < 0) {
        pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    }
    let host_network = pod.pointer("/spec/hostNetwork") == Some(&json!(true));
    for list in ["containers", "initContainers"] {
        let containers = pod
            .pointer_mut(&format!("/spec/{list}"))
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if container.pointer("/resources/limits").is_some() {
                fill(&mut container["resources"], "limits", "requests");
            }
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter(|_| host_network) {
                let same = port["containerPort"].clone();
                default(port, "hostPort", same);
            }
        }
    }
}

/// `stringData` is stored in base64, as `data`.
fn fold_string_data(secret: &mut Value) {
    use base64::Engine;
    let Some(secret) = secret.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(plain)) = secret.remove("stringData") {
        let data = secret.entry("data").or_insert_with(|| json!({}));
        for (key, value) in plain {
            let encoded =
                base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
            data[key.as_str()] = encoded.into();
        }
    }
}

/// Images without a tag or with the tag `latest` are always pulled. An image with a digest has no tag to go stale.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if latest { "Always" } else { "IfNotPresent" }
}

/// Counts the templates of a daemon set. What a client sends is ignored.
pub(crate) fn count_templates(kind: &Kind, old: &Map<String, Value>, new: &mut Map<String, Value>) {
    if kind.group != "apps" || kind.kind != "DaemonSet" {
        return;
    }
    let template = |set: &Map<String, Value>| set.get("spec").and_then(|spec| spec.get("template")).cloned();
    let before = old.get("metadata").and_then(|metadata| {
        metadata
            .get("annotations")?
            .get(TEMPLATE_GENERATION)?
            .as_str()?
            .parse::<i64>()
            .ok()
    });
    let counted = before.unwrap_or(1) + i64::from(template(old) != template(new));
    if let Some(metadata) = new.get_mut("metadata") {
        metadata["annotations"][TEMPLATE_GENERATION] = counted.to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;
    use crate::typed::normalize;

    fn defaulted(group: &str, name: &str, object: Value) -> Value {
        let kind = Registry::builtin()
            .kind(group, "v1", name)
            .expect("a built-in kind");
        let Value::Object(mut object) = object else {
            panic!("an object")
        };
        normalize(&kind, &mut object);
        set_defaults(&kind, &mut object);
        Value::Object(object)
    }

    #[test]
    fn every_row_names_a_type_and_a_field_that_exist() {
        let known: std::collections::HashSet<&str> = {
            fn collect(message: &'static Message, into: &mut std::collections::HashSet<&'static str>) {
                if into.insert(message.name()) {
                    for (_, field) in message.fields() {
                        if let Some(inner) = field.message() {
                            collect(inner, into);
                        }
                    }
                }
            }
            let mut names = std::collections::HashSet::new();
            for (_, _, message) in kube_protobuf::schema::kinds() {
                collect(message, &mut names);
            }
            names
        };
        for name in rows().keys() {
            assert!(known.contains(name), "{name}");
        }
    }

    #[test]
    fn deployment_has_the_defaults_of_a_real_server() {
        let deployment = defaulted(
            "apps",
            "Deployment",
            json!({
                "metadata": { "name": "web" },
                "spec": {
                    "selector": { "matchLabels": { "app": "web" } },
                    "template": {
                        "metadata": { "labels": { "app": "web" } },
                        "spec": { "containers": [{ "name": "web", "image": "nginx", "ports": [{ "containerPort": 80 }] }] },
                    },
                },
            }),
        );
        assert_eq!(
            deployment["spec"],
            json!({
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "selector": { "matchLabels": { "app": "web" } },
                "strategy": { "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" }, "type": "RollingUpdate" },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": {
                        "containers": [{
                            "image": "nginx", "imagePullPolicy": "Always", "name": "web",
                            "ports": [{ "containerPort": 80, "protocol": "TCP" }], "resources": {},
                            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        }],
                        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                        "securityContext": {}, "terminationGracePeriodSeconds": 30,
                    },
                },
            })
        );
    }

    #[test]
    fn tag_decides_the_pull_policy() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry:5000/nginx", "Always"),
            ("nginx@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn secret_stores_its_string_data_as_data() {
        let secret = defaulted("", "Secret", json!({ "stringData": { "a": "b" } }));
        assert_eq!(secret["data"]["a"], "Yg==");
        assert!(secret.get("stringData").is_none());
        assert_eq!(secret["type"], "Opaque");
    }
}
