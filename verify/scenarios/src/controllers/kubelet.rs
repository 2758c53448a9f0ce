//! A scheduler and kubelets for clusters without any: the rules of the embedded server, performed by a client.

use std::collections::HashMap;

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::picture::text;
use super::world::{items, path, send};

/// The label that says what happens to a pod; one of the following, or none.
pub(super) const LABEL: &str = "fate";
/// The value of the label for pods that run but never become ready.
pub(super) const UNREADY: &str = "unready";
/// The value of the label for pods whose containers fail.
pub(super) const FAILS: &str = "fails";

/// What it remembers: the addresses of pods.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    addresses: HashMap<String, usize>,
}

impl Kubelet {
    /// Looks at all pods once, and does for each what is next.
    pub(super) async fn step(&mut self, client: &Client) -> Result<(), String> {
        let pods = send(client, Method::GET, &path("pods", ""), &Value::Null).await?;
        let nodes = send(client, Method::GET, "/api/v1/nodes", &Value::Null).await?;
        let nodes = items(&nodes);
        for pod in items(&pods) {
            self.step_pod(client, &nodes, &pod).await?;
        }
        Ok(())
    }

    async fn step_pod(&mut self, client: &Client, nodes: &[Value], pod: &Value) -> Result<(), String> {
        let name = text(pod, "/metadata/name");
        let phase = text(pod, "/status/phase");
        let ended = matches!(phase, "Succeeded" | "Failed");
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            if !ended && pod.pointer("/metadata/finalizers").is_some() {
                self.report(client, pod, "Failed", false).await?;
            }
            let now = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0 });
            return unless_gone(send(client, Method::DELETE, &path("pods", name), &now).await);
        }
        if text(pod, "/spec/nodeName").is_empty() {
            let Some(node) = node_for(nodes, pod) else {
                return Ok(());
            };
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                "target": { "apiVersion": "v1", "kind": "Node", "name": node },
            });
            let path = format!("{}/binding", path("pods", name));
            return unless_gone(send(client, Method::POST, &path, &binding).await);
        }
        let fate = pod
            .pointer("/metadata/labels")
            .and_then(|labels| labels[LABEL].as_str());
        match phase {
            "Pending" => {
                let ready = !matches!(fate, Some(UNREADY | FAILS));
                self.report(client, pod, "Running", ready).await
            }
            "Running" if text(pod, "/spec/restartPolicy") != "Always" => {
                let phase = if fate == Some(FAILS) {
                    "Failed"
                } else {
                    "Succeeded"
                };
                self.report(client, pod, phase, false).await
            }
            _ => Ok(()),
        }
    }

    /// Writes the status of a pod.
    async fn report(&mut self, client: &Client, pod: &Value, phase: &str, ready: bool) -> Result<(), String> {
        let number = self.addresses.len() + 1;
        let uid = text(pod, "/metadata/uid").to_owned();
        let number = *self.addresses.entry(uid).or_insert(number);
        let address = format!("10.244.{}.{}", number / 250, number % 250 + 1);
        let now = text(pod, "/metadata/creationTimestamp");
        let truth = |holds: bool| if holds { "True" } else { "False" };
        let condition = |kind: &str, holds: bool| json!({ "type": kind, "status": truth(holds), "lastTransitionTime": now });
        let state = match phase {
            "Running" => json!({ "running": { "startedAt": now } }),
            "Succeeded" => json!({ "terminated": { "exitCode": 0, "startedAt": now, "finishedAt": now } }),
            _ => json!({ "terminated": { "exitCode": 1, "startedAt": now, "finishedAt": now } }),
        };
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let statuses: Vec<Value> = containers
            .map(|container| {
                json!({
                    "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
                    "ready": ready, "state": state,
                })
            })
            .collect();
        let status = json!({ "status": {
            "phase": phase,
            "startTime": now,
            "podIP": address,
            "podIPs": [{ "ip": address }],
            "conditions": [
                condition("PodScheduled", true), condition("Initialized", true),
                condition("Ready", ready), condition("ContainersReady", ready),
            ],
            "containerStatuses": statuses,
        } });
        let path = format!("{}/status", path("pods", text(pod, "/metadata/name")));
        unless_gone(send(client, Method::PATCH, &path, &status).await)
    }
}

/// The node that a pod of a daemon set is made for, or the first that is schedulable.
fn node_for<'a>(nodes: &'a [Value], pod: &'a Value) -> Option<&'a str> {
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    let wanted = pod.pointer(&format!("{terms}/matchFields/0/values/0"));
    if let Some(wanted) = wanted.and_then(Value::as_str) {
        return Some(wanted);
    }
    let free = |node: &&Value| node["spec"]["unschedulable"] != true;
    nodes.iter().find(free).map(|node| text(node, "/metadata/name"))
}

/// Another client may have deleted or changed the pod meanwhile; the next step looks at it again.
fn unless_gone(result: Result<Value, String>) -> Result<(), String> {
    match result {
        Err(error) if !error.ends_with("(NotFound)") && !error.ends_with("(Conflict)") => Err(error),
        _ => Ok(()),
    }
}
