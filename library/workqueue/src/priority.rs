//! The priority of a key, and the options of an add. Plain values; the order is decided in `state`.

use std::fmt;
use std::time::Duration;

/// The urgency of a key; higher priorities come first.
///
/// Any number is valid, but use few distinct ones. Fresh changes belong at [`NORMAL`](Priority::NORMAL), repeated work
/// (an initial list, a resync) at [`LOW`](Priority::LOW). Priorities order the queue but do not partition it: see
/// [ageing](crate::Builder::ageing).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// For work that is not urgent: an initial list, a resync. The number is controller-runtime's.
    #[doc(alias = "WithLowPriorityWhenUnchanged")]
    #[doc(alias = "LowPriority")]
    pub const LOW: Priority = Priority(-100);
    /// For fresh changes; the default of [`add`](crate::WorkQueue::add).
    pub const NORMAL: Priority = Priority(0);
    /// For work that must overtake fresh changes.
    pub const HIGH: Priority = Priority(100);
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Options of [`add_with`](crate::WorkQueue::add_with): the priority and the delay.
///
/// ```
/// use kube_workqueue::{AddOptions, Priority, WorkQueue};
/// use std::time::Duration;
///
/// let queue = WorkQueue::default();
/// queue.add_with("a", Priority::LOW);
/// queue.add_with("b", AddOptions::new().priority(Priority::LOW).after(Duration::from_secs(3)));
/// assert_eq!(queue.len(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "AddOpts")]
pub struct AddOptions {
    pub(crate) priority: Priority,
    pub(crate) when: When,
}

/// When a key is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Now,
    After(Duration),
    RateLimited,
}

impl AddOptions {
    /// At normal priority, without delay.
    pub fn new() -> Self {
        Self::default()
    }

    /// At this priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// After this delay.
    pub fn after(mut self, delay: Duration) -> Self {
        self.when = When::After(delay);
        self
    }

    /// After the delay of the queue's rate limiter.
    pub fn rate_limited(mut self) -> Self {
        self.when = When::RateLimited;
        self
    }
}

impl From<Priority> for AddOptions {
    fn from(priority: Priority) -> Self {
        AddOptions::new().priority(priority)
    }
}
