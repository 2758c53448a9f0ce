//! The counters of an audit.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Drift;

/// Counters of the audit of one watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditStats {
    /// Probes: comparisons of a sample, after an interruption of the watch.
    pub probes: u64,
    /// Pages of complete passes that were compared.
    pub pages: u64,
    /// Complete passes over the collection.
    pub passes: u64,
    /// Objects compared.
    pub objects: u64,
    /// Comparisons without a result: a request failed, or the collection changed too quickly.
    pub inconclusive: u64,
    /// Objects that differed.
    pub drifted: u64,
    /// The objects of the last comparison that differed, with both versions. At most 100.
    pub last_drift: Vec<Drift>,
    /// The time at which the last pass was completed.
    pub last_pass: Option<Instant>,
}

/// The counters of the audit of one watch, shared with readers.
pub(in crate::informer) type SharedAuditStats = Mutex<AuditStats>;
