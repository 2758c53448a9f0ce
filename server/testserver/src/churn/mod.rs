//! Simulates a busy cluster: rollouts, pod restarts, flapping nodes, events, lease renewals.
//!
//! [`Churn`] fills a server and then changes it, one step at a time. Steps are drawn from a seeded random source: the
//! same seed on the same server produces the same changes. It also plays the controllers of a cluster for objects
//! created by clients, so that a deployment created with kubectl gets its pods.

mod clients;
mod deployments;
mod fill;
mod model;
pub(crate) mod objects;
mod pods;
mod population;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::fields::{event, letters};
use crate::server::TestServer;
use model::{Deployment, Due, Pod, Pods, Work};
use pods::Life;

pub use population::{Population, PopulationError};

/// The longest time between two steps, for low rates.
const LONGEST_TICK: Duration = Duration::from_millis(500);
const SHORTEST_TICK: Duration = Duration::from_millis(10);

/// Field managers of a real cluster.
const KUBELET: &str = "kubelet";
const SCHEDULER: &str = "kube-scheduler";
const CONTROLLERS: &str = "kube-controller-manager";

/// Changes a server's objects as a busy cluster would.
#[derive(Debug)]
pub struct Churn {
    server: TestServer,
    rng: fastrand::Rng,
    pods: Pods,
    deployments: BTreeMap<String, Deployment>,
    nodes: Vec<String>,
    /// The keys of config maps that may be edited.
    configs: Vec<String>,
    /// Follow-up work caused by earlier steps.
    due: Due,
    /// The keys of the recorded events, oldest first; the oldest are deleted beyond `max_events`.
    events: VecDeque<String>,
    max_events: usize,
    /// The server's version after our last write. A later version means that a client wrote.
    seen: u64,
    writes: usize,
    numbers: u64,
    /// The server has controllers for deployments and pods. Then the churn makes disturbances only.
    live: bool,
}

impl Churn {
    /// Adopts the objects on the server. Nothing changes before [`Churn::fill`] or [`Churn::step`].
    pub fn new(server: TestServer, seed: u64) -> Self {
        let mut churn = Self {
            live: server.runs_deployments(),
            server,
            rng: fastrand::Rng::with_seed(seed),
            pods: Pods::default(),
            deployments: BTreeMap::new(),
            nodes: Vec::new(),
            configs: Vec::new(),
            due: Due::default(),
            events: VecDeque::new(),
            max_events: 1000,
            seen: 0,
            writes: 0,
            numbers: 0,
        };
        churn.adopt_changes();
        churn.seen = churn.server.resource_version();
        churn
    }

    /// Makes one change: pending follow-up work, or a new disturbance. Returns the number of writes, which is zero only
    /// if there is nothing to change.
    pub fn step(&mut self) -> usize {
        self.writes = 0;
        let before = self.server.resource_version();
        if before != self.seen {
            self.adopt_changes();
        }
        // A step may have nothing to do, for example if a deployment already matches its spec.
        for _ in 0..16 {
            let follow_up = self.rng.u8(..100) < 60;
            match if follow_up { self.due.pop() } else { None } {
                Some(work) => self.work(work),
                None => self.disturb(),
            }
            if self.writes > 0 {
                break;
            }
        }
        // Only our own writes count: if a client wrote meanwhile, the version differs and the next step looks for
        // changes.
        self.seen = before + u64::try_from(self.writes).unwrap_or(0);
        self.writes
    }

