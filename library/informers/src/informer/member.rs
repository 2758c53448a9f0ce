//! `Member`: one watch of an informer, with its queue, its reflector and its audit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::{Auditor, Tracking};
use super::drift::SharedAuditStats;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::queue::InOrderQueue;
use crate::reflector::{JitterRng, Reflector, ReflectorConfig, ReflectorHandle, Transform};
use crate::shard::{Shard, ShardTracker};
use crate::source::{ListWatch, ListerWatcher, SourceError};
use crate::store::Store;

/// One watch of an informer: the shared part, which handles and the process loop read.
pub(super) struct Member<K> {
    /// Identifies its objects in the store. Used again when the member was removed and its process loop has ended.
    pub(super) id: usize,
    /// The only namespace it watches, if its source says so.
    pub(super) namespace: Option<String>,
    pub(super) queue: Arc<InOrderQueue<K>>,
    pub(super) reflector: ReflectorHandle,
    /// Moved and applied under the core's lock.
    pub(super) shard: ShardTracker,
    /// The changes during an audit, and the counters of the audits.
    pub(super) tracking: Tracking,
    pub(super) audit: SharedAuditStats,
    /// The last proof that it is current which the store has caught up with.
    pub(super) proof: Mutex<Option<Instant>>,
    /// Ends its reflector.
    stop: CancellationToken,
    /// Both change under the core's lock only.
    synced: AtomicBool,
    removed: AtomicBool,
}

impl<K> Member<K> {
    /// Whether its initial list is in the store.
    pub(super) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    pub(super) fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Whether the informer no longer has this member. What is left in its queue is dropped.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Ends the watch.
    pub(super) fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        self.stop.cancel();
    }
}

impl<K: Object> Member<K> {
    /// Whether it may hold the key, as far as its source says.
    pub(super) fn may_hold(&self, key: &ObjectKey) -> bool {
        match &self.namespace {
            Some(namespace) => key.namespace() == Some(namespace.as_str()),
            None => true,
        }
    }
}

/// The running part of a member, until the process loop takes it.
pub(super) struct MemberTask<K> {
    pub(super) member: Arc<Member<K>>,
    reflector: Reflector<K>,
    pub(super) auditor: Auditor<K>,
}

impl<K: Object> MemberTask<K> {
    /// Splits off the future that reads from the server and closes the queue behind itself.
    pub(super) fn split(
        self,
    ) -> (
        Arc<Member<K>>,
        Auditor<K>,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let Self {
            member,
            reflector,
            auditor,
        } = self;
        let (stop, queue) = (member.stop.clone(), member.queue.clone());
        let reflect = async move {
            reflector.run(stop).await;
            queue.close();
        };
        (member, auditor, reflect)
    }
}

/// What the members of an informer have in common.
pub(super) struct MemberTemplate<K> {
    pub(super) store: Store<K>,
    pub(super) config: ReflectorConfig,
    pub(super) transform: Option<Transform<K>>,
    /// Of which the members are parts, one per namespace. `None` for other sources, and for all namespaces.
    pub(super) list_watch: Option<ListWatch<K>>,
}

impl<K: Object> MemberTemplate<K> {
    /// The source of one namespace.
    ///
    /// # Errors
    ///
    /// The namespace is not a valid name.
    pub(super) fn source(
        list_watch: &ListWatch<K>,
        namespace: &str,
    ) -> Result<Arc<dyn ListerWatcher<K>>, SourceError> {
        let source = list_watch.clone().in_namespace(namespace);
        source.check()?;
        Ok(Arc::new(source))
    }

    /// A member that ends with `stop`.
    pub(super) fn build(
        &self,
        id: usize,
        source: Arc<dyn ListerWatcher<K>>,
        shard: Option<Shard>,
        stop: CancellationToken,
    ) -> MemberTask<K> {
        let queue = Arc::new(InOrderQueue::new().capacity(self.config.queue_capacity));
        let shard = ShardTracker::new(shard);
        let namespace = source.namespace();
        let rng = JitterRng::new(self.config.jitter);
        let audited = source.clone();
        let mut reflector = Reflector::from_shared(source, queue.clone())
            // The dispatcher resyncs each handler; the reflector does not.
            .config(ReflectorConfig {
                resync: None,
                ..self.config.clone()
            })
            .known(Arc::new(self.store.clone()))
            .shard(shard.clone());
        if let Some(transform) = &self.transform {
            reflector = reflector.transform(transform.clone());
        }
        let member = Arc::new(Member {
            id,
            namespace,
            queue,
            reflector: reflector.handle(),
            shard,
            tracking: Tracking::default(),
            audit: SharedAuditStats::default(),
            proof: Mutex::new(None),
            stop,
            synced: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        });
        MemberTask {
            auditor: Auditor::new(audited, member.clone(), self.config.audit, rng),
            member,
            reflector,
        }
    }
}
