//! What can be said about a factory that does not get there.

use std::fmt;

use crate::informer::errors::SyncError;

/// Not every informer of a factory has its collection in the cache: who is missing, and reason.
#[derive(Clone, Debug)]
#[doc(alias = "SyncResult")]
pub struct FactorySyncError {
    /// The informers that are missing, sorted by name. Empty if the factory was shut down.
    pub missing: Vec<SyncError>,
    /// How many informers were waited for.
    pub of: usize,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Missing,
    NotStarted,
    ShutDown,
}

impl FactorySyncError {
    pub(super) fn missing(missing: Vec<SyncError>, of: usize) -> Self {
        Self::new(missing, of, Reason::Missing)
    }

    pub(super) fn not_started(missing: Vec<SyncError>, of: usize) -> Self {
        Self::new(missing, of, Reason::NotStarted)
    }

    pub(super) fn shutdown() -> Self {
        Self::new(Vec::new(), 0, Reason::ShutDown)
    }

    fn new(mut missing: Vec<SyncError>, of: usize, reason: Reason) -> Self {
        missing.sort_by(|left, right| left.informer.cmp(&right.informer));
        Self { missing, of, reason }
    }

    /// Whether the factory was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.reason == Reason::ShutDown
    }
}

impl fmt::Display for FactorySyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.missing.iter().map(|missing| &*missing.informer).collect();
        match self.reason {
            Reason::ShutDown => f.write_str("the factory was shut down; make a new one"),
            Reason::NotStarted => write!(
                f,
                "not started: {}; call `start` after asking for informers",
                names.join(", ")
            ),
            Reason::Missing => {
                write!(f, "{} of {} informers are not synced", names.len(), self.of)?;
                let mut before = ": ";
                for missing in &self.missing {
                    write!(f, "{before}{missing}")?;
                    before = "; ";
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for FactorySyncError {
    /// The first informer that is not synced.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.missing.first().map(|missing| missing as _)
    }
}
