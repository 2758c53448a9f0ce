//! Perturbation tests for Kubernetes controllers: does yours survive a crash between two writes, a stale view after a restart, a
//! state that it never observed?
//!
//! A test names a scenario and starts the controller. The scenario runs once undisturbed, as the reference; then once per *plan*,
//! which perturbs one moment of it. Whatever happens in between, the cluster must end in the same state.
//!
//! It works for everything that uses a [`kube::Client`]: kube-runtime, `kube-controller`, loops written by hand. The cluster is
//! an API server inside the test process (`kube-testserver`) on a virtual clock, with garbage collection and namespace deletion.
//! Hundreds of plans run in a minute.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, ListParams, Patch, PatchParams};
//! use kube_perturb::{Scenario, perturb};
//! use serde_json::json;
//!
//! // Labels every ConfigMap, looking once a minute.
//! async fn run(client: kube::Client) -> kube::Result<()> {
//!     let api = Api::<ConfigMap>::namespaced(client, "shop");
//!     loop {
//!         for map in api.list(&ListParams::default()).await? {
//!             let patch = json!({"metadata": {"labels": {"seen": "true"}}});
//!             let name = map.metadata.name.unwrap_or_default();
//!             api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
//!         }
//!         tokio::time::sleep(std::time::Duration::from_secs(30)).await;
//!     }
//! }
//!
//! let scenario = Scenario::new()
//!     .apply("create", "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}}")
//!     .apply("create another", "{apiVersion: v1, kind: ConfigMap, metadata: {name: db, namespace: shop}}");
//! perturb(scenario, |cluster| async move { run(cluster.client()).await })
//!     .crash_between_writes()
//!     .stale_views()
//!     .skipped_states()
//!     .check(|end| assert_eq!(end.server().count("configmaps"), 2));
//! ```
//!
//! # What is checked
//!
//! At the end of each run, in addition to your own check:
//!
//! - the objects are those of the reference run, apart from uids, versions, times and generated names;
//! - the controller has stopped writing, and no request keeps failing;
//! - no object is left without its owners, none waits for a finalizer;
//! - nothing panicked, blocked or exited.
//!
//! A [`Finding`] tells which write and which view, what the controller did then, what differed, and how to replay exactly this
//! plan. Accept one with [`Perturbation::known`].
//!
//! # What a run is
//!
//! Each life of the controller has its own single-threaded tokio runtime. A crash destroys it with everything that was spawned on
//! it. State outside of it, such as a `static`, survives, so it must not hold state of the controller. Sockets do not work on
//! the virtual clock. Runs are deterministic as far as the controller is; a reference run that is not is reported.

mod cluster;
mod end_state;
mod finding;
mod gate;
mod oracle;
mod panics;
mod perturbation;
mod plan;
mod record;
mod run;
mod scenario;

pub use cluster::{Cluster, End};
pub use finding::{Finding, FindingKind, KnownFinding, Report};
pub use kube_testserver;
pub use perturbation::{Perturbation, Verdict, perturb};
pub use scenario::Scenario;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
