//! A change as one line of JSON. Scripts depend on the names: `docs/reference/json-lines.md` has them, and a test keeps both
//! together.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{Change, What};
use crate::objects::fields::FieldChange;
use crate::objects::item::Contents;
use crate::objects::who::Written;
use crate::text::safe::SafeText;

/// The line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: Timestamp,
    event: &'static str,
    initial: bool,
    resync: bool,
    cause: Option<&'static str>,
    kind: &'a str,
    api_version: String,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
    old_resource_version: Option<&'a str>,
    diff: &'a [FieldChange],
    by: Option<&'a [Written]>,
    /// Only for changes that represent several.
    #[serde(skip_serializing_if = "is_zero")]
    coalesced: u64,
    /// Only of `synced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<usize>,
    /// Only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature serde calls.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The line of a change, without the end of line.
pub fn line(change: &Change, with_object: bool) -> SafeText {
    let line = Line {
        time: change.when,
        event: change.event.name(),
        initial: change.event.is_initial(),
        resync: change.event.is_resync(),
        cause: change.event.cause(),
        kind: &change.kind.kind,
        api_version: change.kind.api_version(),
        namespace: change.key.as_ref().and_then(|key| key.namespace()),
        name: change.key.as_ref().map(|key| key.name()),
        uid: change.uid.as_deref(),
        resource_version: change.resource_version.as_deref(),
        old_resource_version: change.old_resource_version.as_deref(),
        diff: &change.diff,
        by: change.by.as_deref(),
        coalesced: change.coalesced,
        objects: match change.event {
            What::Synced { objects } => Some(objects),
            _ => None,
        },
        object: change
            .object
            .as_ref()
            .filter(|_| with_object)
            .map(|object| object.tree().0),
    };
    SafeText::json(&line)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_informers::{Cause, Event};
    use serde_json::json;

    use super::*;
    use crate::changes::noise::Noise;
    use crate::objects::item::{Item, received};
    use crate::objects::kinds::Kind;

    fn pod(version: &str, phase: &str) -> Arc<Item> {
        let object = json!({
            "metadata": {
                "name": "cart", "namespace": "shop", "uid": "u1", "resourceVersion": version,
                "managedFields": [{
                    "manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-01-02T03:04:05Z",
                    "fieldsV1": { "f:status": { "f:phase": {} } },
                }],
            },
            "status": { "phase": phase },
        });
        Arc::new(received(&Kind::for_tests("", "v1", "Pod", "pods"), object))
    }

    fn parsed(change: &Change, with_object: bool) -> Value {
        let mut value: Value = serde_json::from_str(line(change, with_object).as_str()).unwrap();
        value["time"] = json!("T");
        value
    }

    fn change(event: Event<Item>) -> Change {
        let kind = Arc::new(Kind::for_tests("", "v1", "Pod", "pods"));
        Change::of(&event, &kind, Some(&Noise::of(&kind, &[]).unwrap()))
    }

    #[test]
    fn an_update_carries_every_name() {
        let change = change(Event::Updated {
            old: pod("7", "Pending"),
            new: pod("9", "Running"),
            resync: false,
        });

        assert_eq!(
            parsed(&change, false),
            json!({
                "time": "T", "event": "updated", "initial": false, "resync": false, "cause": null,
                "kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "cart", "uid": "u1",
                "resourceVersion": "9", "oldResourceVersion": "7",
                "diff": [{ "path": "/status/phase", "field": "status.phase", "old": "Pending", "new": "Running" }],
                "by": [{
                    "manager": "kubelet", "operation": "Update", "subresource": "status",
                    "time": "2026-01-02T03:04:05Z", "paths": ["status.phase"],
                }],
            })
        );
        assert_eq!(parsed(&change, true)["object"]["kind"], "Pod");
    }

    #[test]
    fn additions_deletions_and_the_end_of_the_list_have_their_fields() {
        let added = change(Event::Added {
            object: pod("7", "Pending"),
            initial: true,
        });
        let gone = |cause| {
            change(Event::Deleted {
                object: pod("9", "Running"),
                cause,
            })
        };
        let synced = Change::synced(&added.kind, 3, Some("12".to_owned()));

        assert_eq!(parsed(&added, false)["initial"], true);
        for (cause, word) in [
            (Cause::Observed, "observed"),
            (Cause::Missed, "missed"),
            (Cause::LeftScope, "leftScope"),
        ] {
            assert_eq!(parsed(&gone(cause), false)["cause"], word);
        }
        assert_eq!(
            parsed(&synced, true),
            json!({
                "time": "T", "event": "synced", "initial": false, "resync": false, "cause": null,
                "kind": "Pod", "apiVersion": "v1", "namespace": null, "name": null, "uid": null,
                "resourceVersion": "12", "oldResourceVersion": null, "diff": [], "by": null, "objects": 3,
            })
        );
    }

    #[test]
    fn every_name_is_documented() {
        let document = include_str!("../../../../docs/reference/json-lines.md");
        let mut change = change(Event::Updated {
            old: pod("7", "Pending"),
            new: pod("9", "Running"),
            resync: false,
        });
        change.coalesced = 3;
        let mut names: Vec<String> = Vec::new();
        for value in [
            parsed(&change, true),
            parsed(&Change::synced(&change.kind, 3, None), false),
            parsed(&change, false)["diff"][0].clone(),
            parsed(&change, false)["by"][0].clone(),
        ] {
            names.extend(value.as_object().unwrap().keys().cloned());
        }

        for name in names {
            assert!(
                document.contains(&format!("| `{name}` |")),
                "{name} is not in docs/reference/json-lines.md"
            );
        }
    }
}
