//! Shared helpers of the scenarios.

mod cluster;
mod event_log;
mod observed;
mod raw;
mod scenario;
mod waiting;

pub use cluster::{config_map, finish_deletion, labelled, merge, namespace, unique};
pub use event_log::{EventLog, HandlerCall};
pub use observed::Observed;
pub use raw::{frames, get, get_as, get_with, send};
pub use scenario::Outcome;
pub(crate) use scenario::scenarios;
pub use waiting::{all, wait_for};
