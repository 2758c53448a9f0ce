//! The process loop: pops batches from the queues, applies them to the store and dispatches the events.
//!
//! The only place where the store's writer and the dispatcher meet. Both are in `Core`, behind one mutex, so that a new
//! handler gets a snapshot and its position in the event order in one step. User code never runs under it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::{coop, yield_now};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, debug, info_span};

use super::audit::{AuditStats, Auditor, SharedAuditStats, Tracking};
use super::errors::SetShardError;
use super::list_part::ListPart;
use super::problem_log::ProblemLog;
use super::stats::{HandlerStats, InformerStats, MemberStats, MemoryStats, Totals};
use crate::delta::Delta;
use crate::dispatcher::Dispatcher;
use crate::handler::{ErasedHandler, HandlerOptions};
use crate::lazy::LazyCounters;
use crate::object::Object;
use crate::queue::{Batch, DEFAULT_BATCH, DeltaQueue};
use crate::reflector::{Reflector, ReflectorHandle};
use crate::registration::{AddHandlerError, Registration};
use crate::shard::{Shard, ShardTracker};
use crate::source::ResourceType;
use crate::store::{DeltaWriter, Origin, Prepared, Store};
use crate::subscription::Subscription;
use crate::task::{Spawner, TaskPanicError};

/// A batch of fewer deltas takes less than 100 µs.
const SMALL_BATCH: usize = 64;

/// The state shared by all handles of an informer and its task.
pub(super) struct InformerInner<K: Object> {
    pub(super) name: String,
    /// The resource in the store, if the source has one.
    pub(super) resource: Option<ResourceType>,
    lazy: Option<Arc<LazyCounters>>,
    core: Mutex<Core<K>>,
    /// A handle that does not keep the informer alive.
    pub(super) store: Store<K>,
    /// The namespace of each member watch, if it has one.
    pub(super) namespaces: Vec<Option<String>>,
    /// One for each member watch, as are the reflectors.
    pub(super) queues: Vec<Arc<dyn DeltaQueue<K>>>,
    pub(super) reflectors: Vec<ReflectorHandle>,
    /// The shard of each of them. Moved and applied under `core`.
    pub(super) shards: Vec<ShardTracker>,
    /// The changes of each of them during an audit, and the counters of the audits.
    pub(super) tracking: Vec<Tracking>,
    pub(super) audits: Vec<SharedAuditStats>,
    /// The last proof that each of them is current which the store has caught up with.
    pub(super) proofs: Mutex<Vec<Option<Instant>>>,
    /// Stop now.
    pub(super) stop: CancellationToken,
    /// Close the watches and deliver what has been received. A child of `stop`.
    pub(super) drain: CancellationToken,
    pub(super) life: watch::Sender<Lifecycle>,
    /// Counts the applied batches; wakes callers that wait for a version.
    pub(super) applied: watch::Sender<u64>,
    default_resync: Option<Duration>,
    /// Whether moving the shard is rejected.
    pub(super) shard_is_fixed: bool,
    resyncs_changed: Notify,
    problem_log: Mutex<ProblemLog>,
    /// Starts the reflectors and the handlers.
    spawner: OnceLock<Spawner>,
    /// Spawned the informer's own task, unless the user runs it.
    starter: OnceLock<Spawner>,
}

/// The parts of an informer.
pub(super) struct InformerParts<K: Object> {
    pub(super) name: String,
    pub(super) resource: Option<ResourceType>,
    pub(super) lazy: Option<Arc<LazyCounters>>,
    pub(super) namespaces: Vec<Option<String>>,
    pub(super) writer: DeltaWriter<K>,
    pub(super) queues: Vec<Arc<dyn DeltaQueue<K>>>,
    pub(super) reflectors: Vec<ReflectorHandle>,
    pub(super) shards: Vec<ShardTracker>,
    pub(super) shard_is_fixed: bool,
    pub(super) default_resync: Option<Duration>,
}

struct Core<K: Object> {
    writer: DeltaWriter<K>,
    dispatcher: Dispatcher<K>,
    /// Which members have their initial list in the store.
    synced: Vec<bool>,
    totals: Totals,
}

/// The lifecycle of the informer. Flags are never reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lifecycle {
    pub(super) started: bool,
    pub(super) synced: bool,
    pub(super) stopped: bool,
}

