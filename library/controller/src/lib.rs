#![doc = include_str!("docs/crate.md")]

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
