//! Simulates a busy cluster: rollouts, pod restarts, flapping nodes, events, lease renewals.
//!
//! [`Churn`] fills a server and then disturbs it, one step at a time. The server's own controllers follow up: they replace pods,
//! roll deployments out and restart containers. Steps are drawn from a seeded random source: the same seed on the same server
//! makes the same disturbances.

mod deployments;
mod fill;
mod objects;
mod pods;
mod population;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::fields::{event, letters};
use crate::server::TestServer;

pub use population::{Population, PopulationError};

/// The longest time between two steps, for low rates.
const LONGEST_TICK: Duration = Duration::from_millis(500);
const SHORTEST_TICK: Duration = Duration::from_millis(10);

/// After a burst of writes, the churn pauses for at most this many seconds.
const LONGEST_DEBT: f64 = 30.0;

/// How often the list of pods is used before it is read again. Reading it is slow with many pods.
const PICKS: usize = 200;

/// Field managers of a real cluster.
const KUBELET: &str = "kubelet";
const SCHEDULER: &str = "kube-scheduler";
const CONTROLLERS: &str = "kube-controller-manager";

/// Disturbs a server's objects as the users and the machines of a busy cluster would.
///
/// What follows is up to the server: without [controllers](crate::TestServerBuilder::controllers) for workloads, the scheduler and
/// the kubelet, pods that are deleted are not replaced.
#[derive(Debug)]
pub struct Churn {
    server: TestServer,
    rng: fastrand::Rng,
    /// The deployments that `fill` created, and their initial number of pods. Others are left alone.
    deployments: BTreeMap<String, usize>,
    nodes: Vec<String>,
    /// Nodes that are to become ready again.
    unready: VecDeque<String>,
    /// The keys of pods, some of which may be gone by now.
    pods: Vec<Arc<str>>,
    picks: usize,
    /// The keys of config maps that may be edited.
    configs: Vec<String>,
    /// The keys of the recorded events, oldest first; the oldest are deleted beyond `max_events`.
    events: VecDeque<String>,
    max_events: usize,
    writes: usize,
    numbers: u64,
}

impl Churn {
    /// Nothing changes before [`Churn::fill`] or [`Churn::step`].
    pub fn new(server: TestServer, seed: u64) -> Self {
        Self {
            nodes: server.objects("nodes").iter().map(key_of).collect(),
            server,
            rng: fastrand::Rng::with_seed(seed),
            deployments: BTreeMap::new(),
            unready: VecDeque::new(),
            pods: Vec::new(),
            picks: 0,
            configs: Vec::new(),
            events: VecDeque::new(),
            max_events: 1000,
            writes: 0,
            numbers: 0,
        }
    }

    /// Makes one disturbance, or ends one. Returns the number of writes, which is zero only if there is nothing to change.
    pub fn step(&mut self) -> usize {
        self.writes = 0;
        // A step may have nothing to do, for example if there are no pods now.
        for _ in 0..16 {
            let recovers = self.rng.u8(..100) < 60;
            match if recovers { self.unready.pop_front() } else { None } {
                Some(node) => self.set_node_ready(&node, true),
                None => self.disturb(),
            }
            if self.writes > 0 {
                break;
            }
        }
        self.writes
    }

