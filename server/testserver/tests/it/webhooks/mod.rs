//! Admission webhooks in the test process.

mod calls;
mod objects;

use std::sync::Arc;

use kube_testserver::{Admission, AdmissionRequest, Operation, Webhook, WebhookRule};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";
pub const PODS: &str = "/api/v1/namespaces/shop/pods";
pub const MERGE: &str = "application/merge-patch+json";

pub fn settings() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "1" } })
}

pub fn everything() -> WebhookRule {
    WebhookRule::new(Operation::ALL, &["*.*/*"])
}

/// The requests that a webhook has received.
#[derive(Clone, Default)]
pub struct Seen(pub Arc<Mutex<Vec<AdmissionRequest>>>);

impl Seen {
    pub fn webhook(&self, name: &str) -> Webhook {
        let seen = self.clone();
        Webhook::new(name, move |request| {
            seen.0.lock().push(request.clone());
            Admission::allow()
        })
    }

    pub fn last(&self) -> AdmissionRequest {
        self.0.lock().last().expect("the webhook was called").clone()
    }

    /// `CREATE configmaps shop/settings` for each request, and clears them.
    pub fn take(&self) -> Vec<String> {
        let seen = std::mem::take(&mut *self.0.lock());
        let line = |request: &AdmissionRequest| {
            let mut resource = request.resource.resource.clone();
            if !request.subresource.is_empty() {
                resource = format!("{resource}/{}", request.subresource);
            }
            let namespace = request.namespace.as_deref().unwrap_or_default();
            format!(
                "{} {resource} {namespace}/{}",
                request.operation.as_str(),
                request.name
            )
        };
        seen.iter().map(line).collect()
    }
}
