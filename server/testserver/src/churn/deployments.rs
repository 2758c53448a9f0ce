//! Emulates the deployment controller: replica sets for the pod template and pods for the replicas, one change at a
//! time.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::model::Work;
use super::pods::{Life, set};
use super::{Churn, objects};
use crate::fields::{fnv, letters};

/// The number of replica sets kept for older templates, so that a rollout can be undone.
const KEPT_SETS: usize = 2;

impl Churn {
    /// Moves a deployment one change closer to its spec and updates its status.
    pub(super) fn reconcile(&mut self, key: &str) {
        let Some(deployment) = self.server.object("deployments.apps", key) else {
            self.orphan(key);
            return;
        };
        let hash = template_hash(&deployment);
        let wanted = deployment
            .pointer("/spec/replicas")
            .and_then(Value::as_u64)
            .unwrap_or(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let current = format!("{key}-{hash}");
        let changed = match self.replica_set(&deployment, key, &current, &hash) {
            Some(replica_set) => self.next_change(key, &current, wanted, &replica_set),
            None => false,
        };
        self.update_counts(key, &current, wanted);
        if changed {
            self.push(Work::Deployment(key.to_owned()));
        }
    }

    /// The replica set of the current template. If it is not the latest revision, it becomes the latest: it is created,
    /// or reused if the same template existed before.
    fn replica_set(&mut self, deployment: &Value, key: &str, current: &str, hash: &str) -> Option<Value> {
        let found = self.server.object("replicasets.apps", current);
        let sets = self
            .deployments
            .get(key)
            .map(|known| known.sets.clone())
            .unwrap_or_default();
        if found.is_some() && sets.last().is_some_and(|latest| latest == current) {
            return found;
        }
        let revision = revision_of(deployment).saturating_add(u64::from(!sets.is_empty()));
        let set = match found {
            Some(_) => self.change("replicasets.apps", current, |object| {
                set_revision(object, revision)
            }),
            None => self.create(objects::replica_set(deployment, hash, revision)),
        }?;
        self.change("deployments.apps", key, |object| set_revision(object, revision));
        if let Some(known) = self.deployments.get_mut(key) {
            known.sets.retain(|set| set != current);
            known.sets.push(current.to_owned());
        }
        let name = current.rsplit('/').next().unwrap_or(current);
        let message = format!("Scaled up replica set {name} from 0 to 1");
        self.record_event(deployment, "Normal", "ScalingReplicaSet", &message);
        Some(set)
    }

    /// Creates or deletes one pod if the deployment has too few, too many, or some of an older template.
    fn next_change(&mut self, deployment: &str, current: &str, wanted: usize, replica_set: &Value) -> bool {
        let pods = || self.pods.of(deployment);
        let is_new = |set: &Option<String>| set.as_deref() == Some(current);
        let new = pods().filter(|(_, pod)| is_new(&pod.set)).count();
        let total = pods().count();
        let ready = pods().filter(|(_, pod)| pod.life == Life::Running).count();
        let old: Vec<String> = pods()
            .filter(|(_, pod)| !is_new(&pod.set))
            .map(|(key, _)| key.to_owned())
            .collect();
        // A surge of one pod while an older template is replaced.
        let room = if old.is_empty() {
            wanted
        } else {
            wanted.saturating_add(1)
        };
        if new < wanted && total < room {
            return self.add_pod(replica_set, deployment, current);
        }
        let surplus = if !old.is_empty() && (ready > wanted || total > room) {
            old.first().cloned()
        } else if old.is_empty() && total > wanted {
            pods().map(|(key, _)| key.to_owned()).next_back()
        } else {
            None
        };
        match surplus {
            Some(pod) => self.delete_pod(&pod),
            None => false,
        }
    }

    fn add_pod(&mut self, replica_set: &Value, deployment: &str, set: &str) -> bool {
        let suffix = self.suffix();
        let Some(pod) = self.create(objects::pod_of(replica_set, &suffix)) else {
            return false;
        };
        let key = super::key_of(&pod);
        self.adopt(&key, &pod, Some(set.to_owned()), Some(deployment.to_owned()));
        let name = key.rsplit('/').next().unwrap_or(&key).to_owned();
        self.record_event(
            replica_set,
            "Normal",
            "SuccessfulCreate",
            &format!("Created pod: {name}"),
        );
        true
    }

    /// Updates the status of a deployment and its replica sets where the counts changed.
    pub(super) fn update_counts(&mut self, key: &str, current: &str, wanted: usize) {
        let sets = self
            .deployments
            .get(key)
            .map(|known| known.sets.clone())
            .unwrap_or_default();
        // Pods and ready pods of each replica set.
        let mut of_set: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (_, pod) in self.pods.of(key) {
            let (count, ready) = of_set.entry(pod.set.as_deref().unwrap_or_default()).or_default();
            *count += 1;
            *ready += usize::from(pod.life == Life::Running);
        }
        let of_set: BTreeMap<String, (usize, usize)> = of_set
            .into_iter()
            .map(|(set, counts)| (set.to_owned(), counts))
            .collect();
        let empty = |set: &String| set != current && !of_set.contains_key(set);
        let surplus = sets
            .iter()
            .filter(|set| empty(set))
            .count()
            .saturating_sub(KEPT_SETS);
        let gone: Vec<String> = sets
            .iter()
            .filter(|set| empty(set))
            .take(surplus)
            .cloned()
            .collect();
        let (mut total, mut total_ready, mut updated) = (0, 0, 0);
        for set_key in sets {
            let (count, ready) = of_set.get(&set_key).copied().unwrap_or_default();
            total += count;
            total_ready += ready;
            if set_key == current {
                updated = count;
            }
            let spec = if set_key == current { wanted } else { count };
            self.change("replicasets.apps", &set_key, |object| {
                set(object, "spec", "replicas", json!(spec));
                let generation = object
                    .pointer("/metadata/generation")
                    .cloned()
                    .unwrap_or_else(|| json!(1));
                replace_status(object, counts(count, ready, None, generation));
            });
        }
        for set_key in gone {
            self.delete("replicasets.apps", &set_key);
            if let Some(known) = self.deployments.get_mut(key) {
                known.sets.retain(|set| *set != set_key);
            }
        }
        self.change("deployments.apps", key, |object| {
            let generation = object
                .pointer("/metadata/generation")
                .cloned()
                .unwrap_or_else(|| json!(1));
            replace_status(
                object,
                counts(total, total_ready, Some((updated, wanted)), generation),
            );
        });
    }

    /// Starts a rollout by changing the image.
    pub(super) fn roll_out(&mut self, key: &str) {
        let next = self.rng.u32(1..100);
        self.change_as("kubectl-set", "deployments.apps", key, |object| {
            if let Some(image) = object.pointer_mut("/spec/template/spec/containers/0/image")
                && let Some(name) = image
                    .as_str()
                    .map(|text| text.rsplit_once(':').map_or(text, |(name, _)| name))
            {
                *image = json!(format!("{name}:1.{next}.0"));
            }
        });
        self.push(Work::Deployment(key.to_owned()));
    }

    /// Scales up or down by one, staying near the initial number of replicas.
    pub(super) fn scale(&mut self, key: &str) {
        let Some(base) = self.deployments.get(key).and_then(|known| known.base) else {
            return;
        };
        let up = self.rng.bool();
        self.change_as("kubectl-scale", "deployments.apps", key, |object| {
            let now = object
                .pointer("/spec/replicas")
                .and_then(Value::as_u64)
                .unwrap_or(1);
            let now = usize::try_from(now).unwrap_or(0);
            let next = if up && now < base + 2 {
                now + 1
            } else {
                now.saturating_sub(1).max(base.min(1))
            };
            set(object, "spec", "replicas", json!(next));
        });
        self.push(Work::Deployment(key.to_owned()));
    }

    /// Deletes the replica sets and pods of a deleted deployment.
    fn orphan(&mut self, key: &str) {
        let sets = self
            .deployments
            .remove(key)
            .map(|known| known.sets)
            .unwrap_or_default();
        for set in sets {
            self.delete("replicasets.apps", &set);
        }
        let left: Vec<String> = self.pods.of(key).map(|(key, _)| key.to_owned()).collect();
        for pod in &left {
            self.delete_pod(pod);
        }
    }
}

fn revision_of(deployment: &Value) -> u64 {
    let revision = deployment.pointer("/metadata/annotations/deployment.kubernetes.io~1revision");
    revision
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

fn set_revision(object: &mut Value, revision: u64) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    if let Value::Object(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})) {
        annotations.insert(
            "deployment.kubernetes.io/revision".to_owned(),
            json!(revision.to_string()),
        );
    }
}

