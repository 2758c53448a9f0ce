//! The task of the controllers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::{
    daemon_set, deployment, endpoint_slice, job, kubelet, replica_set, routes, scheduler, stateful_set,
};
use crate::controllers::Controller;
use crate::controllers::queue::Request;
use crate::state::ServerState;
use crate::storage::Event;
use crate::write;

/// The time between a write and the reaction of the controllers. Real ones need some milliseconds; it is short enough not to be
/// noticed with kubectl, and long enough that clients observe the state in between.
const REACTION: Duration = Duration::from_millis(20);

/// Runs until there is nothing left to do, or the server is gone.
pub(crate) async fn run(state: Weak<ServerState>, wake: Arc<Notify>) {
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
