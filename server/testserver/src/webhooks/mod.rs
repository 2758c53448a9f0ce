//! Webhooks: functions of the test, and endpoints of stored objects.
//!
//! A [`Webhooks`] holds the webhooks of one write request. `write/` calls it where a real server calls them: mutating webhooks after
//! decoding and defaulting, validating ones after validation, both without a lock of the store.
//! A [`Conversion`] converts the objects of a custom resource between its versions.

mod backend;
mod call;
pub(crate) mod conditions;
mod configuration;
mod connection;
mod conversion;
mod dispatch;
mod hook;
mod post;
mod request;
mod rule;

use std::collections::HashMap;

use parking_lot::RwLock;

pub(crate) use connection::admit_connection;
pub(crate) use conversion::Conversion;
pub use conversion::ConversionWebhook;
pub(crate) use dispatch::{Attributes, Incoming, Webhooks};
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

    fn get(&self, namespace: &str, name: &str) -> Option<String> {
        self.0.read().get(&format!("{namespace}/{name}")).cloned()
    }
}
