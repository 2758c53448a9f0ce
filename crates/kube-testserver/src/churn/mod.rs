//! A living cluster: deployments roll, pods come and go, nodes flap, events appear, leases are renewed.
//!
//! [`Churn`] fills a server and then changes it, one step at a time. Steps are drawn from a seed: the same seed on
//! the same server gives the same changes. It also does what the controllers of a cluster would do for objects that
//! others create, so that a deployment made with kubectl gets its pods.

mod deployments;
mod fill;
mod model;
mod objects;
mod pods;
mod population;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::server::TestServer;
use model::{Deployment, Due, Pod, Pods, Work};
use pods::Life;

pub use population::{Population, PopulationError};

/// How often a cluster whose rate is low is looked at.
const LONGEST_TICK: Duration = Duration::from_millis(500);
const SHORTEST_TICK: Duration = Duration::from_millis(10);

/// Changes a server's objects as the life of a cluster would.
#[derive(Debug)]
pub struct Churn {
    server: TestServer,
    rng: fastrand::Rng,
    pods: Pods,
    deployments: BTreeMap<String, Deployment>,
    nodes: Vec<String>,
    /// The keys of config maps that may be edited.
    configs: Vec<String>,
    /// What must happen next because of what happened before.
    due: Due,
    /// The events so far, oldest first; the oldest go when there are too many.
    events: VecDeque<String>,
    max_events: usize,
    /// The server's version after our last write: a later one means that somebody else wrote.
    seen: u64,
    writes: usize,
    numbers: u64,
}

impl Churn {
    /// Takes a server as it is. Nothing changes before [`Churn::fill`] or [`Churn::step`].
    pub fn new(server: TestServer, seed: u64) -> Self {
        let mut churn = Self {
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
        churn.notice();
        churn.seen = churn.server.resource_version();
        churn
    }

    /// Makes one thing happen: the next of what must happen, or something new. Gives the number of writes, which is
    /// zero only if there is nothing that could change.
    pub fn step(&mut self) -> usize {
        self.writes = 0;
        let before = self.server.resource_version();
        if before != self.seen {
            self.notice();
        }
        // A choice may come to nothing, such as a deployment that is as it should be.
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
        // Only our own writes are known: a version beyond them belongs to somebody who wrote meanwhile, and the next
        // step will see that it is not this one.
        self.seen = before + u64::try_from(self.writes).unwrap_or(0);
        self.writes
    }

    /// Keeps making `writes_per_second` changes until the future is dropped.
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
            // A machine that slept does not have to make up for more than a second.
            let earned = writes_per_second * now.duration_since(last).as_secs_f64();
            budget = (budget + earned).min(writes_per_second.max(1.0));
            last = now;
            while budget >= 1.0 {
                budget -= self.step().max(1) as f64;
                // Others on this thread get their turn between two steps.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Looks at what others did: new deployments and pods are taken over, lost ones followed up.
    fn notice(&mut self) {
        // Listing costs time with many objects; as long as the numbers agree, the rest is found out one by one.
        if self.server.count("deployments.apps") != self.deployments.len() {
            for object in self.server.objects("deployments.apps") {
                self.deployments.entry(key_of(&object)).or_default();
            }
        }
        if self.server.count("nodes") != self.nodes.len() {
            self.nodes = self.server.objects("nodes").iter().map(key_of).collect();
        }
        if self.server.count("pods") != self.pods.len() {
            self.notice_pods();
        }
        for key in self.deployments.keys() {
            self.due.push(Work::Deployment(key.clone()));
        }
    }

    fn notice_pods(&mut self) {
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

    /// The key of the replica set that a pod belongs to.
    fn replica_set_of(&self, pod: &Value) -> Option<String> {
        let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
        let owner = owners.iter().find(|owner| owner["kind"] == "ReplicaSet")?;
        let namespace = pod.pointer("/metadata/namespace")?.as_str()?;
        Some(format!("{namespace}/{}", owner.get("name")?.as_str()?))
    }

    fn adopt(&mut self, key: &str, pod: &Value, set: Option<String>, deployment: Option<String>) {
        let life = Life::of(pod);
        if matches!(life, Life::Pending | Life::Scheduled | Life::Crashed) {
            self.due.push(Work::Pod(key.to_owned()));
        }
        self.pods.insert(
            key,
            Pod {
                life,
                set,
                deployment,
            },
        );
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Pod(key) => self.advance(&key),
            Work::Deployment(key) => self.reconcile(&key),
            Work::Node(name) => self.turn_node(&name, true),
        }
    }

    /// Takes a pod one step further in its life.
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
                let Some(object) =
                    self.change("pods", key, |object| pods::schedule(object, &node, &host, &now))
                else {
                    self.forget_pod(key);
                    return;
                };
                self.set_life(key, Life::Scheduled);
                self.due.push(Work::Pod(key.to_owned()));
                self.tell(
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
                self.tell(&object, "Normal", "Started", "Started container");
                self.look_at(pod.deployment);
            }
            Life::Running | Life::Ended => {}
        }
    }

