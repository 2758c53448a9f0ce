//! The kubelets of all nodes: pods start, become ready, exit, restart and end, as their rules say.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::pods::{has_ended, is_deleting, is_ready, uses_host_network};
use crate::controllers::Controller;
use crate::controllers::PodState;
use crate::controllers::rules::{Exit, PodRule, rule_for};
use crate::fields::{list, number, put_condition, text};

/// The first and the longest pause before a container that exits is started again.
const BACK_OFF: (u64, u64) = (10, 300);
/// The exit code of a container that was ended by SIGTERM.
const KILLED: i32 = 143;
/// How long a pod runs that is not to be restarted, without a rule.
const RUN_TIME: Duration = Duration::from_secs(1);

pub(super) fn reconcile(cluster: &mut Cluster<'_>, key: &str) {
    let Some(pod) = cluster.get("pods", key) else {
        return;
    };
    // A node that does not exist has no kubelet.
    let node = text(&pod, "/spec/nodeName");
    if node.is_empty() || cluster.stored("nodes", node).is_none() {
        return;
    }
    let rule = rule_for(cluster.rules, &pod);
    if is_deleting(&pod) {
        terminate(cluster, key, &pod, &rule);
    } else if has_ended(&pod) {
        // Nothing happens to it any more.
    } else if is_in_back_off(&pod) {
        back_off(cluster, key, &pod);
    } else if is_running(&pod) {
        run(cluster, key, &pod, &rule);
    } else {
        create(cluster, key, &pod, &rule);
    }
}

fn is_running(pod: &Value) -> bool {
    let statuses = list(pod, "/status/containerStatuses");
    !statuses.is_empty()
        && statuses
            .iter()
            .all(|status| status.pointer("/state/running").is_some())
}

fn is_in_back_off(pod: &Value) -> bool {
    list(pod, "/status/containerStatuses")
        .iter()
        .any(|status| text(status, "/state/waiting/reason") == "CrashLoopBackOff")
}

/// The time since a pod came into a state; none at the first look.
fn time_in(cluster: &mut Cluster<'_>, pod: &Value, state: PodState) -> Duration {
    let now = Instant::now();
    let since = cluster
        .memory
        .since
        .entry(text(pod, "/metadata/uid").to_owned())
        .or_insert((state, now));
    if since.0 != state {
        *since = (state, now);
    }
    now.duration_since(since.1)
}

/// The pod is on a node, and its containers do not run yet.
fn create(cluster: &mut Cluster<'_>, key: &str, pod: &Value, rule: &PodRule) {
    let passed = time_in(cluster, pod, PodState::Creating);
    if passed >= rule.start_after {
        start(cluster, key, pod, rule, 0, None);
        return;
    }
    let waiting = json!({ "waiting": { "reason": "ContainerCreating" } });
    write(cluster, key, "Pending", false, &Containers::new(waiting, 0));
    cluster.again(rule.start_after - passed, Controller::Kubelet, key);
}

fn start(
    cluster: &mut Cluster<'_>,
    key: &str,
    pod: &Value,
    rule: &PodRule,
    restarts: i64,
    last: Option<Value>,
) {
    // Also if it ran before: this is another start.
    let uid = text(pod, "/metadata/uid").to_owned();
    cluster
        .memory
        .since
        .insert(uid, (PodState::Running, Instant::now()));
    let ready = rule.ready_after == Some(Duration::ZERO);
    let running = json!({ "running": { "startedAt": cluster.timestamp() } });
    let containers = Containers {
        last,
        ..Containers::new(running, restarts)
    };
    write(cluster, key, "Running", ready, &containers);
    cluster.record(pod, "Normal", "Started", "Container started");
}

