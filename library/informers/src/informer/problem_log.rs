//! Logs the objects that could not be used.

use tokio::time::Instant;
use tracing::warn;

use crate::log_limit::LogLimit;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::store::Store;

/// Logs at most ten objects per minute, and says how many others there were.
#[derive(Debug)]
pub(super) struct ProblemLog {
    informer: String,
    limit: LogLimit,
}

impl ProblemLog {
    /// `informer` is a name, or a description of the objects.
    pub(super) fn new(informer: String) -> Self {
        Self {
            informer,
            limit: LogLimit::default(),
        }
    }

    pub(super) fn report<K: Object>(&mut self, store: &Store<K>, problems: &[BadObject]) {
        for (logged, problem) in problems.iter().enumerate() {
            let Some(suppressed) = self.limit.admit(Instant::now()) else {
                self.limit.suppress(problems.len() - logged - 1);
                return;
            };
            let is_cached = problem.key.as_ref().is_some_and(|key| store.contains(key));
            let rest = match is_cached {
                true => "; its last good version stays",
                false => "; it is not cached",
            };
            let more = match suppressed {
                0 => String::new(),
                more => format!("; {more} more since the last message"),
            };
            warn!(informer = %self.informer, "{problem}{rest}{more}");
        }
    }
}