impl<K: Object> InformerInner<K> {
    pub(super) fn new(parts: InformerParts<K>) -> Arc<Self> {
        let InformerParts {
            name,
            resource,
            lazy,
            namespaces,
            writer,
            queues,
            reflectors,
            shards,
            shard_is_fixed,
            default_resync,
        } = parts;
        let stop = CancellationToken::new();
        Arc::new(Self {
            problem_log: Mutex::new(ProblemLog::new(name.clone())),
            name,
            resource,
            lazy,
            namespaces,
            store: writer.store(),
            core: Mutex::new(Core {
                writer,
                dispatcher: Dispatcher::default(),
                synced: vec![false; queues.len()],
                totals: Totals::default(),
            }),
            tracking: queues.iter().map(|_| Tracking::default()).collect(),
            audits: queues.iter().map(|_| SharedAuditStats::default()).collect(),
            proofs: Mutex::new(vec![None; queues.len()]),
            queues,
            reflectors,
            shards,
            drain: stop.child_token(),
            stop,
            life: watch::Sender::new(Lifecycle::default()),
            applied: watch::Sender::new(0),
            default_resync,
            shard_is_fixed,
            resyncs_changed: Notify::new(),
            spawner: OnceLock::new(),
            starter: OnceLock::new(),
        })
    }

    pub(super) fn add_handler(
        &self,
        mut options: HandlerOptions,
        handler: ErasedHandler<K>,
        now: Instant,
    ) -> Result<Registration, AddHandlerError> {
        options.resync = options.resync.or(self.default_resync);
        let mut core = self.core.lock();
        let synced = core.all_synced();
        let added = core
            .dispatcher
            .add(&options, handler, now, self.store.list(), synced);
        drop(core);
        self.resyncs_changed.notify_one();
        added.map_err(|error| AddHandlerError {
            informer: self.name.clone(),
            ..error
        })
    }

    pub(super) fn subscribe(&self, mut options: HandlerOptions, now: Instant) -> Subscription<K> {
        options.resync = options.resync.or(self.default_resync);
        let mut core = self.core.lock();
        let synced = core.all_synced();
        let listener = core
            .dispatcher
            .subscribe(&options, now, self.store.list(), synced);
        drop(core);
        self.resyncs_changed.notify_one();
        Subscription::new(listener)
    }

    pub(super) fn stats(&self) -> InformerStats {
        let core = self.core.lock();
        let handlers = core
            .dispatcher
            .registrations()
            .iter()
            .map(HandlerStats::of)
            .collect();
        let totals = core.totals.clone();
        let backlog = core.dispatcher.backlog_bytes();
        let shards: Vec<_> = self.shards.iter().map(ShardTracker::applied).collect();
        drop(core);
        InformerStats {
            objects: self.store.len(),
            quarantined: self.store.quarantine_len(),
            access_errors: self.lazy.as_ref().map_or(0, |lazy| lazy.access_errors()),
            memory: MemoryStats::of(&self.store, self.lazy.as_deref(), backlog),
            totals,
            handlers,
            members: self
                .reflectors
                .iter()
                .zip(&self.queues)
                .zip(self.versions())
                .zip(shards)
                .map(|(((reflector, queue), resource_version), shard)| MemberStats {
                    state: reflector.state(),
                    shard,
                    resource_version,
                    queue: queue.stats(),
                    reflector: reflector.stats(),
                    audit: AuditStats::default(),
                    freshness: None,
                })
                .zip(0..)
                .map(|(stats, member)| self.add_health(member, stats))
                .collect(),
        }
    }

    /// The names of the handlers whose call has not returned although the informer has stopped.
    pub(super) fn left_behind(&self) -> Vec<Arc<str>> {
        self.core.lock().dispatcher.left_behind()
    }

    /// The number of handler tasks that cannot end before a call returns.
    pub(super) fn stuck(&self) -> usize {
        self.core.lock().dispatcher.stuck()
    }

    /// The spawners of the informer's own task and of all others.
    pub(super) fn spawners(&self) -> impl Iterator<Item = &Spawner> {
        [self.starter.get(), self.spawner.get()].into_iter().flatten()
    }

    /// The number of reflectors and handlers that have not ended.
    pub(super) fn running_tasks(&self) -> usize {
        self.spawner.get().map_or(0, Spawner::running)
    }

    /// Ends the informer. Idempotent.
    pub(super) fn finish(&self) {
        self.stop.cancel();
        for queue in &self.queues {
            queue.close();
        }
        let leftovers = self.core.lock().dispatcher.close(false);
        // Handlers that were never started are dropped here, outside the lock: they are user code.
        drop(leftovers);
        self.life
            .send_if_modified(|life| !std::mem::replace(&mut life.stopped, true));
    }

