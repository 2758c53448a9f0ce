//! Webhooks of stored configurations: `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Phase;
use super::hook::{Backend, Condition, DEFAULT_TIMEOUT, DryRun, Hook, Remote, Target};
use super::rule::Rule;
use crate::kinds::selector_text;
use crate::read::selector::LabelSelector;
use crate::storage::Store;

const GROUP: &str = "admissionregistration.k8s.io";

/// The webhooks of a phase: configurations by name, their webhooks in the order of the list.
pub(super) fn stored(store: &Store, phase: Phase) -> Vec<Hook> {
    let plural = match phase {
        Phase::Mutating => "mutatingwebhookconfigurations",
        Phase::Validating => "validatingwebhookconfigurations",
    };
    let configurations = store.collection(&format!("{plural}.{GROUP}"));
    let Some(configurations) = configurations else {
        return Vec::new();
    };
    // Objects are sorted by key, which is the name.
    let mut hooks = Vec::new();
    for configuration in configurations.objects() {
        let configuration = configuration.value();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array);
        hooks.extend(webhooks.into_iter().flatten().map(parse));
    }
    hooks
}

/// A webhook of a configuration. It may lack fields, because servers that are not conformant set no defaults.
fn parse(webhook: &Value) -> Hook {
    let text = |pointer: &str| webhook.pointer(pointer).and_then(Value::as_str);
    let items = |field: &str| webhook.get(field).and_then(Value::as_array).into_iter().flatten();
    let conditions = items("matchConditions").map(|condition| Condition {
        name: condition["name"].as_str().unwrap_or_default().to_owned(),
        expression: condition["expression"].as_str().unwrap_or_default().to_owned(),
    });
    let versions = items("admissionReviewVersions").filter_map(Value::as_str);
    Hook {
        name: text("/name").unwrap_or_default().to_owned(),
        rules: items("rules").map(Rule::parse).collect(),
        namespaces: selector(webhook.get("namespaceSelector")),
        objects: selector(webhook.get("objectSelector")),
        equivalent: text("/matchPolicy") != Some("Exact"),
        dry_run: match text("/sideEffects") {
            Some("None" | "NoneOnDryRun") => DryRun::Supported,
            Some(_) => DryRun::Refused,
            None => DryRun::Unknown,
        },
        fails_open: text("/failurePolicy") == Some("Ignore"),
        timeout: webhook
            .get("timeoutSeconds")
            .and_then(Value::as_u64)
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs),
        reinvoked: text("/reinvocationPolicy") == Some("IfNeeded"),
        conditions: conditions.collect(),
        backend: Backend::Remote(Remote {
            target: target(webhook),
            authorities: STANDARD
                .decode(text("/clientConfig/caBundle").unwrap_or_default())
                .map_err(|error| format!("clientConfig.caBundle is not base64: {error}")),
            versions: versions.map(str::to_owned).collect(),
        }),
    }
}

fn target(webhook: &Value) -> Target {
    if let Some(url) = webhook.pointer("/clientConfig/url").and_then(Value::as_str) {
        return Target::Url(url.to_owned());
    }
    let Some(service) = webhook.pointer("/clientConfig/service") else {
        return Target::Missing;
    };
    let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
    let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    Target::Service {
        namespace: text("namespace"),
        name: text("name"),
        port: port.unwrap_or(443),
        path: text("path"),
    }
}

fn selector(selector: Option<&Value>) -> Result<LabelSelector, String> {
    let text = selector.map(selector_text).unwrap_or_default();
    LabelSelector::parse(&text).map_err(|error| error.to_string())
}
