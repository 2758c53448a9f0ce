//! The status of pods that begin running, or crash.

use serde_json::{Map, Value, json};

/// Whether a pod runs and no container waits for a restart.
pub(super) fn is_running(pod: &Value) -> bool {
    pod.pointer("/status/phase").and_then(Value::as_str) == Some("Running")
        && pod.pointer("/status/containerStatuses/0/state/waiting").is_none()
        && pod.pointer("/metadata/deletionTimestamp").is_none()
}

/// Assigns a node to a pod.
pub(super) fn schedule(pod: &mut Value, node: &str, host: &str, now: &str) {
    set(pod, "spec", "nodeName", json!(node));
    if !host.is_empty() {
        set(pod, "status", "hostIP", json!(host));
        set(pod, "status", "hostIPs", json!([{ "ip": host }]));
    }
    set(pod, "status", "phase", json!("Pending"));
    set(
        pod,
        "status",
        "conditions",
        json!([pod_condition("PodScheduled", true, now)]),
    );
    let statuses = containers(pod, |name, image| {
        json!({ "name": name, "image": image, "imageID": "", "ready": false, "started": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ContainerCreating" } } })
    });
    set(pod, "status", "containerStatuses", statuses);
}

/// Starts a pod.
pub(super) fn run(pod: &mut Value, address: &str, now: &str) {
    let statuses = containers(pod, |name, image| {
        json!({ "name": name, "image": image, "imageID": format!("{image}@sha256:0"), "ready": true, "started": true,
                "restartCount": 0, "lastState": {}, "state": { "running": { "startedAt": now } } })
    });
    set(pod, "status", "phase", json!("Running"));
    set(pod, "status", "containerStatuses", statuses);
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|kind| pod_condition(kind, true, now))
        .collect();
    set(pod, "status", "conditions", json!(conditions));
    set(pod, "status", "podIP", json!(address));
    set(pod, "status", "podIPs", json!([{ "ip": address }]));
    set(pod, "status", "startTime", json!(now));
}

/// Crashes the containers of a pod.
pub(super) fn crash(pod: &mut Value, now: &str) {
    let before = pod
        .pointer("/status/containerStatuses")
        .cloned()
        .unwrap_or(Value::Null);
    let statuses = containers(pod, |name, image| {
        let old = before
            .as_array()
            .into_iter()
            .flatten()
            .find(|status| status["name"] == name);
        let restarts = old
            .and_then(|status| status["restartCount"].as_i64())
            .unwrap_or(0)
            .saturating_add(1);
        json!({ "name": name, "image": image, "imageID": format!("{image}@sha256:0"), "ready": false,
                "started": false, "restartCount": restarts,
                "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "finishedAt": now } },
                "state": { "waiting": { "reason": "CrashLoopBackOff" } } })
    });
    set(pod, "status", "containerStatuses", statuses);
    let conditions = [
        ("PodScheduled", true),
        ("Initialized", true),
        ("ContainersReady", false),
        ("Ready", false),
    ];
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, holds)| pod_condition(kind, *holds, now))
        .collect();
    set(pod, "status", "conditions", json!(conditions));
}

fn pod_condition(kind: &str, holds: bool, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({ "type": kind, "status": status, "lastTransitionTime": now })
}

fn containers(pod: &Value, status: impl Fn(&str, &str) -> Value) -> Value {
    let list = pod.pointer("/spec/containers").and_then(Value::as_array);
    let text = |container: &Value, field: &str| -> String {
        container
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let statuses = list
        .into_iter()
        .flatten()
        .map(|one| status(&text(one, "name"), &text(one, "image")));
    Value::Array(statuses.collect())
}

/// Sets a field of `spec` or `status`, creating the part if it does not exist.
pub(super) fn set(object: &mut Value, part: &str, field: &str, value: Value) {
    let Value::Object(fields) = object else { return };
    let part = fields.entry(part).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(part) = part {
        part.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_runs_and_crashes() {
        let mut pod = json!({ "spec": { "containers": [{ "name": "a", "image": "i" }] } });
        schedule(&mut pod, "node-1", "192.168.0.1", "t");
        assert!(!is_running(&pod));
        run(&mut pod, "10.0.0.1", "t");
        assert!(is_running(&pod));
        crash(&mut pod, "t");
        assert!(!is_running(&pod));
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
        assert_eq!(pod["status"]["podIP"], "10.0.0.1");
    }
}