    /// Applies the batches of the queues until they are closed, and runs the resyncs of handlers.
    async fn process(&self, auditors: Vec<Auditor<K>>) {
        let members = self.queues.iter().enumerate();
        let members = join_all(members.map(|(member, queue)| self.process_member(member, queue)));
        // All branches are cancel-safe: a dropped pop has removed nothing, and a batch is applied without awaiting.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            _ = members => {}
            () = self.resyncs() => {}
            () = self.audit(auditors) => {}
        }
    }

    async fn process_member(&self, member: usize, queue: &Arc<dyn DeltaQueue<K>>) {
        let mut waits_for_sync = true;
        loop {
            // Both are cancel-safe: a dropped pop has removed nothing.
            let batch = tokio::select! {
                biased;
                batch = queue.pop_batch(DEFAULT_BATCH) => batch,
                Ok(()) = queue.synced(), if waits_for_sync => {
                    // An empty initial list may leave nothing to apply.
                    waits_for_sync = false;
                    self.note_synced(member, queue);
                    continue;
                }
            };
            let Some(batch) = batch else { break };
            let is_small = batch.deltas.len() < SMALL_BATCH;
            // If it is the last one, the store is then as current as the reflector.
            let proof = queue.is_empty().then(|| self.last_proof(member)).flatten();
            self.apply(member, queue, batch);
            self.note_proof(member, proof);
            // A busy informer must not starve other tasks of the runtime. But yielding makes the worker poll for I/O, which
            // costs more than applying an event.
            if is_small {
                coop::consume_budget().await;
            } else {
                yield_now().await;
            }
        }
    }

    fn apply(&self, member: usize, queue: &Arc<dyn DeltaQueue<K>>, mut batch: Batch<K>) {
        let deltas = std::mem::take(&mut batch.deltas);
        let listed = deltas.iter().find_map(|delta| match delta {
            Delta::ReplacedAll(list) => Some(list.shard.clone()),
            _ => None,
        });
        let reflector = self.reflectors.get(member);
        let part = reflector.and_then(|reflector| ListPart::dequeued(reflector, &deltas, queue.in_order()));
        let origin = Origin {
            member,
            initial: batch.initial,
            in_order: queue.in_order(),
        };
        let tracking = self.tracking.get(member);
        let recorded = tracking.is_some_and(|tracking| tracking.record(&deltas));
        // Index functions are user code: they run here, before any lock is taken.
        let prepared = Prepared::new(&self.store, origin, deltas);
        let mut events = Vec::new();

        let mut core = self.core.lock();
        // The shard may have been moved since these deltas were read, and even since they were prepared.
        let shard = self.shards.get(member).and_then(|shard| {
            if queue.in_order() {
                shard.apply(listed.as_ref().map(Option::as_ref))
            } else {
                shard.apply_split_lists()
            }
        });
        let applied = core.writer.apply(prepared.restrict_to(shard), &mut events);
        core.totals.add(&applied);
        core.dispatcher.dispatch(events);
        // The batch counts as processed only now. The synced notice goes behind its last event, before anything else
        // can be dispatched.
        batch.done();
        let newly_synced = core.note_synced(member, queue);
        drop(core);
        if let Some(part) = part {
            part.applied();
        }
        if let Some(tracking) = tracking {
            tracking.applied(recorded);
        }

        self.problem_log.lock().report(&self.store, &applied.problems);
        self.announce(newly_synced);
    }

    /// Records that a member is synced when there was nothing to apply.
    fn note_synced(&self, member: usize, queue: &Arc<dyn DeltaQueue<K>>) {
        let newly_synced = self.core.lock().note_synced(member, queue);
        self.announce(newly_synced);
    }

    /// Wakes the callers that wait for a change.
    fn announce(&self, newly_synced: bool) {
        if newly_synced {
            debug!(informer = %self.name, objects = self.store.len(), "synced");
            self.life.send_modify(|life| life.synced = true);
        }
        self.applied
            .send_modify(|batches| *batches = batches.wrapping_add(1));
    }

    /// Moves to another shard: evicts what is outside it and has the rest fetched.
    pub(super) fn set_shard(&self, shard: &Shard) -> Result<(), SetShardError> {
        let mut core = self.core.lock();
        if self.stop.is_cancelled() {
            return Err(SetShardError::Stopped(self.stopped_error()));
        }
        // Under the lock, so that the reflectors see moves in the order in which the store does. All trackers have the
        // same field, so either all of them move or none.
        for tracker in &self.shards {
            tracker.move_to(shard)?;
        }
        self.tracking.iter().for_each(Tracking::disturb);
        let mut events = Vec::new();
        let applied = core.writer.evict_outside(shard, &mut events);
        core.totals.add(&applied);
        core.dispatcher.dispatch(events);
        drop(core);
        debug!(informer = %self.name, %shard, left = applied.deleted, "the shard has moved");
        self.announce(false);
        Ok(())
    }

    /// The shard to keep, and whether the store has all of it.
    pub(super) fn shard(&self) -> (Option<Shard>, bool) {
        let core = self.core.lock();
        let settled = core.all_synced()
            && self.queues.iter().zip(&self.shards).all(|(queue, shard)| {
                // A queue that splits a list has delivered all of it when it is empty.
                shard.is_settled() && (queue.in_order() || queue.is_empty() && !shard.needs_fetch())
            });
        (self.shards.first().and_then(ShardTracker::target), settled)
    }

    async fn resyncs(&self) {
        loop {
            let due = self.core.lock().dispatcher.next_resync();
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // Both are cancel-safe: the time is computed anew, and `Notify` keeps a permit.
            tokio::select! {
                () = wait => {
                    let mut core = self.core.lock();
                    let snapshot = self.store.list();
                    core.dispatcher.resync_due(Instant::now(), &snapshot);
                }
                () = self.resyncs_changed.notified() => {}
            }
        }
    }
}

