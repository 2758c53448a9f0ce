//! Validation of built-in objects: the rules of the table, then those that span several fields.

mod network;
mod others;
mod pods;
pub(crate) mod webhooks;
mod workloads;

use kube_api_protocol::field_error::FieldError;
use serde_json::{Map, Value};

use super::{rules, table};
use crate::kinds::Kind;

/// The errors of an object with its defaults set.
pub(crate) fn validate(kind: &Kind, object: &Map<String, Value>) -> Vec<FieldError> {
    let Some(message) = kind.message() else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let whole = Value::Object(object.clone());
    table::visit(message, &whole, "", &mut |message, value, path| {
        if path == "status" || path.starts_with("status.") {
            return;
        }
        rules::check(message, value, path, &mut errors);
        if message.name() == "core.v1.PodSpec" {
            pods::check(value, path, &mut errors);
        }
    });
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", _) => workloads::check(kind, &whole, &mut errors),
        ("", "ReplicationController") => workloads::check_replication_controller(&whole, &mut errors),
        ("batch", "Job") => workloads::check_job(&whole, "spec", &mut errors),
        ("batch", "CronJob") => workloads::check_cron_job(&whole, &mut errors),
        ("", "Service") => network::check_service(&whole, &mut errors),
        ("networking.k8s.io", "Ingress") => network::check_ingress(&whole, &mut errors),
        ("networking.k8s.io", "NetworkPolicy") => network::check_policy(&whole, &mut errors),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            webhooks::check(&whole, &mut errors);
        }
        _ => others::check(kind, &whole, &mut errors),
    }
    errors
}

/// Further errors of an object that is created: what only a later write may set.
pub(crate) fn validate_new(kind: &Kind, object: &Map<String, Value>) -> Vec<FieldError> {
    let spec = object
        .get("spec")
        .filter(|_| kind.group.is_empty() && kind.kind == "Pod");
    let ephemeral = spec.and_then(|spec| spec.get("ephemeralContainers"));
    match ephemeral.and_then(Value::as_array) {
        Some(containers) if !containers.is_empty() => {
            vec![FieldError::forbidden(
                "spec.ephemeralContainers",
                "cannot be set on create",
            )]
        }
        _ => Vec::new(),
    }
}
