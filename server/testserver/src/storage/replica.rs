//! Several servers over one storage: the revision that each of them has reached.
//! Writes always reach the storage at once; only reads of a replica can lag.

use std::sync::atomic::{AtomicUsize, Ordering};

use kube_api_protocol::status::ApiError;
use parking_lot::RwLock;

/// The state of one replica.
#[derive(Clone, Debug, Default)]
struct Replica {
    position: Position,
    /// The start of its cache: watches cannot start before it.
    since: u64,
    /// The `Retry-After` seconds while the replica's cache is not ready.
    unready: Option<u64>,
}

/// The progress of a replica's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    /// Up to date with the storage.
    #[default]
    Head,
    /// Behind by this number of revisions.
    Behind(u64),
    /// Frozen at a revision.
    At(u64),
}

/// All replicas, and the default one for new requests.
#[derive(Debug)]
pub(crate) struct Replicas {
    replicas: RwLock<Vec<Replica>>,
    chosen: AtomicUsize,
}

impl Replicas {
    pub(crate) fn new(count: usize) -> Replicas {
        Replicas {
            replicas: RwLock::new(vec![Replica::default(); count.max(1)]),
            chosen: AtomicUsize::new(0),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.replicas.read().len()
    }

    pub(crate) fn chosen(&self) -> usize {
        self.chosen.load(Ordering::Acquire)
    }

    pub(crate) fn choose(&self, replica: usize) {
        self.chosen.store(replica, Ordering::Release);
    }

    /// The newest revision that a replica can see.
    pub(crate) fn visible(&self, replica: usize, head: u64) -> u64 {
        match self.replicas.read().get(replica).map(|replica| replica.position) {
            None | Some(Position::Head) => head,
            Some(Position::Behind(by)) => head.saturating_sub(by).max(1),
            Some(Position::At(revision)) => revision.min(head),
        }
    }

    /// The revision at which a replica's cache starts.
    pub(crate) fn since(&self, replica: usize) -> u64 {
        self.replicas
            .read()
            .get(replica)
            .map_or(0, |replica| replica.since)
    }

    /// Restarts the caches of all replicas at their current revision.
    pub(crate) fn begin_anew(&self, head: u64) {
        for number in 0..self.count() {
            let seen = self.visible(number, head);
            self.set(number, |replica| replica.since = seen);
        }
    }

    /// The error for lists and watches of a replica that is not ready.
    pub(crate) fn unready(&self, replica: usize) -> Option<ApiError> {
        let seconds = self.replicas.read().get(replica)?.unready?;
        Some(ApiError::too_many_requests(seconds))
    }

    pub(crate) fn catch_up(&self, replica: usize) {
        self.set(replica, |replica| replica.position = Position::Head);
    }

    pub(crate) fn stay_behind(&self, replica: usize, revisions: u64) {
        self.set(replica, |replica| replica.position = Position::Behind(revisions));
    }

    pub(crate) fn stop_at(&self, replica: usize, revision: u64) {
        self.set(replica, |replica| replica.position = Position::At(revision));
    }

    pub(crate) fn set_unready(&self, replica: usize, retry_after_seconds: Option<u64>) {
        self.set(replica, |replica| replica.unready = retry_after_seconds);
    }

    fn set(&self, number: usize, change: impl FnOnce(&mut Replica)) {
        if let Some(replica) = self.replicas.write().get_mut(number) {
            change(replica);
        }
    }
}
