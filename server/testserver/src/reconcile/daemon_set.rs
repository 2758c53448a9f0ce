//! DaemonSet: one pod on every node that fits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::pods::{
    claim, from_template, generate_name, has_ended, is_available, is_deleting, is_ready, key_of,
    next_available, tolerate,
};
use super::{revisions, scheduler};
use crate::controllers::Controller;
use crate::fields::{number, set, set_count, share, text};

const COLLECTION: &str = "daemonsets.apps";

/// Taints that do not keep the pods of daemon sets from a node.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let Some(set) = cluster.get(COLLECTION, key) else {
        return;
    };
    let claimed = claim(cluster, "pods", &set);
    let Some(revision) = revisions::current(cluster, &set) else {
        return;
    };
    let mut step = Step::new(cluster, set, revisions::hash_of(&revision).to_owned(), claimed);
    if !is_deleting(&step.set) {
        step.manage(cluster);
        step.roll(cluster);
    }
    step.write_status(cluster, key);
    let pods: Vec<Value> = step.pods.values().flatten().cloned().collect();
    if let Some(left) = next_available(&pods, step.min_ready(), cluster.now()) {
        cluster.again(Duration::from_secs(left), Controller::DaemonSets, key);
    }
}

/// One daemon set in one step.
struct Step {
    set: Value,
    hash: String,
    /// The nodes that a new pod fits.
    nodes: Vec<String>,
    /// The pods by node.
    pods: BTreeMap<String, Vec<Value>>,
}

/// The node of a pod: that it is on, or will be on.
fn node_of(pod: &Value) -> &str {
    match text(pod, "/spec/nodeName") {
        "" => text(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0",
        ),
        node => node,
    }
}

impl Step {
    fn new(cluster: &Cluster<'_>, set: Value, hash: String, claimed: Vec<Value>) -> Step {
        let mut step = Step {
            set,
            hash,
            nodes: Vec::new(),
            pods: BTreeMap::new(),
        };
        let template = step.pod();
        let nodes = cluster.all("nodes", None);
        let fitting = nodes
            .iter()
            .filter(|node| scheduler::obstacle(&template, &node.value()).is_none());
        step.nodes = fitting.map(|node| node.meta.name.clone()).collect();
        for pod in claimed {
            step.pods.entry(node_of(&pod).to_owned()).or_default().push(pod);
        }
        step
    }

    fn min_ready(&self) -> i64 {
        number(&self.set, "/spec/minReadySeconds").unwrap_or(0)
    }

    /// A new pod, for any node.
    fn pod(&self) -> Value {
        let template = self.set.pointer("/spec/template").cloned().unwrap_or_default();
        let mut pod = from_template(&self.set, &template);
        set(
            &mut pod,
            &["metadata", "labels", revisions::LABEL],
            self.hash.as_str(),
        );
        let generation = number(&self.set, "/metadata/generation").unwrap_or(1);
        set(
            &mut pod,
            &["metadata", "labels", "pod-template-generation"],
            generation.to_string(),
        );
        for (key, effect) in TOLERATED {
            tolerate(&mut pod, key, effect);
        }
        pod
    }

