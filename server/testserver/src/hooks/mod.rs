//! Webhooks as a test or a stored configuration defines them: their rules, requests and responses. `webhooks` calls them.

pub(crate) mod backend;
pub(crate) mod conditions;
mod conversion;
pub(crate) mod hook;
pub(crate) mod request;
pub(crate) mod rule;

use std::collections::HashMap;

use parking_lot::RwLock;

pub use conversion::ConversionWebhook;
pub use hook::Webhook;
pub use request::{Admission, AdmissionRequest, Operation};
pub use rule::WebhookRule;

/// The phase of admission in which a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Mutating,
    Validating,
}

/// The addresses of the services that webhook configurations name, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Services(RwLock<HashMap<String, String>>);

/// A copy for another server, which changes independently.
impl Clone for Services {
    fn clone(&self) -> Services {
        Services(RwLock::new(self.0.read().clone()))
    }
}

impl Services {
    pub(crate) fn set(&self, service: &str, url: String) {
        self.0.write().insert(service.to_owned(), url);
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<String> {
        self.0.read().get(&format!("{namespace}/{name}")).cloned()
    }
}