    /// Makes `writes_per_second` changes until the future is dropped. All kinds are counted; in a cluster of pods and deployments
    /// about one write in four is of a pod.
    pub async fn run(mut self, writes_per_second: f64) {
        if writes_per_second.is_nan() || writes_per_second <= 0.0 {
            return std::future::pending().await;
        }
        let tick = Duration::try_from_secs_f64(1.0 / writes_per_second).unwrap_or(LONGEST_TICK);
        let tick = tick.clamp(SHORTEST_TICK, LONGEST_TICK);
        let mut interval = tokio::time::interval(tick);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut budget, mut last) = (0.0_f64, tokio::time::Instant::now());
        loop {
            interval.tick().await;
            let now = tokio::time::Instant::now();
            // After a suspend, at most one second of missed changes is made up for.
            let earned = writes_per_second * now.duration_since(last).as_secs_f64();
            budget = (budget + earned).min(writes_per_second.max(1.0));
            last = now;
            self.serve_clients().await;
            while budget >= 1.0 {
                budget -= self.step().max(1) as f64;
                // Let other tasks on this thread run between two steps.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Picks up changes made by clients: adopts new deployments and pods, and follows up deleted ones.
    fn adopt_changes(&mut self) {
        // Listing is slow with many objects. While the counts agree, changes are found by later steps.
        if self.server.count("deployments.apps") != self.deployments.len() {
            for object in self.server.objects("deployments.apps") {
                self.deployments.entry(key_of(&object)).or_default();
            }
        }
        if self.server.count("nodes") != self.nodes.len() {
            self.nodes = self.server.objects("nodes").iter().map(key_of).collect();
        }
        if self.live {
            self.deployments
                .retain(|key, _| self.server.object("deployments.apps", key).is_some());
            return;
        }
        if self.server.count("pods") != self.pods.len() {
            self.adopt_pods();
        }
        for key in self.deployments.keys().cloned().collect::<Vec<_>>() {
            self.push(Work::Deployment(key));
        }
    }

    fn adopt_pods(&mut self) {
        let pods = self.server.objects("pods");
        let present: BTreeMap<String, Value> = pods.into_iter().map(|pod| (key_of(&pod), pod)).collect();
        for gone in self.pods.keys_unless(|key| present.contains_key(key)) {
            self.forget_pod(&gone);
        }
        for (key, pod) in &present {
            if self.pods.get(key).is_none() {
                let set = self.replica_set_of(pod);
                let deployment = set
                    .as_ref()
                    .and_then(|set| set.rsplit_once('-'))
                    .map(|(name, _)| name.to_owned());
                self.adopt(key, pod, set, deployment);
            }
        }
    }

    /// The key of the replica set that owns a pod.
    fn replica_set_of(&self, pod: &Value) -> Option<String> {
        let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
        let owner = owners.iter().find(|owner| owner["kind"] == "ReplicaSet")?;
        let namespace = pod.pointer("/metadata/namespace")?.as_str()?;
        Some(format!("{namespace}/{}", owner.get("name")?.as_str()?))
    }

    fn adopt(&mut self, key: &str, pod: &Value, set: Option<String>, deployment: Option<String>) {
        let life = Life::of(pod);
        self.pods.insert(
            key,
            Pod {
                life,
                set,
                deployment,
            },
        );
        if matches!(life, Life::Pending | Life::Scheduled | Life::Crashed) {
            self.push(Work::Pod(key.to_owned()));
        }
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Pod(_) | Work::Deployment(_) if self.live => {}
            Work::Pod(key) => self.advance(&key),
            Work::Deployment(key) => self.reconcile(&key),
            Work::Node(name) => self.set_node_ready(&name, true),
        }
    }

    /// Moves a pod to the next phase of its life.
    fn advance(&mut self, key: &str) {
        let Some(pod) = self.pods.get(key).cloned() else {
            return;
        };
        let now = self.server.timestamp();
        match pod.life {
            Life::Pending => {
                let Some(node) = self.any_node() else {
                    return;
                };
                let host = objects::host_address(&node);
                let Some(object) = self.change_as(SCHEDULER, "pods", key, |object| {
                    pods::schedule(object, &node, &host, &now)
                }) else {
                    self.forget_pod(key);
                    return;
                };
                self.set_life(key, Life::Scheduled);
                self.push(Work::Pod(key.to_owned()));
                self.record_event(
                    &object,
                    "Normal",
                    "Scheduled",
                    &format!("Successfully assigned {key} to {node}"),
                );
            }
            Life::Scheduled | Life::Crashed => {
                let address = format!(
                    "10.{}.{}.{}",
                    self.rng.u8(64..128),
                    self.rng.u8(..),
                    self.rng.u8(1..255)
                );
                let Some(object) = self.change("pods", key, |object| pods::run(object, &address, &now))
                else {
                    self.forget_pod(key);
                    return;
                };
                self.set_life(key, Life::Running);
                self.record_event(&object, "Normal", "Started", "Started container");
                self.enqueue(pod.deployment);
            }
            Life::Running | Life::Ended => {}
        }
    }

    /// Makes a random disturbance.
    fn disturb(&mut self) {
        match self.rng.u8(..100) {
            0..30 => self.renew_lease(),
            30..50 => {
                if let Some(key) = self.any_pod() {
                    self.delete_pod(&key);
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
                if let Some(key) = self.any_settled_deployment() {
                    self.roll_out(&key);
                }
            }
            82..90 => {
                if let Some(key) = self.any_settled_deployment() {
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
        let Some(object) = self.change("pods", &key, |object| pods::crash(object, &now)) else {
            self.forget_pod(&key);
            return;
        };
        self.set_life(&key, Life::Crashed);
        self.record_event(
            &object,
            "Warning",
            "BackOff",
            "Back-off restarting failed container",
        );
        let deployment = self.pods.get(&key).and_then(|pod| pod.deployment.clone());
        self.enqueue(deployment);
        self.push(Work::Pod(key));
    }

    /// Deletes a pod; its owner will replace it.
    fn delete_pod(&mut self, key: &str) -> bool {
        if self.live {
            return self.delete("pods", key);
        }
        let Some(pod) = self.pods.remove(key) else {
            return false;
        };
        self.enqueue(pod.deployment);
        self.delete("pods", key)
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
            self.push(Work::Node(name.to_owned()));
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

    /// A random deployment, optionally only from those created by `fill`.
    fn any_deployment(&mut self, ours: bool) -> Option<String> {
        let fits = |known: &&Deployment| !ours || known.base.is_some();
        let count = self.deployments.values().filter(fits).count();
        let index = if count == 0 {
            return None;
        } else {
            self.rng.usize(..count)
        };
        let mut fitting = self.deployments.iter().filter(|(_, known)| fits(known));
        fitting.nth(index).map(|(key, _)| key.clone())
    }

    /// A running pod that has an owner to replace it.
    fn any_pod(&mut self) -> Option<String> {
        if self.live {
            return self.any_live_pod();
        }
        let deployment = self.any_deployment(false)?;
        let running = self
            .pods
            .of(&deployment)
            .filter(|(_, pod)| pod.life == Life::Running);
        let keys: Vec<String> = running.map(|(key, _)| key.to_owned()).collect();
        any(&mut self.rng, &keys)
    }

    /// A deployment created by `fill` with no pending work.
    fn any_settled_deployment(&mut self) -> Option<String> {
        let key = self.any_deployment(true)?;
        if self.live {
            return Some(key);
        }
        let busy = self.due.contains(&Work::Deployment(key.clone()))
            || self.pods.of(&key).any(|(_, pod)| pod.life != Life::Running);
        (!busy).then_some(key)
    }

    fn set_life(&mut self, key: &str, life: Life) {
        self.pods.set_life(key, life);
    }

    fn forget_pod(&mut self, key: &str) {
        if let Some(pod) = self.pods.remove(key) {
            self.enqueue(pod.deployment);
        }
    }

    /// Queues a deployment for reconciliation.
    fn enqueue(&mut self, deployment: Option<String>) {
        if let Some(key) = deployment {
            self.push(Work::Deployment(key));
        }
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
