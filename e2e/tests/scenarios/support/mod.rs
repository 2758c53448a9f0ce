//! What the scenarios share.

mod cluster;
mod observed;
mod raw;
mod scenario;
mod story;
mod waiting;

pub use cluster::{config_map, finish_deletion, labelled, merge, namespace, unique};
pub use observed::Observed;
pub use raw::{frames, get, get_as, send};
pub use scenario::Outcome;
pub(crate) use scenario::scenarios;
pub use story::{HandlerCall, Story};
pub use waiting::{all, wait_for};
