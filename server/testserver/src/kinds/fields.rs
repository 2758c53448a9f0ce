//! The fields that field selectors support for each kind, and how their values are read.
//!
//! Field names are validated as written by the client and mapped to those of the stored object. Values are read from
//! the stored object; missing fields have the server's default.

use std::borrow::Cow;

use kube_api_protocol::selector::{FieldSelector, SelectorError};
use serde_json::Value;

use super::Kind;

impl Kind {
    /// Validates the fields of a selector. Returns the selector in terms of the stored object, or the message of the
    /// 400 response.
    #[doc(alias = "AddFieldLabelConversionFunc")]
    pub(crate) fn check_fields(&self, selector: &FieldSelector) -> Result<FieldSelector, SelectorError> {
        selector.rename(|field| self.stored_field(field).map(str::to_owned).map_err(SelectorError))
    }

    /// The value of a field of a stored object, for [`FieldSelector::matches`].
    #[doc(alias = "ToSelectableFields")]
    pub(crate) fn field_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        let at = |pointer: &str| object.pointer(pointer).unwrap_or(&Value::Null);
        let value = match (self.stored.group.as_str(), self.stored.plural.as_str(), field) {
            ("", "events", "source") => match text(at("/source/component")) {
                component if component.is_empty() => at("/reportingComponent"),
                _ => at("/source/component"),
            },
            ("", "pods", "status.podIP") => match at("/status/podIPs/0/ip") {
                Value::Null => at("/status/podIP"),
                first => first,
            },
            ("batch", "jobs", "status.successful") => at("/status/succeeded"),
            ("", "pods", "status.podIPs") => &Value::Null,
            _ => field
                .split('.')
                .try_fold(object, |place, name| place.get(name))
                .unwrap_or(&Value::Null),
        };
        if value.is_null() {
            Cow::Borrowed(self.default_field(field))
        } else {
            text(value)
        }
    }

    fn stored_field<'a>(&self, field: &'a str) -> Result<&'a str, String> {
        let unsupported = || Err(format!("field label not supported: {field}"));
        if self.custom {
            let known = match field {
                "metadata.name" => true,
                "metadata.namespace" => self.namespaced,
                _ => self
                    .selectable_fields
                    .iter()
                    .any(|selectable| selectable == field),
            };
            return if known { Ok(field) } else { unsupported() };
        }
        let own: &[&str] = match (self.group.as_str(), self.plural.as_str()) {
            ("", "pods") => {
                if field == "spec.host" {
                    return Ok("spec.nodeName");
                }
                &[
                    "spec.nodeName",
                    "spec.restartPolicy",
                    "spec.schedulerName",
                    "spec.serviceAccountName",
                    "spec.hostNetwork",
                    "status.phase",
                    "status.podIP",
                    "status.podIPs",
                    "status.nominatedNodeName",
                ]
            }
            ("", "nodes") => &["spec.unschedulable"],
            ("", "replicationcontrollers") => &["status.replicas"],
            ("", "events") => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            ("events.k8s.io", "events") => {
                return EVENT_FIELDS
                    .iter()
                    .find(|(name, _)| *name == field)
                    .map_or_else(unsupported, |(_, stored)| Ok(*stored));
            }
            ("", "namespaces") => &["status.phase"],
            ("", "secrets") => &["type"],
            ("", "services") => &["spec.clusterIP", "spec.type"],
            ("batch", "jobs") => &["status.successful"],
            ("certificates.k8s.io", "certificatesigningrequests" | "clustertrustbundles") => {
                &["spec.signerName"]
            }
            ("certificates.k8s.io", "podcertificaterequests") => {
                &["spec.signerName", "spec.podName", "spec.nodeName"]
            }
            ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver", "spec.pool.name"],
            _ => {
                return match field {
                    "metadata.name" | "metadata.namespace" => Ok(field),
                    _ => Err(format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )),
                };
            }
        };
        // Kinds with selectable fields support the namespace only if they are namespaced.
        let metadata = field == "metadata.name"
            || (field == "metadata.namespace" && self.namespaced && self.has_namespace_field());
        if metadata || own.contains(&field) {
            return Ok(field);
        }
        match self.plural.as_str() {
            "jobs" => Err(format!("field label {field:?} not supported for Job")),
            "resourceslices" => Err(format!(
                "field label not supported for {}, Kind={}: {field}",
                self.api_version(),
                self.kind
            )),
            _ => unsupported(),
        }
    }

    /// Pod certificate requests are namespaced, but do not support selecting by namespace.
    fn has_namespace_field(&self) -> bool {
        self.plural != "podcertificaterequests"
    }

    fn default_field(&self, field: &str) -> &'static str {
        match (self.stored.group.as_str(), self.stored.plural.as_str(), field) {
            ("", "pods", "spec.restartPolicy") => "Always",
            ("", "pods", "spec.schedulerName") => "default-scheduler",
            ("", "pods", "spec.hostNetwork") | ("", "nodes", "spec.unschedulable") => "false",
            ("", "pods", "status.phase") => "Pending",
            ("", "namespaces", "status.phase") => "Active",
            ("", "secrets", "type") => "Opaque",
            ("", "services", "spec.type") => "ClusterIP",
            ("", "replicationcontrollers", "status.replicas") | ("batch", "jobs", "status.successful") => "0",
            _ => "",
        }
    }
}

