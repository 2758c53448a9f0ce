//! What users do to deployments, and the status of those that begin rolled out.

use serde_json::{Value, json};

use super::Churn;
use super::pods::set;
use crate::fields::{fnv, letters};

impl Churn {
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
    }

    /// Scales up or down by one, staying near the initial number of replicas.
    pub(super) fn scale(&mut self, key: &str) {
        let Some(base) = self.deployments.get(key).copied() else {
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
    }

    /// Sets the status of a deployment and its only replica set, whose pods are all ready.
    pub(super) fn set_rolled_out(&mut self, key: &str, set_key: &str, replicas: usize) {
        let status = |object: &mut Value, of_deployment: bool| {
            let generation = object.pointer("/metadata/generation").cloned();
            let mut status = json!({
                "replicas": replicas, "observedGeneration": generation.unwrap_or_else(|| json!(1)),
            });
            if replicas > 0 {
                status["readyReplicas"] = json!(replicas);
                status["availableReplicas"] = json!(replicas);
            }
            if of_deployment {
                if replicas > 0 {
                    status["updatedReplicas"] = json!(replicas);
                }
                status["conditions"] = json!([
                    { "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable" },
                    { "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" },
                ]);
            } else {
                status["fullyLabeledReplicas"] = json!(replicas);
            }
            if let Value::Object(fields) = object {
                fields.insert("status".to_owned(), status);
            }
        };
        self.change("replicasets.apps", set_key, |object| {
            set(object, "spec", "replicas", json!(replicas));
            status(object, false);
        });
        self.change("deployments.apps", key, |object| status(object, true));
    }
}

/// The pod template hash: letters and digits that are unique for each template.
pub(super) fn template_hash(deployment: &Value) -> String {
    let template = deployment
        .pointer("/spec/template")
        .map(ToString::to_string)
        .unwrap_or_default();
    letters(fnv(&template), 9)
}
