//! Deployment: one replica set for each pod template, and a rollout from one to the next.

mod rolling;
mod sets;
mod status;

use serde_json::Value;

use super::cluster::Cluster;
use super::pods::{claim, is_deleting, key_of};
use crate::fields::{annotation, flag, number, set, share, text};
use sets::{DESIRED, MAXIMUM};

const COLLECTION: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";

/// A deployment, its replica sets, and the numbers that limit its rollout.
pub(super) struct Rollout {
    deployment: Value,
    /// The replica set of the current template.
    new: Option<Value>,
    /// The others, oldest first.
    old: Vec<Value>,
}

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let Some(deployment) = cluster.get(COLLECTION, key) else {
        return;
    };
    let mut all = claim(cluster, SETS, &deployment);
    all.sort_by_cached_key(|set| (age_of(set), key_of(set)));
    let mut rollout = Rollout::new(cluster, deployment, all);
    if is_deleting(&rollout.deployment) {
        status::update(cluster, key, &rollout);
        return;
    }
    if rollout.is_paused() {
        // Only the number of replicas is followed.
        rollout.find_new(cluster, false);
        rollout.scale(cluster);
    } else if rollout.was_scaled() {
        rollout.find_new(cluster, false);
        rollout.scale(cluster);
    } else if text(&rollout.deployment, "/spec/strategy/type") == "Recreate" {
        rollout.recreate(cluster);
    } else {
        rollout.find_new(cluster, true);
        rollout.roll(cluster);
    }
    if rollout.is_complete_by(&status::Counts::of(&rollout)) {
        rollout.clean_up(cluster);
    }
    status::update(cluster, key, &rollout);
}

fn age_of(set: &Value) -> String {
    text(set, "/metadata/creationTimestamp").to_owned()
}

/// The number of pods that the spec of a replica set asks for.
fn replicas(set: &Value) -> i64 {
    number(set, "/spec/replicas").unwrap_or(1)
}

fn available(set: &Value) -> i64 {
    number(set, "/status/availableReplicas").unwrap_or(0)
}

impl Rollout {
    fn new(cluster: &Cluster<'_>, deployment: Value, all: Vec<Value>) -> Rollout {
        let template = sets::without_hash(cluster.template_of(&deployment));
        let mut rollout = Rollout {
            deployment,
            new: None,
            old: Vec::new(),
        };
        for set in all {
            // If several have the template, the oldest counts.
            if rollout.new.is_none() && sets::without_hash(cluster.template_of(&set)) == template {
                rollout.new = Some(set);
            } else {
                rollout.old.push(set);
            }
        }
        rollout
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }

    fn wanted(&self) -> i64 {
        replicas(&self.deployment)
    }

    fn is_paused(&self) -> bool {
        flag(&self.deployment, "/spec/paused")
    }

    fn is_rolling(&self) -> bool {
        text(&self.deployment, "/spec/strategy/type") != "Recreate"
    }

    /// The number of pods beyond the wanted ones, and the number of those that may be missing.
    fn limits(&self) -> (i64, i64) {
        if !self.is_rolling() {
            return (0, 0);
        }
        let at = |name: &str| {
            self.deployment
                .pointer(&format!("/spec/strategy/rollingUpdate/{name}"))
        };
        // A quarter of the pods, as the API server sets for a deployment without numbers.
        let usual = Value::from("25%");
        let surge = share(at("maxSurge").or(Some(&usual)), self.wanted(), 0, true);
        let unavailable = share(at("maxUnavailable").or(Some(&usual)), self.wanted(), 0, false);
        // With both at zero no pod could be replaced.
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        (surge, unavailable.min(self.wanted()))
    }

    fn max_surge(&self) -> i64 {
        self.limits().0
    }

    fn max_unavailable(&self) -> i64 {
        self.limits().1
    }

    /// Whether the number of replicas was changed since the replica sets were scaled.
    fn was_scaled(&self) -> bool {
        self.all().filter(|set| replicas(set) > 0).any(|set| {
            let desired: Option<i64> = annotation(set, DESIRED).parse().ok();
            desired.is_some_and(|desired| desired != self.wanted())
        })
    }

    /// Sets the number of pods of a replica set, and records for how many replicas of the deployment it was chosen.
    fn scale_set(&mut self, cluster: &mut Cluster<'_>, key: &str, count: i64) {
        let (wanted, surge) = (self.wanted(), self.max_surge());
        let mut before = 0;
        let scaled = cluster.edit(SETS, key, |object| {
            before = replicas(object);
            set(object, &["spec", "replicas"], count);
            set(object, &["metadata", "annotations", DESIRED], wanted.to_string());
            set(
                object,
                &["metadata", "annotations", MAXIMUM],
                (wanted + surge).to_string(),
            );
        });
        let Some(scaled) = scaled else { return };
        if before != count {
            let (direction, name) = (
                if count > before { "up" } else { "down" },
                text(&scaled, "/metadata/name"),
            );
            let message = format!("Scaled {direction} replica set {name} from {before} to {count}");
            cluster.record(&self.deployment, "Normal", "ScalingReplicaSet", &message);
        }
        let place = self
            .old
            .iter_mut()
            .chain(&mut self.new)
            .find(|set| key_of(set) == key);
        if let Some(place) = place {
            *place = scaled;
        }
    }
}