/// Field names of `events.k8s.io` and of the stored event.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("reason", "reason"),
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("reportingController", "reportingComponent"),
    ("type", "type"),
    ("metadata.namespace", "metadata.namespace"),
    ("metadata.name", "metadata.name"),
];

/// A scalar as a selector compares it.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        Value::Number(number) => Cow::Owned(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Registry;
    use super::*;

    fn matches(group: &str, plural: &str, selector: &str, object: &Value) -> Result<bool, String> {
        let kind = Registry::builtin().resource(group, "v1", plural).unwrap();
        let selector = FieldSelector::parse(selector).unwrap();
        let selector = kind.check_fields(&selector).map_err(|error| error.0)?;
        Ok(selector.matches(|field| kind.field_value(object, field)))
    }

    #[test]
    fn fields_of_built_in_kinds_are_compared() {
        let pod = json!({
            "metadata": { "name": "cart", "namespace": "shop" },
            "spec": { "nodeName": "worker-1" },
            "status": { "podIPs": [{ "ip": "10.0.0.7" }] },
        });
        for selector in [
            "metadata.name=cart,metadata.namespace=shop",
            "spec.nodeName=worker-1",
            "spec.host=worker-1",
            "spec.restartPolicy=Always",
            "status.podIP=10.0.0.7",
            "status.phase=Pending",
            "spec.hostNetwork=false",
        ] {
            assert_eq!(matches("", "pods", selector, &pod), Ok(true), "{selector}");
        }
        assert_eq!(matches("", "pods", "spec.nodeName!=worker-1", &pod), Ok(false));
        assert_eq!(matches("", "secrets", "type=Opaque", &json!({})), Ok(true));
        assert_eq!(
            matches(
                "",
                "nodes",
                "spec.unschedulable=true",
                &json!({"spec": {"unschedulable": true}})
            ),
            Ok(true)
        );
        assert_eq!(
            matches(
                "batch",
                "jobs",
                "status.successful=2",
                &json!({"status": {"succeeded": 2}})
            ),
            Ok(true)
        );
    }

    #[test]
    fn events_are_selected_by_the_field_names_of_their_group() {
        let stored = json!({
            "involvedObject": { "kind": "Pod", "name": "cart" },
            "reportingComponent": "kubelet",
        });

        assert_eq!(
            matches("", "events", "involvedObject.name=cart,source=kubelet", &stored),
            Ok(true)
        );
        assert_eq!(
            matches(
                "events.k8s.io",
                "events",
                "regarding.name=cart,reportingController=kubelet",
                &stored
            ),
            Ok(true)
        );
        assert_eq!(
            matches("events.k8s.io", "events", "involvedObject.name=cart", &stored),
            Err("field label not supported: involvedObject.name".to_owned())
        );
    }

    #[test]
    fn unknown_fields_are_rejected_as_by_a_real_server() {
        let error = |group, plural, selector| matches(group, plural, selector, &json!({})).unwrap_err();

        assert_eq!(
            error("", "pods", "spec.color=red"),
            "field label not supported: spec.color"
        );
        assert_eq!(
            error("", "nodes", "metadata.namespace=a"),
            "field label not supported: metadata.namespace"
        );
        assert_eq!(
            error("apps", "deployments", "spec.replicas=1"),
            "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert_eq!(
            error("batch", "jobs", "a=b"),
            "field label \"a\" not supported for Job"
        );
        assert_eq!(
            error("resource.k8s.io", "resourceslices", "a=b"),
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: a"
        );
    }

    #[test]
    fn custom_kinds_allow_their_selectable_fields() {
        let kind = Kind::new("example.com", "v1", "Widget")
            .cluster_scoped()
            .selectable_field(".spec.color");
        let check = |selector: &str| kind.check_fields(&FieldSelector::parse(selector).unwrap());

        assert!(check("spec.color=red,metadata.name=a").is_ok());
        assert!(check("metadata.namespace=a").is_err());
        assert!(check("spec.size=1").is_err());
        assert_eq!(
            kind.field_value(&json!({ "spec": { "color": "red" } }), "spec.color"),
            "red"
        );
    }
}
