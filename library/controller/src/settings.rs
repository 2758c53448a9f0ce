//! What a controller was configured with, for its life and its workers.

use std::sync::Arc;
use std::time::Duration;

use kube_workqueue::Key;
use parking_lot::Mutex;

use crate::costs::Costs;
use crate::error::RunFailure;
use crate::own_writes::OwnWrites;

/// What is called or shared around the runs.
pub(crate) struct Hooks<T: Key> {
    pub(crate) own_writes: Option<OwnWrites<T>>,
    pub(crate) on_failure: Option<OnFailure<T>>,
    pub(crate) costs: Arc<Mutex<Costs<T>>>,
}

/// Called with the key and the failure of a run.
pub(crate) type OnFailure<T> = Box<dyn Fn(&T, &RunFailure<'_>) + Send + Sync>;

/// Settings that do not depend on the type of the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) workers: usize,
    pub(crate) max_retries: Option<u32>,
    pub(crate) sync_within: Option<Duration>,
    pub(crate) grace: Option<Duration>,
}