impl<K: Object> Core<K> {
    fn all_synced(&self) -> bool {
        self.synced.iter().all(|synced| *synced)
    }

    /// Records that a member is synced, if it is. Returns whether that makes the informer synced; if so, the handlers get
    /// a synced notice behind their queued events.
    fn note_synced(&mut self, member: usize, queue: &Arc<dyn DeltaQueue<K>>) -> bool {
        match self.synced.get_mut(member) {
            Some(synced) if !*synced && queue.has_synced() => *synced = true,
            _ => return false,
        }
        let all = self.all_synced();
        if all {
            self.dispatcher.synced();
        }
        all
    }
}

/// The task of an informer.
///
/// Returned by [`InformerBuilder::build`](super::InformerBuilder::build); dropping it without running it stops the
/// informer.
#[must_use = "an informer does nothing until its task is run"]
pub struct InformerTask<K: Object> {
    reflectors: Vec<Reflector<K>>,
    auditors: Vec<Auditor<K>>,
    guard: StopOnDrop<K>,
}

impl<K: Object> fmt::Debug for InformerTask<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerTask")
            .field("informer", &self.guard.0.name)
            .finish_non_exhaustive()
    }
}

/// Stops the informer when it is dropped, also when the future of `run` is dropped.
struct StopOnDrop<K: Object>(Arc<InformerInner<K>>);

impl<K: Object> Drop for StopOnDrop<K> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl<K: Object> InformerTask<K> {
    pub(super) fn new(
        shared: Arc<InformerInner<K>>,
        reflectors: Vec<Reflector<K>>,
        auditors: Vec<Auditor<K>>,
    ) -> Self {
        Self {
            reflectors,
            auditors,
            guard: StopOnDrop(shared),
        }
    }

    /// Runs until the informer is shut down, its last handle is dropped, or the future is dropped.
    ///
    /// Must be polled on a tokio runtime with a timer; handlers run on it too.
    ///
    /// # Errors
    ///
    /// One of the library's own tasks panicked.
    #[doc(alias = "RunWithContext")]
    pub async fn run(self) -> Result<(), TaskPanicError> {
        let Self {
            reflectors,
            auditors,
            guard,
        } = self;
        let shared = guard.0.clone();
        if shared.stop.is_cancelled() {
            return Ok(());
        }
        let span = info_span!("informer", name = %shared.name);
        let spawner = shared
            .spawner
            .get_or_init(|| Spawner::new(Handle::current(), span.clone()))
            .clone();
        shared.core.lock().dispatcher.start(&spawner, Instant::now());
        shared.life.send_modify(|life| life.started = true);

        for (reflector, queue) in reflectors.into_iter().zip(&shared.queues) {
            let drain = shared.drain.clone();
            let queue = queue.clone();
            spawner.spawn(format!("reflect {}", shared.name), async move {
                reflector.run(drain).await;
                queue.close();
            });
        }

        // Both are cancel-safe: dropping `process` stops it.
        let died = tokio::select! {
            biased;
            died = spawner.died() => Some(died),
            () = shared.process(auditors).instrument(span) => None,
        };
        if died.is_none() && !shared.stop.is_cancelled() {
            // The queues are drained: deliver what was dispatched, until the informer is stopped.
            let leftovers = shared.core.lock().dispatcher.close(true);
            drop(leftovers);
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => {}
                () = spawner.wait() => {}
            }
        }
        drop(guard);
        // Both only wait, so dropping them loses nothing.
        tokio::select! {
            biased;
            () = spawner.wait() => {}
            () = shared.unresponsive_handlers() => {}
        }
        died.map_or(Ok(()), Err)
    }

    /// Spawns the task on the current runtime.
    pub(super) fn spawn(self) {
        let shared = self.guard.0.clone();
        let name = shared.name.clone();
        let starter = shared
            .starter
            .get_or_init(|| Spawner::new(Handle::current(), Span::none()));
        starter.spawn(format!("informer {name}"), async move {
            if let Err(died) = self.run().await {
                tracing::error!(informer = %name, %died, "the informer stopped");
            }
        });
    }
}
