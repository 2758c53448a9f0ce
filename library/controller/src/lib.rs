//! Controllers built on informers: events are mapped to keys, keys are queued, and workers reconcile them with retries.
//!
//! ```
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
//! use kube_controller::{Action, Controller, Watch, predicates};
//! use kube_informers::{Informer, ObjectKey};
//! use kube_testserver::{TestServer, builders::deployment};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let server = TestServer::new();
//! server.create(deployment("shop", "cart"));
//! let deployments = Informer::<Deployment>::all(server.client()).start();
//! let maps = Informer::<ConfigMap>::all(server.client()).start();
//! # let (seen, mut keys) = tokio::sync::mpsc::unbounded_channel();
//!
//! let store = deployments.store();
//! let controller = Controller::new("rollout")
//!     // The object itself, unless only its status changed.
//!     .watches(Watch::object(&deployments).when(predicates::generation_changed))
//!     // The owner of the object.
//!     .watches(Watch::owner::<Deployment>(&maps))
//!     // Any other mapping.
//!     .watches(Watch::mapped(&maps, |map: &ConfigMap| {
//!         let name = map.metadata.labels.as_ref()?.get("rollout")?;
//!         Some(ObjectKey::new(map.metadata.namespace.as_deref(), name))
//!     }))
//!     .workers(4)
//!     .start(async move |key: ObjectKey| {
//!         match store.get(&key) {
//!             Some(deployment) => println!("{key} is at generation {:?}", deployment.metadata.generation),
//!             None => println!("{key} was deleted"),
//!         }
//!         # seen.send(key).ok();
//!         Ok::<_, kube::Error>(Action::Done)
//!     })?;
//!
//! # assert_eq!(keys.recv().await.unwrap().to_string(), "shop/cart");
//! controller.shutdown().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Guarantees
//!
//! - **A key is never reconciled concurrently.** A key that is added while in flight is reconciled once more afterwards.
//! - **Caches are synced first.** The first reconcile starts once every informer is synced and its initial objects have
//!   been mapped to keys.
//! - **Failures are retried.** An error or a panic is logged and the key is retried with exponential back-off;
//!   [`Controller::max_retries`] limits the retries. If a mapping or predicate panics, its event is lost and the informer
//!   reports it.
//! - **Both states of an update are mapped**, so an object that changes its owner triggers the old and the new owner.
//!   Deletions are mapped like any other event.
//! - **Changes come first.** The initial list and resyncs are queued at
//!   [`Priority::LOW`](kube_workqueue::Priority::LOW).
//! - **Graceful shutdown.** Queued keys are dropped (the next start lists them again); reconciles in flight are finished
//!   within the [grace period](Controller::grace).
//! - **No silent end.** If an informer stops, the controller ends with an error.
//! - **No silent start.** If a cache does not sync, it logs which informer it is waiting for and why, after 5 s and
//!   then every minute.
//! - **Requested delays are respected.** If an error carries a Retry-After, the key is retried after that time.
//!
//! # Beyond the loop
//!
//! [`OwnWrites`] ensures that a run sees what the previous one wrote. [`Recorder`] reports Events. [`LoopDetector`]
//! finds objects that are rewritten in a loop. [`retry_on_conflict`] repeats a read-modify-write cycle.
//! [`set_condition`] maintains status conditions. [`ControllerHandle::add_watch`] and [`Clusters`] add kinds and
//! clusters while the controller runs. The feature `metrics` adds a Prometheus exporter, the feature `signals` waits
//! for SIGINT and SIGTERM.
//!
//! # Composition
//!
//! A controller consists of handlers of [`kube_informers`] that add keys to a [`kube_workqueue::WorkQueue`], and the
//! workers of that queue. It uses only their public API, so you can build anything that is missing here yourself. The
//! queue is [accessible](Controller::queue) for keys from other sources and for [statistics](kube_workqueue::Stats).
//!
//! A key identifies an object, not an event. The reconciler reads the current state from a
//! [`Store`](kube_informers::Store) or [`Lister`](kube_informers::Lister) and acts on it. If the object of a key is not
//! in the cache, it was deleted.
//!
//! The exception is an informer whose [shard](kube_informers::Informer::set_shard) or set of
//! [namespaces](kube_informers::Informer::set_namespaces) changes: the object of a key that was queued before the
//! change may not be in the cache although it exists. Such a reconciler ignores objects that are not in the cache and
//! cleans up with finalizers; with shards, it first gets a permit from its shard group.
//!
//! # Namespaces, clusters and kinds that come and go
//!
//! - **Namespaces**: [`Informer::set_namespaces`](kube_informers::Informer::set_namespaces) on the informer of a watch. Objects
//!   of added namespaces are reconciled; those of removed ones are not, because they still exist.
//! - **Clusters**: [`Clusters`], a view of one informer per cluster, with keys that name the cluster; see the example
//!   `several_clusters`.
//! - **Kinds**: `add_watch` with an informer of the resource
//!   ([`Informer::dynamic`](kube_informers::Informer::dynamic)). While the definition is not installed, the
//!   informer retries at least every 8 s, and the rest of the controller works. Objects that were deleted with their
//!   definition are reconciled, at the latest when it is installed again.

mod action;
mod clusters;
mod conditions;
mod controller;
mod costs;
mod error;
mod handle;
mod life;
mod loops;
#[doc(alias = "CounterMetric")]
#[doc(alias = "GaugeMetric")]
#[doc(alias = "SettableGaugeMetric")]
#[doc(alias = "HistogramMetric")]
#[doc(alias = "SummaryMetric")]
#[doc(alias = "SetProvider")]
#[doc(alias = "LeaderMetric")]
#[cfg(feature = "metrics")]
pub mod metrics;
mod own_writes;
mod owner;
pub mod predicates;
mod recorder;
mod retry;
mod settings;
#[cfg(feature = "signals")]
mod signals;
mod watch;
mod work;

pub use action::{Action, ByClosure, ByTrait, IntoReconcile, Reconcile, ReconcileFn, reconcile_fn};
pub use clusters::{AddClusterError, ClusterEvent, ClusterKey, ClusterState, Clusters};
pub use conditions::{condition, find_condition, is_condition_true, remove_condition, set_condition};
pub use controller::Controller;
pub use costs::{KeyCost, RunCounts};
pub use error::{RunError, RunFailure};
pub use handle::{AddedWatch, ControllerHandle};
pub use loops::{FieldWrite, Finding, FindingKind, LoopDetector, LoopOptions};
pub use own_writes::{OwnWrites, TrackedApi, UnseenWriteError};
pub use owner::OwnerKeys;
pub use recorder::{Note, Recorder, RecorderStats};
pub use retry::retry_on_conflict;
#[cfg(feature = "signals")]
pub use signals::Signals;
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