    /// Something happens that nobody asked for.
    fn disturb(&mut self) {
        match self.rng.u8(..100) {
            0..30 => self.renew_lease(),
            30..50 => {
                if let Some(key) = self.any_pod() {
                    self.end_pod(&key);
                }
            }
            50..62 => self.crash_pod(),
            62..74 => {
                if let Some(key) = self.any_pod()
                    && let Some(pod) = self.server.object("pods", &key)
                {
                    self.tell(
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
                    self.turn_node(&name, false);
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
        self.tell(
            &object,
            "Warning",
            "BackOff",
            "Back-off restarting failed container",
        );
        let deployment = self.pods.get(&key).and_then(|pod| pod.deployment.clone());
        self.look_at(deployment);
        self.due.push(Work::Pod(key));
    }

    /// Deletes a pod; whoever it belongs to will want another one.
    fn end_pod(&mut self, key: &str) -> bool {
        let Some(pod) = self.pods.remove(key) else {
            return false;
        };
        self.look_at(pod.deployment);
        self.delete("pods", key)
    }

    fn renew_lease(&mut self) {
        let Some(node) = self.any_node() else {
            return;
        };
        let now = self.server.timestamp();
        // Within one second a renewed lease would be the same object: a part of the second tells them apart.
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

    /// Lets a node go or come back.
    fn turn_node(&mut self, name: &str, ready: bool) {
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
        self.tell(
            &object,
            if ready { "Normal" } else { "Warning" },
            reason,
            &format!("Node {name} status is now: {reason}"),
        );
        if !ready {
            self.due.push(Work::Node(name.to_owned()));
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

    /// Any deployment, or only of those that we made.
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

    /// A running pod that somebody will replace or start again. Pods that belong to nobody are left alone.
    fn any_pod(&mut self) -> Option<String> {
        let deployment = self.any_deployment(false)?;
        let running = self
            .pods
            .of(&deployment)
            .filter(|(_, pod)| pod.life == Life::Running);
        let keys: Vec<String> = running.map(|(key, _)| key.to_owned()).collect();
        any(&mut self.rng, &keys)
    }

    /// A deployment of ours that is not busy with anything.
    fn any_settled_deployment(&mut self) -> Option<String> {
        let key = self.any_deployment(true)?;
        let busy = self.due.contains(&Work::Deployment(key.clone()))
            || self.pods.of(&key).any(|(_, pod)| pod.life != Life::Running);
        (!busy).then_some(key)
    }

    fn set_life(&mut self, key: &str, life: Life) {
        self.pods.set_life(key, life);
    }

    fn forget_pod(&mut self, key: &str) {
        if let Some(pod) = self.pods.remove(key) {
            self.look_at(pod.deployment);
        }
    }

    /// A deployment will be looked at, if there is one.
    fn look_at(&mut self, deployment: Option<String>) {
        if let Some(key) = deployment {
            self.due.push(Work::Deployment(key));
        }
    }

    /// Creates an object; `None` if the server refused it, as it does when somebody else was quicker.
    fn create(&mut self, object: Value) -> Option<Value> {
        let created = self.server.try_create(object).ok()?;
        self.writes += 1;
        Some(created)
    }

    /// Changes an object as it is now; `None` if it is gone. Read and written in one step: what a client wrote in between
    /// would be lost otherwise.
    fn change(&mut self, resource: &str, key: &str, edit: impl FnOnce(&mut Value)) -> Option<Value> {
        let mut changed = false;
        let updated = self.server.edit(resource, key, |object| {
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

    /// Records an event about an object.
    fn tell(&mut self, object: &Value, kind: &str, reason: &str, message: &str) {
        let number = self.number();
        let about = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = format!("{about}.{number:016x}");
        let now = self.server.timestamp();
        if let Some(event) = self.create(objects::event(&name, object, kind, reason, message, &now)) {
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

/// One of several.
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

/// A number as letters and digits, without vowels, so that no word comes out.
fn letters(mut number: u64, length: usize) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let base = u64::try_from(ALPHABET.len()).unwrap_or(1);
    let mut text = String::new();
    for _ in 0..length {
        let index = usize::try_from(number % base).unwrap_or(0);
        text.extend(ALPHABET.get(index).map(|byte| char::from(*byte)));
        number /= base;
    }
    text
}

#[cfg(test)]
mod tests;
