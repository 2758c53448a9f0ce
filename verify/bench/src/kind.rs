//! The kinds of objects that a peer can cache: pods, and the other kinds that clusters hold many of.

use std::fmt;

use serde_json::{Value, json};

use crate::pod::{self, NEVER, SENT, hash};

/// A kind of object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Pods of about 9 kB.
    #[default]
    Pods,
    /// Secrets with a certificate and its key, about 4 kB.
    Secrets,
    /// ConfigMaps with a configuration file, about 3 kB.
    ConfigMaps,
    /// Events of about 1 kB.
    Events,
}

impl Kind {
    /// All kinds but pods.
    pub const OTHERS: [Self; 3] = [Self::Secrets, Self::ConfigMaps, Self::Events];

    /// The name in URLs, in etcd and on the command line.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Secrets => "secrets",
            Self::ConfigMaps => "configmaps",
            Self::Events => "events",
        }
    }

    /// Parses the result of [`plural`](Self::plural).
    ///
    /// # Errors
    ///
    /// There is no such kind.
    pub fn parse(name: &str) -> Result<Self, String> {
        let all = [Self::Pods, Self::Secrets, Self::ConfigMaps, Self::Events];
        let found = all.into_iter().find(|kind| kind.plural() == name);
        found.ok_or_else(|| {
            let names = all.map(Self::plural).join(", ");
            format!("unknown kind {name}: use one of {names}")
        })
    }

    /// An object as a kube-apiserver stores it.
    #[must_use]
    pub fn object(self, number: usize) -> Value {
        match self {
            Self::Pods => pod::pod(number),
            Self::Secrets => secret(number),
            Self::ConfigMaps => config_map(number),
            Self::Events => event(number),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural())
    }
}

/// Characters that do not compress and are valid base64.
fn scattered(number: usize, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    let mut part = number * 1_000;
    while text.len() < length {
        text.push_str(&format!("{:016x}", hash(part)));
        part += 1;
    }
    text.truncate(length);
    text
}

fn metadata(number: usize, manager: &str, fields: &Value) -> Value {
    json!({
        "name": pod::name(number),
        "namespace": pod::namespace(number),
        "uid": pod::uid(number),
        "creationTimestamp": "2026-11-01T10:00:00Z",
        "labels": {"app": format!("workload-{:03}", number % 600), "example.org/number": number.to_string()},
        "annotations": {SENT: NEVER},
        "managedFields": [{
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-01T10:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        }],
    })
}

fn fields(of_kind: &Value) -> Value {
    let mut fields = json!({"f:metadata": {
        "f:annotations": {".": {}, format!("f:{SENT}"): {}},
        "f:labels": {".": {}, "f:app": {}, "f:example.org/number": {}},
    }});
    if let (Some(fields), Some(more)) = (fields.as_object_mut(), of_kind.as_object()) {
        fields.extend(more.clone());
    }
    fields
}

fn secret(number: usize) -> Value {
    let fields = fields(&json!({
        "f:data": {".": {}, "f:ca.crt": {}, "f:tls.crt": {}, "f:tls.key": {}}, "f:type": {},
    }));
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": metadata(number, "cert-manager", &fields),
        "data": {
            "ca.crt": scattered(number % 16, 1_200), "tls.crt": scattered(number, 1_600), "tls.key": scattered(number + 7, 400),
        },
    })
}

fn config_map(number: usize) -> Value {
    let fields = fields(&json!({"f:data": {".": {}, "f:LOG_LEVEL": {}, "f:application.yaml": {}}}));
    let lines = (0..40).map(|line| format!("setting-{line}: {:016x}\n", hash(number + line)));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": metadata(number, "helm", &fields),
        "data": {"LOG_LEVEL": "info", "application.yaml": lines.collect::<String>()},
    })
}

fn event(number: usize) -> Value {
    let fields = fields(&json!({
        "f:count": {}, "f:firstTimestamp": {}, "f:involvedObject": {}, "f:lastTimestamp": {}, "f:message": {}, "f:reason": {},
        "f:reportingComponent": {}, "f:reportingInstance": {}, "f:source": {"f:component": {}, "f:host": {}}, "f:type": {},
    }));
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": metadata(number, "kubelet", &fields),
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "name": pod::name(number), "namespace": pod::namespace(number),
            "uid": pod::uid(number), "resourceVersion": "1000", "fieldPath": "spec.containers{app}",
        },
        "reason": "Unhealthy", "type": "Warning", "count": 3,
        "message": format!("Readiness probe failed: HTTP probe failed with statuscode: 503 ({number})"),
        "firstTimestamp": "2026-11-01T10:00:00Z", "lastTimestamp": "2026-11-01T10:05:00Z", "eventTime": null,
        "source": {"component": "kubelet", "host": pod::node(number)},
        "reportingComponent": "kubelet", "reportingInstance": pod::node(number),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};

    use super::*;

    #[test]
    fn objects_decode_and_have_the_documented_size() {
        let size = |kind: Kind| kind.object(1_234).to_string().len();
        let secret: Secret = serde_json::from_value(Kind::Secrets.object(1_234)).unwrap();
        let config_map: ConfigMap = serde_json::from_value(Kind::ConfigMaps.object(1_234)).unwrap();
        let event: Event = serde_json::from_value(Kind::Events.object(1_234)).unwrap();

        assert_eq!(secret.data.map(|data| data.len()), Some(3));
        assert_eq!(config_map.data.map(|data| data.len()), Some(2));
        assert_eq!(event.involved_object.name, Some(pod::name(1_234)));
        assert!(
            (3_500..4_500).contains(&size(Kind::Secrets)),
            "{}",
            size(Kind::Secrets)
        );
        assert!(
            (1_500..3_500).contains(&size(Kind::ConfigMaps)),
            "{}",
            size(Kind::ConfigMaps)
        );
        assert!(
            (1_000..2_000).contains(&size(Kind::Events)),
            "{}",
            size(Kind::Events)
        );
    }

    #[test]
    fn kinds_are_named_as_in_urls() {
        for kind in Kind::OTHERS {
            assert_eq!(Kind::parse(kind.plural()), Ok(kind));
        }
        assert!(Kind::parse("secret").unwrap_err().contains("secrets"));
    }
}
