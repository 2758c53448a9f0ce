//! `SyncTracker`: counts initial work that is done elsewhere.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Tracks when workers have finished everything that belongs to the initial list.
///
/// A [`Registration`](crate::Registration) is synced when its handler has *received* the initial objects. If the
/// handler only queues keys and other tasks process them, that is too early. With a tracker, the handler starts each
/// initial key, the worker finishes it, and the caller reports when the handler has received everything.
///
/// ```
/// use kube_informers::handler::SyncTracker;
///
/// let tracker = SyncTracker::new();
/// tracker.start("shop/cart"); // in the handler, for each event with `is_initial()`
/// tracker.start("shop/till");
/// tracker.upstream_synced(); // after `registration.synced().await`
/// tracker.finished("shop/cart"); // in the workers
/// assert!(!tracker.has_synced());
///
/// tracker.finished("shop/till");
/// assert!(tracker.has_synced());
/// ```
///
/// Once synced, it stays synced. Share it through an `Arc`.
#[doc(alias = "AsyncTracker")]
#[doc(alias = "NewAsyncTracker")]
#[doc(alias = "SingleFileTracker")]
#[doc(alias = "NewSingleFileTracker")]
pub struct SyncTracker<T> {
    state: Mutex<SyncState<T>>,
    synced: Notify,
}

struct SyncState<T> {
    /// Started and not finished.
    pending: HashSet<T, RandomState>,
    /// Everything has been started.
    upstream_synced: bool,
    synced: bool,
}

impl<T: Hash + Eq> SyncTracker<T> {
    /// A tracker without work, whose upstream is not synced.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(SyncState {
                pending: HashSet::default(),
                upstream_synced: false,
                synced: false,
            }),
            synced: Notify::new(),
        }
    }

    /// Work on this key belongs to the initial list. Call it before the work can begin. A key is counted once, however
    /// often it is started.
    pub fn start(&self, key: T) {
        self.state.lock().pending.insert(key);
    }

    /// The work on a key is done. Has no effect on a key that was not started: workers need not know which keys are
    /// initial.
    pub fn finished<B>(&self, key: &B)
    where
        T: Borrow<B>,
        B: Hash + Eq + ?Sized,
    {
        let mut state = self.state.lock();
        state.pending.remove(key);
        self.check(state);
    }

    /// Every initial key has been started.
    #[doc(alias = "UpstreamHasSynced")]
    pub fn upstream_synced(&self) {
        let mut state = self.state.lock();
        state.upstream_synced = true;
        self.check(state);
    }

    /// The number of keys that are started but not finished.
    pub fn pending(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Whether every initial key has been started and finished.
    #[doc(alias = "HasSynced")]
    pub fn has_synced(&self) -> bool {
        self.state.lock().synced
    }

    /// Waits until [`has_synced`](Self::has_synced) is true. Cancel-safe.
    pub async fn synced(&self) {
        loop {
            // Created before the check, so that no change in between is missed.
            let synced = self.synced.notified();
            if self.has_synced() {
                return;
            }
            synced.await;
        }
    }

    fn check(&self, mut state: parking_lot::MutexGuard<'_, SyncState<T>>) {
        if !state.synced && state.upstream_synced && state.pending.is_empty() {
            state.synced = true;
            drop(state);
            self.synced.notify_waiters();
        }
    }
}

impl<T: Hash + Eq> Default for SyncTracker<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Without the keys.
impl<T> fmt::Debug for SyncTracker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("SyncTracker")
            .field("pending", &state.pending.len())
            .field("upstream_synced", &state.upstream_synced)
            .field("synced", &state.synced)
            .finish()
    }
}
