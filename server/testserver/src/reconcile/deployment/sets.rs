//! The replica sets of a deployment: found by template, created, numbered and removed.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use super::super::cluster::Cluster;
use super::super::pods::{is_deleting, key_of};
use super::{COLLECTION, Rollout, SETS, replicas};
use crate::fields::{annotation, controller_reference, fnv, letters, number, set, text};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const HASH: &str = "pod-template-hash";

/// Annotations of a deployment that its replica sets do not get.
const OWN: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

/// A pod template without the label of its hash.
pub(super) fn without_hash(mut template: Value) -> Value {
    if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
        labels.remove(HASH);
        if labels.is_empty()
            && let Some(Value::Object(metadata)) = template.get_mut("metadata")
        {
            metadata.remove("labels");
        }
    }
    template
}

pub(super) fn revision_of(object: &Value) -> i64 {
    annotation(object, REVISION).parse().unwrap_or(0)
}

impl Rollout {
    /// Numbers the replica set of the current template, and creates it if `create` is set and there is none.
    pub(super) fn find_new(&mut self, cluster: &mut Cluster<'_>, create: bool) {
        let latest = self.old.iter().map(revision_of).max().unwrap_or(0);
        let revision = latest + 1;
        let new = match &self.new {
            Some(new) => {
                let deployment = &self.deployment;
                cluster.edit(SETS, &key_of(new), |object| {
                    annotate(object, deployment, revision)
                })
            }
            None if create => self.create_set(cluster, revision),
            None => None,
        };
        if let Some(new) = new {
            self.set_revision(cluster, revision_of(&new));
            self.new = Some(new);
        }
    }

    fn set_revision(&mut self, cluster: &mut Cluster<'_>, revision: i64) {
        // With the status, as it is no new generation.
        let edited = cluster.edit_status(COLLECTION, &key_of(&self.deployment), |object| {
            set(
                object,
                &["metadata", "annotations", REVISION],
                revision.to_string(),
            );
        });
        if let Some(deployment) = edited {
            self.deployment = deployment;
        }
    }

    fn create_set(&mut self, cluster: &mut Cluster<'_>, revision: i64) -> Option<Value> {
        let collisions = number(&self.deployment, "/status/collisionCount").unwrap_or(0);
        // A replica set of another owner, or with another template, may have the name.
        for attempt in collisions..collisions + 100 {
            let hash = template_hash(&cluster.template_of(&self.deployment), attempt);
            let mut new = self.build_set(&hash);
            annotate(&mut new, &self.deployment, revision);
            let count = self.new_replicas(0);
            set(&mut new, &["spec", "replicas"], count);
            let (wanted, surge) = (self.wanted(), self.max_surge());
            set(
                &mut new,
                &["metadata", "annotations", DESIRED],
                wanted.to_string(),
            );
            set(
                &mut new,
                &["metadata", "annotations", MAXIMUM],
                (wanted + surge).to_string(),
            );
            if let Some(created) = cluster.create(new) {
                if attempt > collisions {
                    set(&mut self.deployment, &["status", "collisionCount"], attempt);
                }
                if count > 0 {
                    let name = text(&created, "/metadata/name");
                    let message = format!("Scaled up replica set {name} from 0 to {count}");
                    cluster.record(&self.deployment, "Normal", "ScalingReplicaSet", &message);
                }
                return Some(created);
            }
        }
        None
    }

    fn build_set(&self, hash: &str) -> Value {
        let deployment = &self.deployment;
        let at = |pointer: &str| deployment.pointer(pointer).cloned().unwrap_or_else(|| json!({}));
        let (mut template, mut selector) = (at("/spec/template"), at("/spec/selector"));
        set(&mut template, &["metadata", "labels", HASH], hash);
        set(&mut selector, &["matchLabels", HASH], hash);
        let labels = template
            .pointer("/metadata/labels")
            .cloned()
            .unwrap_or_else(|| json!({}));
        let mut spec = json!({ "replicas": 0, "selector": selector, "template": template });
        if let Some(seconds) = deployment.pointer("/spec/minReadySeconds") {
            spec["minReadySeconds"] = seconds.clone();
        }
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{}-{hash}", text(deployment, "/metadata/name")),
                "namespace": text(deployment, "/metadata/namespace"),
                "labels": labels, "ownerReferences": [controller_reference(deployment)],
            },
            "spec": spec,
            "status": { "replicas": 0 },
        })
    }

    /// Removes the oldest replica sets without pods beyond the history that is kept for rollbacks.
    pub(super) fn clean_up(&mut self, cluster: &mut Cluster<'_>) {
        let limit = number(&self.deployment, "/spec/revisionHistoryLimit").unwrap_or(10);
        let mut empty: Vec<&Value> = self
            .old
            .iter()
            .filter(|set| {
                let pods = number(set, "/status/replicas").unwrap_or(0);
                replicas(set) == 0 && pods == 0 && !is_deleting(set)
            })
            .collect();
        empty.sort_by_key(|set| Reverse(revision_of(set)));
        let gone: Vec<String> = empty
            .iter()
            .skip(usize::try_from(limit).unwrap_or(0))
            .map(|set| key_of(set))
            .collect();
        for key in &gone {
            cluster.delete(SETS, key);
        }
        self.old.retain(|set| !gone.contains(&key_of(set)));
    }
}

/// Copies the annotations of a deployment to a replica set, and gives it a revision: that of its own if it is the latest.
fn annotate(object: &mut Value, deployment: &Value, revision: i64) {
    let empty = Map::new();
    let annotations = deployment
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (name, value) in annotations
        .iter()
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
    {
        set(object, &["metadata", "annotations", name], value.clone());
    }
    let before = revision_of(object);
    if before < revision {
        set(
            object,
            &["metadata", "annotations", REVISION],
            revision.to_string(),
        );
        if before > 0 {
            // The revisions that a template had before it was rolled back to.
            let history = match annotation(object, HISTORY) {
                "" => before.to_string(),
                history => format!("{history},{before}"),
            };
            set(object, &["metadata", "annotations", HISTORY], history);
        }
    }
}

/// The hash of a pod template: letters and digits, as in the real one.
fn template_hash(template: &Value, attempt: i64) -> String {
    let suffix = if attempt == 0 {
        String::new()
    } else {
        attempt.to_string()
    };
    letters(fnv(&format!("{template}{suffix}")), 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_is_recognised_without_its_hash() {
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } });
        let mut labelled = template.clone();
        set(&mut labelled, &["metadata", "labels", HASH], "x");
        assert_eq!(without_hash(labelled), template);
    }

    #[test]
    fn rolled_back_replica_set_records_its_earlier_revisions() {
        let mut object = json!({ "metadata": { "annotations": { REVISION: "1" } } });
        annotate(&mut object, &json!({}), 3);
        annotate(&mut object, &json!({}), 3);
        assert_eq!((revision_of(&object), annotation(&object, HISTORY)), (3, "1"));
        annotate(&mut object, &json!({}), 5);
        assert_eq!((revision_of(&object), annotation(&object, HISTORY)), (5, "1,3"));
    }
}
