//! StatefulSet: pods with ordinals, created, updated and deleted in order.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::pods::{
    claim, from_template, has_ended, is_available, is_deleting, is_ready, key_of, next_available,
};
use super::revisions;
use crate::controllers::Controller;
use crate::fields::{list, number, set, set_count, text};

const COLLECTION: &str = "statefulsets.apps";

/// One stateful set in one step.
struct Step {
    set: Value,
    /// The revisions of the pods before and after an update.
    current: String,
    update: String,
    pods: BTreeMap<i64, Value>,
}

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let Some(set) = cluster.get(COLLECTION, key) else {
        return;
    };
    let claimed = claim(cluster, "pods", &set);
    let Some(revision) = revisions::current(cluster, &set) else {
        return;
    };
    let update = text(&revision, "/metadata/name").to_owned();
    let current = match text(&set, "/status/currentRevision") {
        "" => update.clone(),
        current => current.to_owned(),
    };
    let name = text(&set, "/metadata/name");
    let pods = claimed
        .into_iter()
        .filter_map(|pod| Some((ordinal(name, text(&pod, "/metadata/name"))?, pod)))
        .collect();
    let mut step = Step {
        set,
        current,
        update,
        pods,
    };
    if !is_deleting(&step.set) {
        step.manage(cluster);
    }
    step.write_status(cluster, key);
    let seconds = step.min_ready();
    let pods: Vec<Value> = step.pods.into_values().collect();
    if let Some(left) = next_available(&pods, seconds, cluster.now()) {
        cluster.again(Duration::from_secs(left), Controller::StatefulSets, key);
    }
}

/// The ordinal in the name of a pod.
fn ordinal(set: &str, pod: &str) -> Option<i64> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

impl Step {
    fn start(&self) -> i64 {
        number(&self.set, "/spec/ordinals/start").unwrap_or(0)
    }

    fn end(&self) -> i64 {
        self.start() + number(&self.set, "/spec/replicas").unwrap_or(1)
    }

    fn is_ordered(&self) -> bool {
        text(&self.set, "/spec/podManagementPolicy") != "Parallel"
    }

    fn is_rolling(&self) -> bool {
        text(&self.set, "/spec/updateStrategy/type") != "OnDelete"
    }

    fn partition(&self) -> Option<i64> {
        number(&self.set, "/spec/updateStrategy/rollingUpdate/partition")
    }

    fn min_ready(&self) -> i64 {
        number(&self.set, "/spec/minReadySeconds").unwrap_or(0)
    }

    fn is_healthy(&self, cluster: &Cluster<'_>, pod: &Value) -> bool {
        !is_deleting(pod) && is_available(pod, self.min_ready(), cluster.now())
    }

    /// Creates missing pods, deletes surplus ones, and replaces those of an older revision. In order, each of these waits
    /// until the pods before are available.
    fn manage(&mut self, cluster: &mut Cluster<'_>) {
        for ordinal in self.start()..self.end() {
            let pod = match self.pods.get(&ordinal) {
                Some(pod) if has_ended(pod) && !is_deleting(pod) => {
                    let key = key_of(pod);
                    cluster.delete("pods", &key);
                    self.pods.remove(&ordinal);
                    None
                }
                pod => pod,
            };
            let waits = match pod {
                Some(pod) => !self.is_healthy(cluster, pod),
                None => {
                    self.create(cluster, ordinal);
                    true
                }
            };
            if waits && self.is_ordered() {
                return;
            }
        }
        let surplus: Vec<i64> = self
            .pods
            .keys()
            .copied()
            .filter(|ordinal| !(self.start()..self.end()).contains(ordinal))
            .collect();
        for ordinal in surplus.into_iter().rev() {
            self.delete(cluster, ordinal);
            if self.is_ordered() {
                return;
            }
        }
        if self.is_rolling() {
            self.replace(cluster);
        }
    }

    /// Replaces the last pod of an older revision, unless one after it is not available yet.
    fn replace(&mut self, cluster: &mut Cluster<'_>) {
        let first = self.start() + self.partition().unwrap_or(0);
        for ordinal in (first..self.end()).rev() {
            let Some(pod) = self.pods.get(&ordinal) else {
                return;
            };
            if revisions::of_pod(pod) != self.update && !is_deleting(pod) {
                self.delete(cluster, ordinal);
                return;
            }
            if !self.is_healthy(cluster, pod) {
                return;
            }
        }
    }

    fn delete(&mut self, cluster: &mut Cluster<'_>, ordinal: i64) {
        let Some(pod) = self.pods.get(&ordinal).filter(|pod| !is_deleting(pod)) else {
            return;
        };
        let key = key_of(pod);
        cluster.delete("pods", &key);
        let name = text(pod, "/metadata/name");
        let message = format!(
            "delete Pod {name} in StatefulSet {} successful",
            text(&self.set, "/metadata/name")
        );
        cluster.record(&self.set, "Normal", "SuccessfulDelete", &message);
        match cluster.get("pods", &key) {
            Some(pod) => self.pods.insert(ordinal, pod),
            None => self.pods.remove(&ordinal),
        };
    }