    fn create(&mut self, cluster: &mut Cluster<'_>, node: &str) {
        let mut pod = self.pod();
        generate_name(&mut pod, &self.set, &cluster.suffix());
        let terms =
            json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }]);
        let path = [
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ];
        set(&mut pod, &path, json!({ "nodeSelectorTerms": terms }));
        if let Some(pod) = cluster.create(pod) {
            let message = format!("Created pod: {}", text(&pod, "/metadata/name"));
            cluster.record(&self.set, "Normal", "SuccessfulCreate", &message);
            self.pods.entry(node.to_owned()).or_default().push(pod);
        }
    }

    fn delete(&mut self, cluster: &mut Cluster<'_>, pod: &Value) {
        let (key, node) = (key_of(pod), node_of(pod).to_owned());
        cluster.delete("pods", &key);
        let message = format!("Deleted pod: {}", text(pod, "/metadata/name"));
        cluster.record(&self.set, "Normal", "SuccessfulDelete", &message);
        let left = cluster.get("pods", &key);
        if let Some(pods) = self.pods.get_mut(&node) {
            pods.retain(|pod| key_of(pod) != key);
            pods.extend(left);
        }
    }

    /// Creates missing pods and deletes those that ended, are surplus, or are on a node that does not fit any more.
    fn manage(&mut self, cluster: &mut Cluster<'_>) {
        for (node, pods) in self.pods.clone() {
            let stays = self.may_stay(cluster, &node);
            let mut active: Vec<&Value> = pods.iter().filter(|pod| !is_deleting(pod)).collect();
            active.sort_by_key(|pod| {
                (
                    has_ended(pod),
                    text(pod, "/metadata/creationTimestamp").to_owned(),
                )
            });
            for (index, pod) in active.into_iter().enumerate() {
                if !stays || index > 0 || has_ended(pod) {
                    self.delete(cluster, pod);
                }
            }
        }
        for node in self.nodes.clone() {
            // A pod that is being deleted is replaced when it has ended.
            if self.pods.get(&node).is_none_or(Vec::is_empty) {
                self.create(cluster, &node);
            }
        }
    }

    /// Whether a pod that runs on a node stays there: only selectors, affinity and taints without tolerance matter.
    fn may_stay(&self, cluster: &Cluster<'_>, node: &str) -> bool {
        let Some(mut node) = cluster.get("nodes", node) else {
            return false;
        };
        if let Some(Value::Object(spec)) = node.get_mut("spec") {
            spec.remove("unschedulable");
            if let Some(Value::Array(taints)) = spec.get_mut("taints") {
                taints.retain(|taint| text(taint, "/effect") == "NoExecute");
            }
        }
        if let Some(Value::Object(status)) = node.get_mut("status") {
            status.remove("conditions");
        }
        scheduler::obstacle(&self.pod(), &node).is_none()
    }

    /// Deletes pods of an older template, as far as enough others are available.
    fn roll(&mut self, cluster: &mut Cluster<'_>) {
        if text(&self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return;
        }
        let desired = i64::try_from(self.nodes.len()).unwrap_or(0);
        let limit = self
            .set
            .pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
        let limit = share(limit, desired, 1, true).max(1);
        let now = cluster.now();
        let available = |pod: &Value| !is_deleting(pod) && is_available(pod, self.min_ready(), now);
        let working = self
            .nodes
            .iter()
            .filter(|node| {
                self.pods
                    .get(*node)
                    .is_some_and(|pods| pods.iter().any(available))
            })
            .count();
        let mut left = limit - (desired - i64::try_from(working).unwrap_or(0));
        let old: Vec<Value> = self
            .pods
            .values()
            .flatten()
            .filter(|pod| revisions::of_pod(pod) != self.hash && !is_deleting(pod))
            .cloned()
            .collect();
        let (working, broken): (Vec<Value>, Vec<Value>) = old.into_iter().partition(|pod| available(pod));
        for pod in broken {
            self.delete(cluster, &pod);
        }
        for pod in working {
            if left <= 0 {
                return;
            }
            self.delete(cluster, &pod);
            left -= 1;
        }
    }

    fn write_status(&self, cluster: &mut Cluster<'_>, key: &str) {
        let now = cluster.now();
        let pod_on = |node: &String| {
            let pods = self.pods.get(node)?;
            pods.iter().find(|pod| !is_deleting(pod)).or(pods.first())
        };
        let count = |test: &dyn Fn(&Value) -> bool| {
            let on_nodes = self.nodes.iter().filter_map(pod_on);
            on_nodes.filter(|pod| test(pod)).count()
        };
        let desired = self.nodes.len();
        let available = count(&|pod| !is_deleting(pod) && is_available(pod, self.min_ready(), now));
        let foreign = self
            .pods
            .iter()
            .filter(|(node, pods)| !pods.is_empty() && !self.nodes.contains(node))
            .count();
        let mut status = Map::new();
        for (name, count) in [
            ("desiredNumberScheduled", desired),
            ("currentNumberScheduled", count(&|_| true)),
            ("numberMisscheduled", foreign),
            ("numberReady", count(&|pod| !is_deleting(pod) && is_ready(pod))),
        ] {
            status.insert(name.to_owned(), json!(count));
        }
        let is_new = |pod: &Value| revisions::of_pod(pod) == self.hash && !is_deleting(pod);
        set_count(&mut status, "updatedNumberScheduled", count(&is_new));
        set_count(&mut status, "numberAvailable", available);
        set_count(
            &mut status,
            "numberUnavailable",
            desired.saturating_sub(available),
        );
        status.insert(
            "observedGeneration".to_owned(),
            json!(number(&self.set, "/metadata/generation").unwrap_or(1)),
        );
        cluster.set_status(COLLECTION, key, Value::Object(status));
        let mut kept: Vec<String> = self
            .pods
            .values()
            .flatten()
            .map(|pod| revisions::of_pod(pod).to_owned())
            .collect();
        kept.push(self.hash.clone());
        revisions::clean_up(cluster, &self.set, &kept);
    }
}
