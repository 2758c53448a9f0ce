//! Controllers of a cluster, run by the server: they act some time after the write that they react to, on tokio's clock.
//!
//! The store queues the events that concern them. One task performs the steps, a batch at a time, and ends when the queue is
//! empty: a server at rest has no task. The rules themselves are in `write/garbage.rs`, which performs them at once on servers
//! without controllers.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube_tasks::Task;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::server::state::ServerState;
use crate::write;

/// The time between a write and the reaction of the controllers. Real ones need some milliseconds; it is short enough not to be
/// noticed with kubectl, and long enough that clients observe the state in between.
const REACTION: Duration = Duration::from_millis(20);

/// The controllers that a server runs; see [`TestServerBuilder::controllers`](crate::TestServerBuilder::controllers).
///
/// They run on the tokio runtime of the requests and writes that they react to. Without a runtime their work waits for the next
/// request inside one. On a paused clock they take no real time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kube_testserver::builders::{Build, deployment, replica_set};
/// use kube_testserver::{Controllers, TestServer};
///
/// let server = TestServer::builder().controllers(Controllers::all()).build();
/// let web = server.create(deployment("shop", "web"));
/// server.create(replica_set("shop", "web-1").owner(&web));
///
/// server.delete::<Deployment>("shop", "web");
/// assert_eq!(server.count("replicasets.apps"), 1, "it is collected later, as in a cluster");
/// server.wait_for("collected", |server| server.count("replicasets.apps") == 0).await;
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "pass it to `TestServerBuilder::controllers`"]
pub struct Controllers {
    garbage_collection: bool,
    namespace_deletion: bool,
}

impl Controllers {
    /// No controllers; add those that the test needs.
    pub fn none() -> Controllers {
        Controllers::default()
    }

    /// Every controller that the server has. Later releases may have more.
    pub fn all() -> Controllers {
        Controllers::none().garbage_collection().namespace_deletion()
    }

    /// Deletes objects whose owners are gone: background, foreground and orphan deletion.
    ///
    /// An owner is gone if there is no object of its kind, name and uid in the namespace of the dependent, or among the
    /// cluster-scoped objects. References to kinds that the server does not serve keep their dependents, as they do in a cluster.
    pub fn garbage_collection(mut self) -> Controllers {
        self.garbage_collection = true;
        self
    }

    /// Empties namespaces that are being deleted, and removes them when they are empty.
    pub fn namespace_deletion(mut self) -> Controllers {
        self.namespace_deletion = true;
        self
    }

    pub(crate) fn has_garbage_collection(self) -> bool {
        self.garbage_collection
    }

    pub(crate) fn has_namespace_deletion(self) -> bool {
        self.namespace_deletion
    }
}

/// The task of a server's controllers, while they have something to do.
#[derive(Default)]
pub(crate) struct Running(Mutex<Option<Task>>);

impl Running {
    /// Whether the task runs. A task of a runtime that was shut down has ended.
    pub(crate) fn is_running(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("is_running", &self.is_running())
            .finish()
    }
}

impl ServerState {
    /// Starts the controllers if they have something to do and do not run yet.
    pub(crate) fn run_controllers(&self) {
        if !self.config.has_controllers() {
            return;
        }
        // The task ends under the same lock, so no event is left between its last look and its end.
        let mut task = self.controllers.0.lock();
        let runs = task.as_ref().is_some_and(|task| !task.is_finished());
        if runs || self.store.read().count_deferred() == 0 || Handle::try_current().is_err() {
            return;
        }
        *task = Some(Task::spawn("controllers", run(self.this.clone())));
    }
}

async fn run(state: Weak<ServerState>) {
    loop {
        tokio::time::sleep(REACTION).await;
        let Some(state) = state.upgrade() else { return };
        // Events that the batch causes wait for the next one.
        let batch = state.store.read().count_deferred();
        for _ in 0..batch {
            step(&state);
        }
        let mut task = state.controllers.0.lock();
        if state.store.read().count_deferred() == 0 {
            if let Some(task) = task.take() {
                task.detach();
            }
            drop(task);
            state.hub.changed().notify_waiters();
            return;
        }
    }
}

/// Performs the consequences of one event, as one write.
fn step(state: &Arc<ServerState>) {
    state.write(|store| {
        if let Some(event) = store.next_deferred() {
            write::follow_deferred(state, store, &event);
        }
    });
}
