//! The controllers that a server runs, and their work: settings, rules, queues. `reconcile` performs it.

pub(crate) mod queue;
pub(crate) mod rules;
mod running;

use crate::storage::Event;

pub use rules::PodRule;
pub(crate) use running::{Memory, PodState, Running};

/// The collections whose objects are reconciled, and their controllers.
pub(crate) const RECONCILED: &[(&str, Controller)] = &[
    ("deployments.apps", Controller::Deployments),
    ("replicasets.apps", Controller::ReplicaSets),
    ("statefulsets.apps", Controller::StatefulSets),
    ("daemonsets.apps", Controller::DaemonSets),
    ("jobs.batch", Controller::Jobs),
    ("services", Controller::EndpointSlices),
    ("pods", Controller::Scheduler),
    ("pods", Controller::Kubelet),
];

/// Collections whose changes concern other objects only.
const OBSERVED: &[&str] = &["nodes", "endpointslices.discovery.k8s.io"];

/// Whether changes of a collection concern any controller.
fn is_followed(collection: &str) -> bool {
    RECONCILED.iter().any(|(known, _)| *known == collection) || OBSERVED.contains(&collection)
}

/// One controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Controller {
    Garbage,
    Namespaces,
    ReplicaSets,
    Deployments,
    StatefulSets,
    DaemonSets,
    Jobs,
    EndpointSlices,
    Scheduler,
    Kubelet,
    /// Removes recorded events after an hour. Part of every controller that records them.
    Events,
}

/// The controllers that a server runs; see [`TestServerBuilder::controllers`](crate::TestServerBuilder::controllers).
///
/// They run on the tokio runtime of the requests and writes that they react to. Without a runtime their work waits for the next
/// request inside one. On a paused clock they take no real time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kube_testserver::builders::{deployment, node};
/// use kube_testserver::{Controllers, TestServer};
///
/// let server = TestServer::builder().controllers(Controllers::all()).build();
/// server.create(node("n1"));
/// server.create(deployment("shop", "web"));
///
/// server.wait_for("the deployment is available", |server| {
///     let web = server.get::<Deployment>("shop", "web").unwrap();
///     web.status.is_some_and(|status| status.available_replicas == Some(1))
/// }).await;
/// assert_eq!(server.count("pods"), 1);
///
/// server.delete::<Deployment>("shop", "web");
/// assert_eq!(server.count("pods"), 1, "it is collected later, as in a cluster");
/// server.wait_for("collected", |server| server.count("pods") == 0).await;
/// # }
/// ```
///
/// # Differences from a real cluster
///
/// The controllers follow the rules of kube-controller-manager, kube-scheduler and the kubelet as far as clients can observe them
/// with one healthy control plane. Their end states are compared with those of kube-controller-manager. They leave out:
///
/// - Controllers not listed here: CronJob, HorizontalPodAutoscaler, PodDisruptionBudget status, resource quotas, service accounts
///   and their tokens, node lifecycle (taints by condition, eviction), volumes, Endpoints.
/// - ReplicaSet: back-off after failed creates; the condition `ReplicaFailure`; spreading over nodes when it chooses pods to delete.
/// - Deployment: the hash of a template has the form of the real one, not its value.
/// - StatefulSet: `maxUnavailable`, retention policies of claims.
/// - DaemonSet: `maxSurge`.
/// - Job: pod failure policies, success policies, `backoffLimitPerIndex`.
/// - EndpointSlice: IPv6, topology hints, the time of the change that caused an update.
/// - Scheduler: resources, affinity to pods, spread constraints, priorities and preemption, `schedulerName`. Nodes that fit take turns.
/// - Kubelet: init containers, probes and images are not run; [`PodRule`] decides what happens to a pod.
/// - Their writes appear in `managedFields` only with [`TestServerBuilder::field_managers`](crate::TestServerBuilder::field_managers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "pass it to `TestServerBuilder::controllers`"]
pub struct Controllers {
    /// One bit for each [`Controller`].
    bits: u16,
}

impl Controllers {
    /// No controllers; add those that the test needs.
    pub fn none() -> Controllers {
        Controllers::default()
    }

