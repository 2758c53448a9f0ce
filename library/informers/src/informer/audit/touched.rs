//! `Tracking`: which objects changed since an audit began.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;

/// With more changes than this an audit compares nothing: the collection changes faster than it can be compared.
const MAX_KEYS: usize = 100_000;

/// The objects that changed.
#[derive(Debug, Default)]
pub(super) struct Touched {
    keys: HashSet<ObjectKey>,
    /// Any object may have changed.
    all: bool,
}

impl Touched {
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.all || self.keys.contains(key)
    }

    pub(super) fn is_everything(&self) -> bool {
        self.all
    }
}

/// Records the changes of one watch while an audit runs. Costs nothing otherwise.
#[derive(Debug, Default)]
pub(in crate::informer) struct Tracking {
    is_on: AtomicBool,
    touched: Mutex<Touched>,
}

impl Tracking {
    /// Starts over. A version of the store that is read afterwards is the one the recorded changes follow.
    pub(super) fn start(&self) {
        *self.touched.lock() = Touched::default();
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.is_on.store(false, Ordering::Release);
        *self.touched.lock() = Touched::default();
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Touched) -> T) -> T {
        read(&self.touched.lock())
    }

    /// Records changes that are about to be applied. Returns whether they were recorded.
    pub(in crate::informer) fn record<K: Object>(&self, deltas: &[Delta<K>]) -> bool {
        if !self.is_on.load(Ordering::Acquire) {
            return false;
        }
        let mut touched = self.touched.lock();
        for delta in deltas {
            match delta {
                Delta::ReplacedAll(_) => touched.all = true,
                Delta::Bookmark { .. } | Delta::SyncAll => {}
                other => touched.keys.extend(other.key()),
            }
        }
        if touched.keys.len() > MAX_KEYS {
            touched.all = true;
            touched.keys = HashSet::new();
        }
        true
    }

    /// The changes were applied. If the audit began between the two calls, it may have read the store before it.
    pub(in crate::informer) fn applied(&self, recorded: bool) {
        if !recorded && self.is_on.load(Ordering::Acquire) {
            self.touched.lock().all = true;
        }
    }

    /// Any object may change, outside the order of deltas.
    pub(in crate::informer) fn disturb(&self) {
        if self.is_on.load(Ordering::Acquire) {
            self.touched.lock().all = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn added(name: &str) -> Delta<Pod> {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        Delta::Added(Arc::new(pod))
    }

    #[test]
    fn changes_are_recorded_while_an_audit_runs() {
        let tracking = Tracking::default();
        assert!(!tracking.record(&[added("before")]));

        tracking.start();
        let recorded = tracking.record(&[added("a")]);
        tracking.applied(recorded);

        assert!(tracking.read(|touched| touched.contains(&ObjectKey::cluster("a"))));
        assert!(!tracking.read(|touched| touched.contains(&ObjectKey::cluster("before"))));
        tracking.stop();
        assert!(!tracking.read(|touched| touched.contains(&ObjectKey::cluster("a"))));
    }

    /// The audit begins after the deltas were read and reads the version of the store before they are applied.
    #[test]
    fn a_batch_in_flight_when_the_audit_begins_invalidates_it() {
        let tracking = Tracking::default();

        let recorded = tracking.record(&[added("a")]);
        tracking.start();
        tracking.applied(recorded);

        assert!(tracking.read(Touched::is_everything));
    }
}
