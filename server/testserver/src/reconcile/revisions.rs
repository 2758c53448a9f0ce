//! The history of a workload's pod templates: one ControllerRevision for each, for stateful and daemon sets.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::pods::key_of;
use crate::fields::{controller_reference, fnv, letters, number, set, text};

const COLLECTION: &str = "controllerrevisions.apps";
/// The label of a pod with the revision of its template.
pub(super) const LABEL: &str = "controller-revision-hash";

/// The label of a stateful set's revision with the hash of its template. Other revisions have it in the label of their pods.
const HASH: &str = "controller.kubernetes.io/hash";

/// The revision of a workload's current template. It is created, or becomes the latest if the template is an earlier one.
pub(super) fn current(cluster: &mut Cluster<'_>, owner: &Value) -> Option<Value> {
    let data = data_of(cluster.template_of(owner));
    let mut history = history(cluster, owner);
    let latest = history.last().map_or(0, number_of);
    if let Some(found) = history
        .iter()
        .rposition(|revision| revision.get("data") == Some(&data))
    {
        let found = history.swap_remove(found);
        if number_of(&found) == latest {
            return Some(found);
        }
        return cluster.edit(COLLECTION, &key_of(&found), |object| {
            object["revision"] = json!(latest + 1)
        });
    }
    let collisions = number(owner, "/status/collisionCount").unwrap_or(0);
    let hash = letters(fnv(&format!("{data}{collisions}")), 9);
    let mut labels = owner
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let label = match text(owner, "/kind") {
        "StatefulSet" => HASH,
        _ => LABEL,
    };
    set(&mut labels, &[label], hash.as_str());
    let mut revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{}-{hash}", text(owner, "/metadata/name")),
            "namespace": text(owner, "/metadata/namespace"),
            "labels": labels, "ownerReferences": [controller_reference(owner)],
        },
        "data": data, "revision": latest + 1,
    });
    if let Some(annotations) = owner.pointer("/metadata/annotations") {
        set(&mut revision, &["metadata", "annotations"], annotations.clone());
    }
    cluster.create(revision)
}

/// The revisions of a workload, oldest first.
fn history(cluster: &Cluster<'_>, owner: &Value) -> Vec<Value> {
    let owned = cluster.owned(COLLECTION, text(owner, "/metadata/uid"));
    let mut history: Vec<Value> = owned.iter().map(|revision| revision.value()).collect();
    history.sort_by_key(number_of);
    history
}

fn number_of(revision: &Value) -> i64 {
    number(revision, "/revision").unwrap_or(0)
}

/// A patch of a workload that restores its template. `kubectl rollout undo` sends it.
fn data_of(mut template: Value) -> Value {
    set(&mut template, &["$patch"], "replace");
    json!({ "spec": { "template": template } })
}

/// The template of a revision, by the name of the revision.
pub(super) fn template(cluster: &Cluster<'_>, owner: &Value, name: &str) -> Option<Value> {
    let revision = history(cluster, owner)
        .into_iter()
        .find(|revision| text(revision, "/metadata/name") == name)?;
    let mut template = revision.pointer("/data/spec/template")?.clone();
    if let Value::Object(fields) = &mut template {
        fields.remove("$patch");
    }
    Some(template)
}

/// Removes the oldest revisions beyond the limit, except those in `kept`.
pub(super) fn clean_up(cluster: &mut Cluster<'_>, owner: &Value, kept: &[String]) {
    let limit = number(owner, "/spec/revisionHistoryLimit").unwrap_or(10);
    let mut unused = history(cluster, owner);
    unused.retain(|revision| {
        let (name, hash) = (text(revision, "/metadata/name"), hash_of(revision));
        !kept.iter().any(|kept| *kept == name || *kept == hash)
    });
    let surplus = unused.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    for revision in unused.iter().take(surplus) {
        cluster.delete(COLLECTION, &key_of(revision));
    }
}

/// The hash of a revision's template.
pub(super) fn hash_of(revision: &Value) -> &str {
    let labels = revision.pointer("/metadata/labels");
    labels
        .and_then(|labels| labels.get(HASH).or_else(|| labels.get(LABEL))?.as_str())
        .unwrap_or_default()
}

/// The revision of a pod's template, as its label says.
pub(super) fn of_pod(pod: &Value) -> &str {
    hash_of(pod)
}