    /// Every controller that the server has. Later releases may have more.
    pub fn all() -> Controllers {
        Controllers::none()
            .garbage_collection()
            .namespace_deletion()
            .workloads()
            .endpoint_slices()
            .scheduler()
            .kubelet()
    }

    /// Deletes objects whose owners are gone: background, foreground and orphan deletion.
    ///
    /// An owner is gone if there is no object of its kind, name and uid in the namespace of the dependent, or among the
    /// cluster-scoped objects. References to kinds that the server does not serve keep their dependents, as they do in a cluster.
    pub fn garbage_collection(self) -> Controllers {
        self.with(Controller::Garbage)
    }

    /// Empties namespaces that are being deleted, and removes them when they are empty.
    pub fn namespace_deletion(self) -> Controllers {
        self.with(Controller::Namespaces)
    }

    /// All workloads: [deployments](Self::deployments), [replica sets](Self::replica_sets),
    /// [stateful sets](Self::stateful_sets), [daemon sets](Self::daemon_sets) and [jobs](Self::jobs).
    pub fn workloads(self) -> Controllers {
        self.replica_sets()
            .deployments()
            .stateful_sets()
            .daemon_sets()
            .jobs()
    }

    /// Creates and deletes the pods of replica sets. Adopts and releases pods by their labels.
    pub fn replica_sets(self) -> Controllers {
        self.with(Controller::ReplicaSets)
    }

    /// Rolls deployments out: one replica set for each pod template, revisions, rolling updates with `maxSurge` and
    /// `maxUnavailable`, `Recreate`, progress deadlines, pauses, proportional scaling. Needs [`replica_sets`](Self::replica_sets)
    /// to get pods.
    pub fn deployments(self) -> Controllers {
        self.with(Controller::Deployments)
    }

    /// Creates, updates and deletes the pods of stateful sets in order, with their claims and revisions.
    pub fn stateful_sets(self) -> Controllers {
        self.with(Controller::StatefulSets)
    }

    /// Runs one pod of each daemon set on every node that it fits.
    pub fn daemon_sets(self) -> Controllers {
        self.with(Controller::DaemonSets)
    }

    /// Runs the pods of jobs to completion: parallelism, completions, indexes, back-off limits, deadlines, suspension, and
    /// removal after `ttlSecondsAfterFinished`.
    pub fn jobs(self) -> Controllers {
        self.with(Controller::Jobs)
    }

    /// Lists the pods that services select in EndpointSlices.
    pub fn endpoint_slices(self) -> Controllers {
        self.with(Controller::EndpointSlices)
    }

    /// Assigns pods to nodes: unschedulable nodes, taints, node selectors and required node affinity are respected.
    pub fn scheduler(self) -> Controllers {
        self.with(Controller::Scheduler)
    }

    /// Runs the pods of all nodes as their [rules](crate::TestServer::pod_rule) say: without a rule they are ready at once, and
    /// those that are not restarted succeed after a second. Pods are deleted gracefully, and removed when they have ended.
    pub fn kubelet(self) -> Controllers {
        self.with(Controller::Kubelet)
    }

    fn with(mut self, controller: Controller) -> Controllers {
        self.bits |= Controllers::bit(controller);
        self
    }

    fn bit(controller: Controller) -> u16 {
        1 << (controller as u16)
    }

    pub(crate) fn has(self, controller: Controller) -> bool {
        self.bits & Controllers::bit(controller) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Whether a controller acts on more than deletions and owner references.
    pub(crate) fn need_changes(self) -> bool {
        let deletions = Controllers::bit(Controller::Garbage) | Controllers::bit(Controller::Namespaces);
        self.bits & !deletions != 0
    }

    /// Whether pods are run and, in the end, removed.
    pub(crate) fn runs_pods(self) -> bool {
        self.has(Controller::Kubelet)
    }

    /// Whether an event concerns one of these controllers.
    pub(crate) fn act_on(self, event: &Event) -> bool {
        match event {
            Event::Changed { collection, .. } => is_followed(collection),
            Event::Removed { .. } | Event::Marked { .. } | Event::Owned { .. } => {
                self.has(Controller::Garbage) || self.has(Controller::Namespaces)
            }
            // The server itself acts on it.
            Event::Written { .. } => false,
        }
    }
}
