//! ReplicaSet: as many pods as its spec says.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::pods::{
    self, claim, from_template, generate_name, has_ended, is_active, is_available, is_deleting, is_ready,
    key_of, next_available,
};
use crate::controllers::Controller;
use crate::fields::{number, selects, set_count, text};

const COLLECTION: &str = "replicasets.apps";
/// The number of pods that one step creates or deletes at most, as in kube-controller-manager.
const BURST: usize = 500;

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let Some(set) = cluster.get(COLLECTION, key) else {
        return;
    };
    let mut active: Vec<Value> = claim(cluster, "pods", &set);
    let terminating = active
        .iter()
        .filter(|pod| is_deleting(pod) && !has_ended(pod))
        .count();
    active.retain(is_active);
    if !is_deleting(&set) {
        manage(cluster, key, &set, &mut active);
    }
    let min_ready = number(&set, "/spec/minReadySeconds").unwrap_or(0);
    let mut status = status(cluster, &set, &active, min_ready);
    status["terminatingReplicas"] = json!(terminating);
    cluster.set_status(COLLECTION, key, status);
    if let Some(left) = next_available(&active, min_ready, cluster.now()) {
        cluster.again(Duration::from_secs(left), Controller::ReplicaSets, key);
    }
}

/// Creates missing pods and deletes surplus ones.
fn manage(cluster: &mut Cluster<'_>, key: &str, set: &Value, active: &mut Vec<Value>) {
    let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
    if active.len() < wanted {
        let missing = wanted - active.len();
        for _ in 0..missing.min(BURST) {
            let Some(pod) = create_pod(cluster, set) else {
                break;
            };
            active.push(pod);
        }
        if missing > BURST {
            cluster.again(Duration::ZERO, Controller::ReplicaSets, key);
        }
    } else if active.len() > wanted {
        pods::sort_for_deletion(active);
        let surplus = active.len() - wanted;
        for pod in active.drain(..surplus.min(BURST)) {
            cluster.delete("pods", &key_of(&pod));
            let message = format!("Deleted pod: {}", text(&pod, "/metadata/name"));
            cluster.record(set, "Normal", "SuccessfulDelete", &message);
        }
        if surplus > BURST {
            cluster.again(Duration::ZERO, Controller::ReplicaSets, key);
        }
    }
}

fn create_pod(cluster: &mut Cluster<'_>, set: &Value) -> Option<Value> {
    let template = set.pointer("/spec/template").cloned().unwrap_or_default();
    let mut pod = from_template(set, &template);
    generate_name(&mut pod, set, &cluster.suffix());
    let pod = cluster.create(pod)?;
    let message = format!("Created pod: {}", text(&pod, "/metadata/name"));
    cluster.record(set, "Normal", "SuccessfulCreate", &message);
    Some(pod)
}

fn status(cluster: &Cluster<'_>, set: &Value, active: &[Value], min_ready: i64) -> Value {
    let count = |test: &dyn Fn(&Value) -> bool| active.iter().filter(|pod| test(pod)).count();
    let template_labels = set.pointer("/spec/template/metadata/labels").cloned();
    let labelled = json!({ "matchLabels": template_labels });
    let now = cluster.now();
    let mut status = Map::new();
    status.insert("replicas".to_owned(), json!(active.len()));
    set_count(
        &mut status,
        "fullyLabeledReplicas",
        count(&|pod| has_labels(pod, &labelled)),
    );
    set_count(&mut status, "readyReplicas", count(&is_ready));
    set_count(
        &mut status,
        "availableReplicas",
        count(&|pod| is_available(pod, min_ready, now)),
    );
    status.insert(
        "observedGeneration".to_owned(),
        json!(number(set, "/metadata/generation").unwrap_or(1)),
    );
    Value::Object(status)
}

fn has_labels(pod: &Value, selector: &Value) -> bool {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    selects(selector, &labels)
}