/// The containers run: they may become ready, or exit.
fn run(cluster: &mut Cluster<'_>, key: &str, pod: &Value, rule: &PodRule) {
    let passed = time_in(cluster, pod, PodState::Running);
    let policy = text(pod, "/spec/restartPolicy");
    let restarted = matches!(policy, "" | "Always");
    let exit = match rule.exit {
        Exit::Never => None,
        Exit::Usual => (!restarted).then_some((RUN_TIME, 0)),
        Exit::After { delay, code } => Some((delay, code)),
    };
    if let Some((delay, code)) = exit {
        if passed >= delay {
            let again = restarted || (policy == "OnFailure" && code != 0);
            self::exit(cluster, key, pod, rule, code, again);
            return;
        }
        cluster.again(delay - passed, Controller::Kubelet, key);
    }
    let ready = rule.ready_after.is_some_and(|delay| passed >= delay);
    if ready != is_ready(pod) {
        let state = text(pod, "/status/containerStatuses/0/state/running/startedAt");
        let running = json!({ "running": { "startedAt": state } });
        let containers = Containers {
            last: pod.pointer("/status/containerStatuses/0/lastState").cloned(),
            ..Containers::new(running, restarts_of(pod))
        };
        write(cluster, key, "Running", ready, &containers);
    }
    if let Some(delay) = rule.ready_after.filter(|delay| passed < *delay) {
        cluster.again(delay - passed, Controller::Kubelet, key);
    }
}

fn restarts_of(pod: &Value) -> i64 {
    number(pod, "/status/containerStatuses/0/restartCount").unwrap_or(0)
}

fn exit(cluster: &mut Cluster<'_>, key: &str, pod: &Value, rule: &PodRule, code: i32, again: bool) {
    let restarts = restarts_of(pod);
    let now = cluster.timestamp();
    let terminated = json!({ "terminated": {
        "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": text(pod, "/status/containerStatuses/0/state/running/startedAt"), "finishedAt": now,
    } });
    if !again {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        write(cluster, key, phase, false, &Containers::new(terminated, restarts));
    } else if restarts == 0 {
        start(cluster, key, pod, rule, 1, Some(terminated));
    } else {
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        let containers = Containers {
            last: Some(terminated),
            ..Containers::new(waiting, restarts)
        };
        write(cluster, key, "Running", false, &containers);
        cluster.record(pod, "Warning", "BackOff", "Back-off restarting failed container");
    }
}

/// A container that exited waits for its next start.
fn back_off(cluster: &mut Cluster<'_>, key: &str, pod: &Value) {
    let restarts = restarts_of(pod);
    let (first, longest) = BACK_OFF;
    let doublings = u32::try_from(restarts - 1).unwrap_or(0).min(16);
    let pause = Duration::from_secs((first << doublings).min(longest));
    let passed = time_in(cluster, pod, PodState::BackOff);
    if passed < pause {
        cluster.again(pause - passed, Controller::Kubelet, key);
        return;
    }
    let rule = rule_for(cluster.rules, pod);
    let last = pod.pointer("/status/containerStatuses/0/lastState").cloned();
    start(cluster, key, pod, &rule, restarts.saturating_add(1), last);
}