    /// Makes `writes_per_second` changes until the future is dropped. All kinds are counted, and what the controllers write in
    /// response: in a cluster of pods and deployments about one write in four is of a pod.
    pub async fn run(mut self, writes_per_second: f64) {
        if writes_per_second.is_nan() || writes_per_second <= 0.0 {
            return std::future::pending().await;
        }
        let tick = Duration::try_from_secs_f64(1.0 / writes_per_second).unwrap_or(LONGEST_TICK);
        let tick = tick.clamp(SHORTEST_TICK, LONGEST_TICK);
        let mut interval = tokio::time::interval(tick);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // After a suspend at most one second is made up for. A rollout writes more than its share at once, and others pay it off.
        let (most, least) = (writes_per_second.max(1.0), -LONGEST_DEBT * writes_per_second);
        let (mut budget, mut last) = (0.0_f64, tokio::time::Instant::now());
        let mut seen = self.server.resource_version();
        loop {
            interval.tick().await;
            let now = tokio::time::Instant::now();
            let earned = writes_per_second * now.duration_since(last).as_secs_f64();
            let version = self.server.resource_version();
            let others = version.saturating_sub(seen) as f64;
            budget = (budget + earned - others).clamp(least, most);
            (last, seen) = (now, version);
            while budget >= 1.0 {
                let writes = self.step();
                seen += writes as u64;
                budget -= writes.max(1) as f64;
                // Let other tasks on this thread run between two steps.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Makes a random disturbance.
    fn disturb(&mut self) {
        match self.rng.u8(..100) {
            0..30 => self.renew_lease(),
            30..50 => {
                if let Some(key) = self.any_pod() {
                    self.delete("pods", &key);
                }
            }
            50..62 => self.crash_pod(),
            62..74 => {
                if let Some(key) = self.any_pod()
                    && let Some(pod) = self.server.object("pods", &key)
                {
                    self.record_event(
                        &pod,
                        "Warning",
                        "Unhealthy",
                        "Readiness probe failed: HTTP probe failed with statuscode: 503",
                    );
                }
            }
            74..82 => {
                if let Some(key) = self.any_deployment() {
                    self.roll_out(&key);
                }
            }
            82..90 => {
                if let Some(key) = self.any_deployment() {
                    self.scale(&key);
                }
            }
            90..95 => {
                if let Some(name) = self.any_node() {
                    self.set_node_ready(&name, false);
                }
            }
            _ => self.edit_config(),
        }
    }

    fn crash_pod(&mut self) {
        let Some(key) = self.any_pod() else {
            return;
        };
        let now = self.server.timestamp();
        if let Some(object) = self.change("pods", &key, |object| pods::crash(object, &now)) {
            let message = "Back-off restarting failed container";
            self.record_event(&object, "Warning", "BackOff", message);
        }
    }

    fn renew_lease(&mut self) {
        let Some(node) = self.any_node() else {
            return;
        };
        let now = self.server.timestamp();
        // Two renewals within the same second would be identical, so the timestamp gets a fraction.
        let fraction = self.number() % 1_000_000;
        let time = format!("{}.{fraction:06}Z", now.trim_end_matches('Z'));
        self.change(
            "leases.coordination.k8s.io",
            &format!("kube-node-lease/{node}"),
            |object| {
                pods::set(object, "spec", "renewTime", serde_json::json!(time));
            },
        );
    }

    /// Makes a node ready or unready.
    fn set_node_ready(&mut self, name: &str, ready: bool) {
        let now = self.server.timestamp();
        let is_ready = |object: &Value| {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            conditions
                .into_iter()
                .flatten()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let Some(before) = self.server.object("nodes", name) else {
            self.nodes.retain(|node| node != name);
            return;
        };
        if is_ready(&before) == ready {
            return;
        }
        let object = self.change("nodes", name, |object| {
            let conditions = object
                .pointer_mut("/status/conditions")
                .and_then(Value::as_array_mut);
            for condition in conditions
                .into_iter()
                .flatten()
                .filter(|one| one["type"] == "Ready")
            {
                let reason = if ready { "KubeletReady" } else { "KubeletNotReady" };
                *condition = objects::condition("Ready", ready, reason, &now);
            }
        });
        let Some(object) = object else { return };
        let reason = if ready { "NodeReady" } else { "NodeNotReady" };
        self.record_event(
            &object,
            if ready { "Normal" } else { "Warning" },
            reason,
            &format!("Node {name} status is now: {reason}"),
        );
        if !ready {
            self.unready.push_back(name.to_owned());
        }
    }

    fn edit_config(&mut self) {
        if self.server.count("configmaps") != self.configs.len() {
            self.configs = self.server.objects("configmaps").iter().map(key_of).collect();
        }
        let Some(key) = any(&mut self.rng, &self.configs) else {
            return;
        };
        let number = self.number();
        self.change("configmaps", &key, |object| {
            pods::set(object, "data", "revision", serde_json::json!(number.to_string()));
        });
    }

    fn any_node(&mut self) -> Option<String> {
        any(&mut self.rng, &self.nodes)
    }

    /// A random deployment that `fill` created.
    fn any_deployment(&mut self) -> Option<String> {
        if self.deployments.is_empty() {
            return None;
        }
        let index = self.rng.usize(..self.deployments.len());
        let key = self.deployments.keys().nth(index).cloned()?;
        if self.server.object("deployments.apps", &key).is_none() {
            self.deployments.remove(&key);
            return None;
        }
        Some(key)
    }

    /// A random running pod of a deployment that `fill` created. Only some pods are looked at.
    fn any_pod(&mut self) -> Option<String> {
        if self.picks == 0 {
            self.pods = self.server.keys("pods");
            self.picks = PICKS;
        }
        self.picks -= 1;
        for _ in 0..16 {
            let key = self.rng.choice(&self.pods)?;
            let fits = self.server.object("pods", key).is_some_and(|pod| {
                pods::is_running(&pod)
                    && deployment_of(&pod)
                        .is_some_and(|deployment| self.deployments.contains_key(&deployment))
            });
            if fits {
                return Some(key.to_string());
            }
        }
        // Too many of them are gone.
        self.picks = 0;
        None
    }

    /// Creates an object; `None` if the server rejected it, for example because the name is taken.
    fn create(&mut self, object: Value) -> Option<Value> {
        let manager = match object.get("kind").and_then(Value::as_str) {
            Some("Node" | "Lease") => KUBELET,
            Some("Event") => match object.pointer("/source/component").and_then(Value::as_str) {
                Some("default-scheduler") => SCHEDULER,
                Some("kubelet") | None => KUBELET,
                Some(_) => CONTROLLERS,
            },
            Some("ReplicaSet") => CONTROLLERS,
            // A pod that no controller owns is created by a user.
            Some("Pod") if object.pointer("/metadata/ownerReferences").is_some() => CONTROLLERS,
            _ => "kubectl-create",
        };
        let manager = if self.server.has_field_managers() {
            manager
        } else {
            ""
        };
        let created = self.server.create_as(manager, object).ok()?;
        self.writes += 1;
        Some(created)
    }

    /// Edits the current state of an object; `None` if it does not exist. Read and write are one step, so that
    /// concurrent client writes are not lost.
    fn change(&mut self, resource: &str, key: &str, edit: impl FnOnce(&mut Value)) -> Option<Value> {
        let manager = match resource {
            "deployments.apps" | "replicasets.apps" => CONTROLLERS,
            "configmaps" => "kubectl-edit",
            _ => KUBELET,
        };
        self.change_as(manager, resource, key, edit)
    }

    /// The same, as another field manager.
    fn change_as(
        &mut self,
        manager: &str,
        resource: &str,
        key: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let manager = if self.server.has_field_managers() {
            manager
        } else {
            ""
        };
        let mut changed = false;
        let updated = self.server.edit_as(manager, resource, key, |object| {
            let before = object.clone();
            edit(object);
            changed = *object != before;
        });
        let updated = updated.ok()?;
        self.writes += usize::from(changed);
        Some(updated)
    }

    fn delete(&mut self, resource: &str, key: &str) -> bool {
        let deleted = self.server.try_delete_key(resource, key).is_ok();
        self.writes += usize::from(deleted);
        deleted
    }

    /// Records an event for an object.
    fn record_event(&mut self, object: &Value, kind: &str, reason: &str, message: &str) {
        let number = self.number();
        let about = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = format!("{about}.{number:016x}");
        let now = self.server.timestamp();
        if let Some(event) = self.create(event(&name, object, kind, reason, message, &now)) {
            self.events.push_back(key_of(&event));
        }
        while self.events.len() > self.max_events
            && let Some(oldest) = self.events.pop_front()
        {
            self.delete("events", &oldest);
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn suffix(&mut self) -> String {
        let random = self.rng.u64(..);
        letters(random, 5)
    }
}

/// The key of the deployment whose replica set owns a pod.
fn deployment_of(pod: &Value) -> Option<String> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["kind"] == "ReplicaSet")?;
    let (deployment, _) = owner["name"].as_str()?.rsplit_once('-')?;
    let namespace = pod.pointer("/metadata/namespace")?.as_str()?;
    Some(format!("{namespace}/{deployment}"))
}

/// A random element.
fn any(rng: &mut fastrand::Rng, keys: &[String]) -> Option<String> {
    rng.choice(keys).cloned()
}

/// `namespace/name`, or `name` for cluster-scoped objects.
fn key_of(object: &Value) -> String {
    let text = |name: &str| {
        object
            .pointer(&format!("/metadata/{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match (text("namespace"), text("name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests;