fn replace_status(object: &mut Value, status: Value) {
    if let Value::Object(fields) = object {
        fields.insert("status".to_owned(), status);
    }
}

/// A status with replica counts; a deployment's status also counts updated replicas and has conditions.
fn counts(total: usize, ready: usize, rollout: Option<(usize, usize)>, generation: Value) -> Value {
    let mut status = json!({ "replicas": total, "observedGeneration": generation });
    let Value::Object(fields) = &mut status else {
        return status;
    };
    if ready > 0 {
        fields.insert("readyReplicas".to_owned(), json!(ready));
        fields.insert("availableReplicas".to_owned(), json!(ready));
    }
    match rollout {
        None => {
            fields.insert("fullyLabeledReplicas".to_owned(), json!(total));
        }
        Some((updated, wanted)) => {
            let missing = wanted.saturating_sub(ready);
            if updated > 0 {
                fields.insert("updatedReplicas".to_owned(), json!(updated));
            }
            if missing > 0 {
                fields.insert("unavailableReplicas".to_owned(), json!(missing));
            }
            let done = updated >= wanted && total == updated && missing == 0;
            let available = if missing <= 1 { "True" } else { "False" };
            fields.insert(
                "conditions".to_owned(),
                json!([
                    { "type": "Available", "status": available,
                      "reason": if missing <= 1 { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" } },
                    { "type": "Progressing", "status": "True",
                      "reason": if done { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" } },
                ]),
            );
        }
    }
    status
}

/// The pod template hash: letters and digits that are unique for each template.
pub(super) fn template_hash(deployment: &Value) -> String {
    let template = deployment
        .pointer("/spec/template")
        .map(ToString::to_string)
        .unwrap_or_default();
    letters(fnv(&template), 9)
}
