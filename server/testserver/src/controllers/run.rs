//! The task of the controllers.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube_informers_core::tasks::Task;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cluster::{Cluster, Memory};
use super::queue::{Queue, Request};
use super::{
    Controller, PodRule, daemon_set, deployment, endpoint_slice, job, kubelet, replica_set, routes,
    scheduler, stateful_set,
};
use crate::server::state::ServerState;
use crate::storage::Event;
use crate::write;

/// The time between a write and the reaction of the controllers. Real ones need some milliseconds; it is short enough not to be
/// noticed with kubectl, and long enough that clients observe the state in between.
const REACTION: Duration = Duration::from_millis(20);

/// A server's controllers: their work, and their task while they have any.
#[derive(Default)]
pub(crate) struct Running {
    task: Mutex<Option<Task>>,
    /// The task waits for a timer or the next write.
    waits: AtomicBool,
    wake: Arc<Notify>,
    queue: Mutex<Queue>,
    memory: Mutex<Memory>,
    rules: Mutex<Vec<PodRule>>,
}

impl Running {
    /// Whether there is work to do now. A task of a runtime that was shut down has ended.
    pub(crate) fn is_busy(&self) -> bool {
        let runs = self.task.lock().as_ref().is_some_and(|task| !task.is_finished());
        (runs && !self.waits.load(Ordering::Acquire)) || self.queue.lock().len() > 0
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("is_busy", &self.is_busy())
            .finish_non_exhaustive()
    }
}

impl ServerState {
    /// Whether there is work to do now. The locks are taken one after the other: they have no common order.
    fn has_work(&self) -> bool {
        let deferred = self.store.read().count_deferred();
        deferred > 0 || self.controllers.queue.lock().len() > 0
    }

    /// Adds a rule for pods, which precedes the earlier ones. Pods that it matches are looked at again.
    pub(crate) fn add_pod_rule(&self, rule: PodRule) {
        if self.config.controllers.has(Controller::Kubelet) {
            let store = self.store.read();
            let pods: Vec<String> = store
                .collection("pods")
                .into_iter()
                .flat_map(|pods| pods.objects().map(|pod| pod.key.to_string()))
                .collect();
            drop(store);
            let mut queue = self.controllers.queue.lock();
            for key in pods {
                queue.push(Request::new(Controller::Kubelet, key));
            }
        }
        self.controllers.rules.lock().push(rule);
        self.run_controllers();
    }

    /// Starts the controllers if they have something to do and do not run yet.
    pub(crate) fn run_controllers(&self) {
        if self.config.controllers.is_empty() {
            return;
        }
        let running = &self.controllers;
        // The task ends under the same lock, so no event is left between its last look and its end.
        let mut task = running.task.lock();
        if !self.has_work() {
            let lost = task.as_ref().is_none_or(Task::is_finished);
            if !lost || running.queue.lock().next_timer().is_none() {
                return;
            }
        }
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            running.wake.notify_one();
        } else if Handle::try_current().is_ok() {
            running.waits.store(false, Ordering::Release);
            *task = Some(Task::spawn(
                "controllers",
                run(self.this.clone(), running.wake.clone()),
            ));
        }
    }
}

async fn run(state: Weak<ServerState>, wake: Arc<Notify>) {
    loop {
        tokio::time::sleep(REACTION).await;
        if !work(&state).await {
            return;
        }
        let timer = match finish(&state) {
            Next::Work => continue,
            Next::End => return,
            Next::Timer(timer) => timer,
        };
        // Both are cancel-safe.
        tokio::select! {
            () = tokio::time::sleep_until(timer) => {}
            () = wake.notified() => {}
        }
        match state.upgrade() {
            Some(state) => state.controllers.waits.store(false, Ordering::Release),
            None => return,
        }
    }
}

/// Performs one batch; false if the server is gone. What the batch causes waits for the next one.
async fn work(state: &Weak<ServerState>) -> bool {
    let (events, requests) = {
        let Some(state) = state.upgrade() else {
            return false;
        };
        let events = state.store.read().count_deferred();
        let mut queue = state.controllers.queue.lock();
        queue.expire(Instant::now());
        (events, queue.len())
    };
    for _ in 0..events {
        let Some(state) = state.upgrade() else {
            return false;
        };
        follow(&state);
    }
    for _ in 0..requests {
        {
            let Some(state) = state.upgrade() else {
                return false;
            };
            let next = state.controllers.queue.lock().pop();
            if let Some(request) = next {
                reconcile(&state, &request);
            }
        }
        // Requests of clients on the same thread need not wait for the whole batch.
        tokio::task::yield_now().await;
    }
    true
}

/// What the task does after a batch.
enum Next {
    Work,
    Timer(Instant),
    End,
}

fn finish(state: &Weak<ServerState>) -> Next {
    let Some(state) = state.upgrade() else {
        return Next::End;
    };
    let running = &state.controllers;
    let mut task = running.task.lock();
    if state.has_work() {
        return Next::Work;
    }
    let timer = running.queue.lock().next_timer();
    let next = match timer {
        Some(timer) => {
            running.waits.store(true, Ordering::Release);
            Next::Timer(timer)
        }
        None => {
            if let Some(task) = task.take() {
                task.detach();
            }
            Next::End
        }
    };
    drop(task);
    state.hub.changed().notify_waiters();
    next
}

/// Performs the consequences of one event, as one write.
fn follow(state: &Arc<ServerState>) {
    state.write(|store| {
        let Some(event) = store.next_deferred() else {
            return;
        };
        if let Event::Changed { collection, change } = &event {
            let mut queue = state.controllers.queue.lock();
            let mut memory = state.controllers.memory.lock();
            routes::follow(state, store, &mut memory, collection, change, |request| {
                queue.push(request);
            });
        } else {
            write::follow_deferred(state, store, &event);
        }
    });
}

/// Moves one object closer to its spec, as one write.
fn reconcile(state: &Arc<ServerState>, request: &Request) {
    let rules = state.controllers.rules.lock().clone();
    let (later, now) = state.write(|store| {
        let mut memory = state.controllers.memory.lock();
        let mut cluster = Cluster::new(state, store, &mut memory, &rules, request.controller);
        let key = &request.key;
        match request.controller {
            Controller::ReplicaSets => replica_set::reconcile(&mut cluster, key),
            Controller::Deployments => deployment::reconcile(&mut cluster, key),
            Controller::StatefulSets => stateful_set::reconcile(&mut cluster, key),
            Controller::DaemonSets => daemon_set::reconcile(&mut cluster, key),
            Controller::Jobs => job::reconcile(&mut cluster, key),
            Controller::EndpointSlices => endpoint_slice::reconcile(&mut cluster, key),
            Controller::Scheduler => scheduler::reconcile(&mut cluster, key),
            Controller::Kubelet => kubelet::reconcile(&mut cluster, key),
            Controller::Events => cluster.delete("events", key),
            // They act on events of the store.
            Controller::Garbage | Controller::Namespaces => {}
        }
        (cluster.into_later(), Instant::now())
    });
    let mut queue = state.controllers.queue.lock();
    for (after, request) in later {
        // A deadline beyond tokio's clock is never reached.
        if let Some(at) = now.checked_add(after) {
            queue.push_at(at, request);
        }
    }
}
