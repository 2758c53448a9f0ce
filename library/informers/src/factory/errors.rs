//! Errors of a factory.

use std::fmt;

use crate::informer::errors::SyncError;

/// Some informers of a factory are not synced.
#[derive(Clone, Debug)]
#[doc(alias = "SyncResult")]
pub struct FactorySyncError {
    /// The informers that are not synced, sorted by name. Empty if the factory was shut down.
    pub missing: Vec<SyncError>,
    /// The number of informers that were waited for.
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
            Reason::ShutDown => f.write_str("the factory was shut down; create a new one"),
            Reason::NotStarted => write!(
                f,
                "not started: {}; call `start` after requesting informers",
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