    /// The revision of a new pod: that before the update below the partition.
    fn revision_for(&self, ordinal: i64) -> &str {
        let kept = match self.partition() {
            Some(partition) => partition,
            None => number(&self.set, "/status/currentReplicas").unwrap_or(0),
        };
        if self.is_rolling() && ordinal < self.start() + kept {
            &self.current
        } else {
            &self.update
        }
    }

    fn create(&mut self, cluster: &mut Cluster<'_>, ordinal: i64) {
        let revision = self.revision_for(ordinal).to_owned();
        let template = revisions::template(cluster, &self.set, &revision)
            .or_else(|| self.set.pointer("/spec/template").cloned())
            .unwrap_or_default();
        let set_name = text(&self.set, "/metadata/name");
        let name = format!("{set_name}-{ordinal}");
        let mut pod = from_template(&self.set, &template);
        set(&mut pod, &["metadata", "name"], name.as_str());
        set(&mut pod, &["metadata", "generateName"], format!("{set_name}-"));
        for (label, value) in [
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", ordinal.to_string()),
            (revisions::LABEL, revision),
        ] {
            set(&mut pod, &["metadata", "labels", label], value);
        }
        set(&mut pod, &["spec", "hostname"], name.as_str());
        let service = text(&self.set, "/spec/serviceName");
        if !service.is_empty() {
            set(&mut pod, &["spec", "subdomain"], service);
        }
        self.add_claims(cluster, &mut pod, &name);
        if let Some(pod) = cluster.create(pod) {
            let message = format!("create Pod {name} in StatefulSet {set_name} successful");
            cluster.record(&self.set, "Normal", "SuccessfulCreate", &message);
            self.pods.insert(ordinal, pod);
        }
    }

    /// Creates the claims of a pod and mounts them as volumes. Claims outlive their pods.
    fn add_claims(&self, cluster: &mut Cluster<'_>, pod: &mut Value, name: &str) {
        let templates = list(&self.set, "/spec/volumeClaimTemplates");
        if templates.is_empty() {
            return;
        }
        let namespace = text(&self.set, "/metadata/namespace");
        let mut volumes = list(pod, "/spec/volumes").to_vec();
        for template in templates {
            let volume = text(template, "/metadata/name");
            let claim = format!("{volume}-{name}");
            volumes.retain(|one| text(one, "/name") != volume);
            volumes.push(json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim } }));
            if cluster
                .stored("persistentvolumeclaims", &format!("{namespace}/{claim}"))
                .is_some()
            {
                continue;
            }
            let mut object = template.clone();
            set(&mut object, &["apiVersion"], "v1");
            set(&mut object, &["kind"], "PersistentVolumeClaim");
            set(&mut object, &["metadata", "name"], claim);
            set(&mut object, &["metadata", "namespace"], namespace);
            set(&mut object, &["status"], json!({ "phase": "Pending" }));
            let labels = self
                .set
                .pointer("/spec/selector/matchLabels")
                .and_then(Value::as_object);
            for (key, value) in labels.into_iter().flatten() {
                set(&mut object, &["metadata", "labels", key], value.clone());
            }
            cluster.create(object);
        }
        set(pod, &["spec", "volumes"], volumes);
    }

    fn write_status(&self, cluster: &mut Cluster<'_>, key: &str) {
        let pods = || self.pods.values();
        let of = |revision: &str| {
            pods()
                .filter(|pod| !is_deleting(pod) && revisions::of_pod(pod) == revision)
                .count()
        };
        let (total, updated) = (self.pods.len(), of(&self.update));
        let ready = pods().filter(|pod| is_ready(pod)).count();
        let now = cluster.now();
        let available = pods()
            .filter(|pod| is_available(pod, self.min_ready(), now))
            .count();
        let wanted = usize::try_from(self.end() - self.start()).unwrap_or(0);
        // The update is complete: from now on its revision is the current one.
        let complete = self.is_rolling() && updated == wanted && total == wanted && ready == wanted;
        let current = if complete { &self.update } else { &self.current };
        let mut status = Map::new();
        status.insert("replicas".to_owned(), json!(total));
        set_count(&mut status, "readyReplicas", ready);
        status.insert("availableReplicas".to_owned(), json!(available));
        set_count(&mut status, "currentReplicas", of(current));
        set_count(&mut status, "updatedReplicas", updated);
        status.insert("currentRevision".to_owned(), json!(current));
        status.insert("updateRevision".to_owned(), json!(self.update));
        status.insert("collisionCount".to_owned(), json!(0));
        status.insert(
            "observedGeneration".to_owned(),
            json!(number(&self.set, "/metadata/generation").unwrap_or(1)),
        );
        cluster.set_status(COLLECTION, key, Value::Object(status));
        let mut kept: Vec<String> = pods().map(|pod| revisions::of_pod(pod).to_owned()).collect();
        kept.extend([current.clone(), self.update.clone()]);
        revisions::clean_up(cluster, &self.set, &kept);
    }
}