/// A deleted pod ends, at the latest after its grace period.
fn terminate(cluster: &mut Cluster<'_>, key: &str, pod: &Value, rule: &PodRule) {
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    let delay = rule
        .end_after
        .min(Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
    let passed = time_in(cluster, pod, PodState::Terminating);
    if passed < delay {
        cluster.again(delay - passed, Controller::Kubelet, key);
        return;
    }
    if !has_ended(pod) && !list(pod, "/metadata/finalizers").is_empty() {
        // It stays for its finalizers, and jobs count how it ended.
        let ended = json!({ "terminated": {
            "exitCode": KILLED, "reason": "Error", "finishedAt": cluster.timestamp(),
            "startedAt": text(pod, "/status/containerStatuses/0/state/running/startedAt"),
        } });
        write(
            cluster,
            key,
            "Failed",
            false,
            &Containers::new(ended, restarts_of(pod)),
        );
    }
    cluster.remove_pod(key);
}

/// The state of all containers of a pod.
struct Containers {
    state: Value,
    restarts: i64,
    last: Option<Value>,
}

impl Containers {
    fn new(state: Value, restarts: i64) -> Containers {
        Containers {
            state,
            restarts,
            last: None,
        }
    }
}

/// Writes the status of a pod.
fn write(cluster: &mut Cluster<'_>, key: &str, phase: &str, ready: bool, containers: &Containers) {
    let now = cluster.timestamp();
    let Some(pod) = cluster.get("pods", key) else {
        return;
    };
    let host = cluster
        .get("nodes", text(&pod, "/spec/nodeName"))
        .map(|node| internal_address(&node))
        .unwrap_or_default();
    let address = match text(&pod, "/status/podIP") {
        "" if phase == "Pending" => String::new(),
        "" if uses_host_network(&pod) => host.clone(),
        "" => {
            cluster.memory.addresses += 1;
            let number = cluster.memory.addresses;
            format!(
                "10.{}.{}.{}",
                244 + (number / 64_516) % 8,
                (number / 254) % 254,
                number % 254 + 1
            )
        }
        known => known.to_owned(),
    };
    cluster.edit("pods", key, |object| {
        let statuses = container_statuses(object, ready, containers);
        let mut conditions = list(object, "/status/conditions").to_vec();
        for condition in pod_conditions(phase, ready) {
            let same = |before: &Value| {
                ["type", "status", "reason"]
                    .iter()
                    .all(|field| before.get(*field) == condition.get(*field))
            };
            if !conditions.iter().any(same) {
                put_condition(&mut conditions, condition, &now);
            }
        }
        let status = &mut object["status"];
        if !status.is_object() {
            *status = json!({});
        }
        status["phase"] = phase.into();
        status["conditions"] = json!(conditions);
        status["containerStatuses"] = statuses;
        if status.get("startTime").is_none() {
            status["startTime"] = now.as_str().into();
        }
        if !host.is_empty() {
            status["hostIP"] = host.as_str().into();
            status["hostIPs"] = json!([{ "ip": host }]);
        }
        if !address.is_empty() {
            status["podIP"] = address.as_str().into();
            status["podIPs"] = json!([{ "ip": address }]);
        }
    });
}

fn internal_address(node: &Value) -> String {
    let found = list(node, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == "InternalIP");
    found
        .map(|address| text(address, "/address").to_owned())
        .unwrap_or_default()
}

fn container_statuses(pod: &Value, ready: bool, containers: &Containers) -> Value {
    let uid = text(pod, "/metadata/uid");
    let runs = containers.state.get("running").is_some();
    let statuses = list(pod, "/spec/containers").iter().map(|container| {
        let (name, image) = (text(container, "/name"), text(container, "/image"));
        let mut status = json!({
            "name": name, "image": image, "imageID": "", "ready": ready && runs, "started": runs,
            "restartCount": containers.restarts, "state": containers.state,
            "lastState": containers.last.clone().unwrap_or_else(|| json!({})),
        });
        if containers.state.get("waiting").is_none() {
            status["imageID"] = format!("{image}@sha256:0").into();
            status["containerID"] = format!("test://{uid}/{name}/{}", containers.restarts).into();
        }
        status
    });
    statuses.collect()
}

fn pod_conditions(phase: &str, ready: bool) -> Vec<Value> {
    let reason = match (phase, ready) {
        ("Succeeded", _) => Some("PodCompleted"),
        ("Failed", _) => Some("PodFailed"),
        (_, true) => None,
        (_, false) => Some("ContainersNotReady"),
    };
    let condition = |kind: &str, holds: bool, reason: Option<&str>| {
        let mut condition = json!({ "type": kind, "status": if holds { "True" } else { "False" } });
        if let Some(reason) = reason {
            condition["reason"] = reason.into();
        }
        condition
    };
    vec![
        condition("PodReadyToStartContainers", phase == "Running", None),
        condition("Initialized", true, None),
        condition("Ready", ready, reason),
        condition("ContainersReady", ready, reason),
        condition("PodScheduled", true, None),
    ]
}
