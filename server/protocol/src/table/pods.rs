//! The table of pods, whose status is derived from their containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cells;
use super::age;
use super::cells::Reader;
use super::columns::{AGE, Column, NAME, text, wide};
use crate::resource::Resource;

pub(super) fn columns(key: (&str, &str)) -> Option<(&'static [Column], Cells)> {
    Some(match key {
        ("", "pods") => (POD, pod),
        _ => return None,
    })
}

const POD: &[Column] = &[
    NAME,
    text("Ready"),
    text("Status"),
    text("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

fn pod(object: &Value, now: Timestamp) -> Vec<Value> {
    let pod = Reader(object);
    let summary = PodSummary::of(pod);
    let restarts = match (summary.restarts, summary.last_restart) {
        (0, _) | (_, "") => summary.restarts.to_string(),
        (count, last) => format!("{count} ({} ago)", age::since(last, now)),
    };
    let address = match pod.text("/status/podIPs/0/ip") {
        "" => pod.text_or("/status/podIP", "<none>"),
        first => first,
    };
    vec![
        pod.name(),
        json!(format!("{}/{}", summary.ready, summary.containers)),
        json!(summary.status),
        json!(restarts),
        pod.age(now),
        json!(address),
        json!(pod.text_or("/spec/nodeName", "<none>")),
        json!(pod.text_or("/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

fn readiness_gates(pod: Reader<'_>) -> String {
    let gates = pod.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| pod.condition(Reader(gate).text("/conditionType")) == Some("True"));
    format!("{}/{}", open.count(), gates.len())
}

/// The status columns of a pod, derived from its containers.
struct PodSummary<'a> {
    status: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: &'a str,
}

impl<'a> PodSummary<'a> {
    fn of(pod: Reader<'a>) -> Self {
        let sidecars = pod
            .list("/spec/initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut summary = Self {
            status: pod
                .text_or("/status/reason", pod.text_or("/status/phase", "Pending"))
                .to_owned(),
            ready: 0,
            containers: pod.list("/spec/containers").len() + sidecars,
            restarts: 0,
            last_restart: "",
        };
        let conditions = || pod.list("/status/conditions").iter().map(Reader);
        let gated = conditions()
            .any(|found| found.text("/type") == "PodScheduled" && found.text("/reason") == "SchedulingGated");
        if gated {
            summary.status = "SchedulingGated".to_owned();
        }
        let initializing = summary.read_init_containers(pod);
        if !initializing || pod.condition("Initialized") == Some("True") {
            summary.read_containers(pod);
        }
        if pod.is_being_deleted() {
            if pod.text("/status/reason") == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !matches!(pod.text("/status/phase"), "Succeeded" | "Failed") {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    fn count_restarts(&mut self, container: Reader<'a>) {
        self.restarts = self.restarts.saturating_add(container.number("/restartCount"));
        // Timestamps of the same format compare as strings.
        self.last_restart = self
            .last_restart
            .max(container.text("/lastState/terminated/finishedAt"));
    }

    /// Returns whether an init container is still running.
    fn read_init_containers(&mut self, pod: Reader<'a>) -> bool {
        let specs = pod.list("/spec/initContainers");
        let statuses = pod.list("/status/initContainerStatuses");
        let mut sidecars = (0_i64, "");
        for (index, container) in statuses.iter().map(Reader).enumerate() {
            let name = container.text("/name");
            let sidecar = specs
                .iter()
                .any(|spec| Reader(spec).text("/name") == name && is_sidecar(spec));
            self.count_restarts(container);
            if sidecar {
                let last = container.text("/lastState/terminated/finishedAt");
                sidecars = (
                    sidecars.0.saturating_add(container.number("/restartCount")),
                    sidecars.1.max(last),
                );
            }
            let terminated = container.at("/state/terminated").map(Reader);
            let waiting = container.text("/state/waiting/reason");
            if terminated.is_some_and(|state| state.number("/exitCode") == 0) {
                continue;
            }
            if sidecar && container.flag("/started") {
                self.ready += usize::from(container.flag("/ready"));
                continue;
            }
            self.status = match terminated {
                Some(state) => format!("Init:{}", ending(state)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", specs.len()),
            };
            return true;
        }
        // Once the pod runs, only restarts of running containers count.
        (self.restarts, self.last_restart) = sidecars;
        false
    }

    fn read_containers(&mut self, pod: Reader<'a>) {
        let mut running = false;
        let mut error = None;
        for container in pod.list("/status/containerStatuses").iter().rev().map(Reader) {
            self.count_restarts(container);
            let waiting = container.text("/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(state) = container.at("/state/terminated").map(Reader) {
                self.status = ending(state);
                if state.number("/exitCode") != 0 {
                    error = Some(self.status.clone());
                }
            } else if container.flag("/ready") && container.at("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" {
            if running && pod.condition("Ready") == Some("True") {
                self.status = "Running".to_owned();
            } else if let Some(error) = error {
                self.status = error;
            } else if running {
                self.status = "NotReady".to_owned();
            }
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    Reader(container).text("/restartPolicy") == "Always"
}

/// The reason a container terminated.
fn ending(terminated: Reader<'_>) -> String {
    match (terminated.text("/reason"), terminated.number("/signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.number("/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Finished pods are marked, so that clients can hide them.
pub(super) fn row_conditions(resource: Resource<'_>, object: &Value) -> Option<Value> {
    if (resource.group, resource.plural) != ("", "pods") {
        return None;
    }
    let (reason, message) = match Reader(object).text("/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{builtin, pairs, printed};
    use super::*;

    fn status_of(pod: Value) -> String {
        PodSummary::of(Reader(&pod)).status
    }

    #[test]
    fn running_pod_has_the_columns_of_kubectl() {
        let pod = json!({
            "metadata": { "name": "cart", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": "worker-1", "containers": [{ "name": "a" }, { "name": "b" }] },
            "status": { "phase": "Running", "podIPs": [{ "ip": "10.0.0.7" }], "containerStatuses": [
                { "name": "a", "ready": true, "restartCount": 2, "state": { "running": {} },
                  "lastState": { "terminated": { "finishedAt": "2026-01-01T23:55:00Z" } } },
                { "name": "b", "ready": false, "restartCount": 0, "state": { "running": {} } },
            ] },
        });

        assert_eq!(
            printed("", "pods", pod.clone(), false),
            pairs(&[
                ("Name", "cart"),
                ("Ready", "1/2"),
                ("Status", "Running"),
                ("Restarts", "2 (5m ago)"),
                ("Age", "24h"),
            ])
        );
        assert_eq!(
            printed("", "pods", pod, true)[5..],
            pairs(&[
                ("IP", "10.0.0.7"),
                ("Node", "worker-1"),
                ("Nominated Node", "<none>"),
                ("Readiness Gates", "<none>"),
            ])
        );
    }

    #[test]
    fn pod_status_shows_the_most_specific_reason() {
        let waiting = |reason: &str| json!({ "state": { "waiting": { "reason": reason } } });
        let ended = |code: i64, reason: &str| json!({ "state": { "terminated": { "exitCode": code, "reason": reason } } });
        let pod = |phase: &str, statuses: Value| json!({ "status": { "phase": phase, "containerStatuses": statuses } });

        assert_eq!(status_of(json!({})), "Pending");
        assert_eq!(
            status_of(pod("Running", json!([waiting("CrashLoopBackOff")]))),
            "CrashLoopBackOff"
        );
        assert_eq!(
            status_of(pod("Succeeded", json!([ended(0, "Completed")]))),
            "Completed"
        );
        assert_eq!(
            status_of(pod("Failed", json!([ended(1, "Error"), ended(0, "Completed")]))),
            "Error"
        );
        assert_eq!(status_of(pod("Failed", json!([ended(137, "")]))), "ExitCode:137");
        assert_eq!(
            status_of(json!({ "status": { "phase": "Failed", "reason": "Evicted" } })),
            "Evicted"
        );
        let mut deleted = pod("Running", json!([]));
        deleted["metadata"] = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(status_of(deleted), "Terminating");
        let init = json!({
            "spec": { "initContainers": [{ "name": "i" }, { "name": "j" }] },
            "status": { "phase": "Pending", "initContainerStatuses": [
                { "name": "i", "state": { "terminated": { "exitCode": 0 } } },
                { "name": "j", "state": { "running": {} } },
            ] },
        });
        assert_eq!(status_of(init), "Init:1/2");
    }

    #[test]
    fn finished_pods_are_marked() {
        let pods = builtin("", "pods");
        let done = row_conditions(pods, &json!({ "status": { "phase": "Succeeded" } })).unwrap();
        assert_eq!(done[0]["type"], "Completed");
        assert_eq!(
            row_conditions(pods, &json!({ "status": { "phase": "Running" } })),
            None
        );
    }
}
