//! The work of a server's controllers.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_informers_core::tasks::Task;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::PodRule;
use super::queue::Queue;

/// A server's controllers: their work, and their task while they have any.
#[derive(Default)]
pub(crate) struct Running {
    pub(crate) task: Mutex<Option<Task>>,
    /// The task waits for a timer or the next write.
    pub(crate) waits: AtomicBool,
    pub(crate) wake: Arc<Notify>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) memory: Mutex<Memory>,
    pub(crate) rules: Mutex<Vec<PodRule>>,
}

impl Running {
    /// Whether there is work to do now. A task of a runtime that was shut down has ended.
    pub(crate) fn is_busy(&self) -> bool {
        let runs = self.task.lock().as_ref().is_some_and(|task| !task.is_finished());
        (runs && !self.waits.load(Ordering::Acquire)) || self.queue.lock().len() > 0
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("is_busy", &self.is_busy())
            .finish_non_exhaustive()
    }
}

/// What the scheduler and the kubelet remember besides the objects. A server that was restored starts without it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The keys of pods that fit no node.
    pub(crate) unschedulable: BTreeSet<String>,
    /// The number of pods scheduled so far: nodes take turns.
    pub(crate) turns: usize,
    /// The time at which the current state of a pod began, by uid.
    pub(crate) since: HashMap<String, (PodState, Instant)>,
    /// The number of addresses of pods given out so far.
    pub(crate) addresses: u32,
    /// The number of events recorded so far.
    pub(crate) events: u64,
}

/// The state of a pod for the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    Creating,
    Running,
    BackOff,
    Terminating,
}
