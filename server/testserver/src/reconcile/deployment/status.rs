//! The status of a deployment, as `kubectl rollout status` reads it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::cluster::Cluster;
use super::{COLLECTION, Rollout, available};
use crate::controllers::Controller;
use crate::fields::{condition, list, number, put_condition, seconds_since, set_count, text};

/// The number of pods, over all replica sets.
pub(in super::super) struct Counts {
    pub(super) total: i64,
    pub(super) updated: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    terminating: i64,
}

impl Counts {
    pub(super) fn of(rollout: &Rollout) -> Counts {
        let sum = |name: &str| -> i64 {
            let pointer = format!("/status/{name}");
            rollout.all().filter_map(|set| number(set, &pointer)).sum()
        };
        Counts {
            total: sum("replicas"),
            updated: rollout
                .new
                .as_ref()
                .and_then(|new| number(new, "/status/replicas"))
                .unwrap_or(0),
            ready: sum("readyReplicas"),
            available: rollout.all().map(available).sum(),
            terminating: sum("terminatingReplicas"),
        }
    }
}

pub(super) fn update(cluster: &mut Cluster<'_>, key: &str, rollout: &Rollout) {
    let counts = Counts::of(rollout);
    let deployment = &rollout.deployment;
    let mut status = Map::new();
    let mut count = |name: &str, count: i64| {
        set_count(&mut status, name, usize::try_from(count).unwrap_or(0));
    };
    count("replicas", counts.total);
    count("updatedReplicas", counts.updated);
    count("readyReplicas", counts.ready);
    count("availableReplicas", counts.available);
    let missing = (rollout.all().map(super::replicas).sum::<i64>() - counts.available).max(0);
    count("unavailableReplicas", missing);
    status.insert("terminatingReplicas".to_owned(), json!(counts.terminating));
    if let Some(collisions) = deployment.pointer("/status/collisionCount") {
        status.insert("collisionCount".to_owned(), collisions.clone());
    }
    status.insert(
        "observedGeneration".to_owned(),
        json!(number(deployment, "/metadata/generation").unwrap_or(1)),
    );
    let mut conditions = list(deployment, "/status/conditions").to_vec();
    put_available(cluster, rollout, &counts, &mut conditions);
    put_progress(cluster, key, rollout, &counts, &mut conditions);
    status.insert("conditions".to_owned(), json!(conditions));
    cluster.set_status(COLLECTION, key, Value::Object(status));
}

fn put_available(cluster: &Cluster<'_>, rollout: &Rollout, counts: &Counts, conditions: &mut Vec<Value>) {
    let enough = counts.available >= rollout.wanted() - rollout.max_unavailable();
    let wanted = if enough {
        json!({ "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability." })
    } else {
        json!({ "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
                "message": "Deployment does not have minimum availability." })
    };
    renew(cluster, conditions, wanted);
}

/// Replaces a condition if its status or reason changes; otherwise it stays as it is.
fn renew(cluster: &Cluster<'_>, conditions: &mut Vec<Value>, mut condition: Value) {
    let same = conditions.iter().any(|before| {
        ["type", "status", "reason", "message"]
            .iter()
            .all(|field| before.get(*field) == condition.get(*field))
    });
    if !same {
        let now = cluster.timestamp();
        condition["lastUpdateTime"] = now.as_str().into();
        put_condition(conditions, condition, &now);
    }
}

fn put_progress(
    cluster: &mut Cluster<'_>,
    key: &str,
    rollout: &Rollout,
    counts: &Counts,
    conditions: &mut Vec<Value>,
) {
    let deployment = &rollout.deployment;
    let Some(deadline) = number(deployment, "/spec/progressDeadlineSeconds") else {
        conditions.retain(|condition| text(condition, "/type") != "Progressing");
        return;
    };
    let before = condition(deployment, "Progressing");
    let reason = before.map(|before| text(before, "/reason")).unwrap_or_default();
    if rollout.is_paused() {
        if reason != "DeploymentPaused" {
            let paused = json!({ "type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused",
                                 "message": "Deployment is paused" });
            renew(cluster, conditions, paused);
        }
        return;
    }
    if counts.total == counts.updated && reason == "NewReplicaSetAvailable" {
        // The rollout is complete; pods that fail later, or are added, are not a rollout that makes no progress.
        return;
    }
    let described = match &rollout.new {
        Some(new) => format!("ReplicaSet {:?}", text(new, "/metadata/name")),
        None => format!("Deployment {:?}", text(deployment, "/metadata/name")),
    };
    let progressing = |status: &str, reason: &str, message: String| json!({ "type": "Progressing", "status": status, "reason": reason, "message": message });
    if rollout.is_complete_by(counts) {
        let message = format!("{described} has successfully progressed.");
        renew(
            cluster,
            conditions,
            progressing("True", "NewReplicaSetAvailable", message),
        );
        return;
    }
    let known = |name: &str| number(deployment, &format!("/status/{name}")).unwrap_or(0);
    let fewer_old = counts.total - counts.updated < known("replicas") - known("updatedReplicas");
    let progressed = counts.updated > known("updatedReplicas")
        || fewer_old
        || counts.ready > known("readyReplicas")
        || counts.available > known("availableReplicas")
        // A rollout begins.
        || matches!(reason, "" | "DeploymentPaused" | "NewReplicaSetAvailable");
    if progressed {
        // Progress renews the condition, and with it the deadline.
        conditions.retain(|condition| text(condition, "/type") != "Progressing");
        let now = cluster.timestamp();
        let since = before
            .filter(|before| text(before, "/status") == "True")
            .map_or(now.as_str(), |before| text(before, "/lastTransitionTime"));
        let mut condition = progressing(
            "True",
            "ReplicaSetUpdated",
            format!("{described} is progressing."),
        );
        condition["lastUpdateTime"] = now.as_str().into();
        condition["lastTransitionTime"] = since.into();
        conditions.push(condition);
        cluster.again(seconds(deadline), Controller::Deployments, key);
        return;
    }
    let (Some(before), false) = (before, reason == "ProgressDeadlineExceeded") else {
        return;
    };
    let passed = seconds_since(text(before, "/lastUpdateTime"), cluster.now()).unwrap_or(0);
    if passed >= deadline {
        let message = format!("{described} has timed out progressing.");
        renew(
            cluster,
            conditions,
            progressing("False", "ProgressDeadlineExceeded", message),
        );
    } else {
        cluster.again(seconds(deadline - passed), Controller::Deployments, key);
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}
