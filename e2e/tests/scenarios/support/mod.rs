//! What the scenarios share.

mod cluster;
mod observed;
mod raw;
mod scenario;
mod story;
mod waiting;

pub use cluster::{Namespace, config_map, labelled, merge, namespace, unique};
pub use observed::Observed;
pub use raw::{Answer, frames, get, get_as};
pub use scenario::Outcome;
pub(crate) use scenario::scenario;
pub use story::{Story, Told};
pub use waiting::{all, until};
