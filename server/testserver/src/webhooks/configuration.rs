//! Webhooks of stored configurations: `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration`.

use std::time::Duration;

use kube_api_protocol::selector::LabelSelector;
use kube_api_protocol::selector::selector_text;
use serde_json::Value;

use crate::hooks::Phase;
use crate::hooks::backend::{Backend, Remote};
use crate::hooks::hook::{DEFAULT_TIMEOUT, Decider, DryRun, Hook};
use crate::hooks::rule::Rule;
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
    let conditions = items("matchConditions").filter_map(|condition| condition["expression"].as_str());
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
        conditions: conditions.map(str::to_owned).collect(),
        decider: Decider::Reviewer(Backend::Remote(Remote::parse(
            &webhook["clientConfig"],
            &webhook["admissionReviewVersions"],
        ))),
    }
}

fn selector(selector: Option<&Value>) -> Result<LabelSelector, String> {
    let text = selector.map(selector_text).unwrap_or_default();
    LabelSelector::parse(&text).map_err(|error| error.to_string())
}
