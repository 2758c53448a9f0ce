//! What an audit has found: the objects that differ, and its counters.

use std::fmt;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::key::ObjectKey;

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

/// An object of which cache and server hold different versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drift {
    /// The object.
    pub key: ObjectKey,
    /// The version in the cache; `None` if the cache does not hold it.
    pub cached: Option<String>,
    /// The version on the server; `None` if it does not exist there.
    pub server: Option<String>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.key)?;
        match &self.cached {
            Some(version) => write!(f, "cached {version}, ")?,
            None => f.write_str("not cached, ")?,
        }
        match &self.server {
            Some(version) => write!(f, "server {version})"),
            None => f.write_str("not on the server)"),
        }
    }
}
