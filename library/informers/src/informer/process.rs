//! The process loop: pops batches from the queues, applies them to the store and dispatches the events.
//!
//! The only place where the store's writer and the dispatcher meet. Both are in `Core`, behind one mutex, so that a new
//! handler gets a snapshot and its position in the event order in one step. User code never runs under it.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::task::{coop, yield_now};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::errors::ScopeError;
use super::member::{Member, MemberTask, MemberTemplate};
use super::problem_log::ProblemLog;
use super::stats::{HandlerStats, InformerStats, MemoryStats, Totals};
use crate::codec::LazyCounters;
use crate::delta::Delta;
use crate::dispatcher::Dispatcher;
use crate::errors::StoppedError;
use crate::event::Event;
use crate::handler::{ErasedHandler, HandlerOptions};
use crate::object::Object;
use crate::queue::{Batch, DEFAULT_BATCH};
use crate::registration::Registration;
use crate::shard::Shard;
use crate::source::{ListWatch, ListerWatcher, ResourceType};
use crate::store::{Applied, DeltaWriter, Origin, Prepared, Store};
use crate::subscription::Subscription;
use crate::task::Spawner;

/// A batch of fewer deltas takes less than 100 µs.
const SMALL_BATCH: usize = 64;

/// The state shared by all handles of an informer and its task.
pub(super) struct InformerInner<K: Object> {
    /// Its name in logs and errors.
    pub(super) name: String,
    /// The resource in the store, if the source has one.
    pub(super) resource: Option<ResourceType>,
    /// The counters of objects that are decoded on access.
    lazy: Option<Arc<LazyCounters>>,
    /// What changes together: the store's writer, the dispatcher, the set of watches.
    pub(super) core: Mutex<Core<K>>,
    /// A handle that does not keep the informer alive.
    pub(super) store: Store<K>,
    /// Its watches, in the order of their namespaces. Replaced as a whole, under `core`.
    members: RwLock<Arc<[Arc<Member<K>>]>>,
    /// Whether it was created for named namespaces, which can be changed.
    pub(super) has_namespaces: bool,
    /// Wakes the process loop: there are members to start.
    members_added: Notify,
    /// Stop now.
    pub(super) stop: CancellationToken,
    /// Close the watches and deliver what has been received. A child of `stop`.
    pub(super) drain: CancellationToken,
    /// How far it has come; wakes callers that wait for that.
    pub(super) life: watch::Sender<Lifecycle>,
    /// Counts the applied batches; wakes callers that wait for a version.
    pub(super) applied: watch::Sender<u64>,
    /// The resync period of handlers that do not set one.
    default_resync: Option<Duration>,
    /// Whether moving the shard and changing the namespaces is rejected.
    pub(super) scope_is_fixed: bool,
    /// Wakes the process loop: the next resync may be earlier.
    resyncs_changed: Notify,
    /// Limits the log of objects that could not be used.
    problem_log: Mutex<ProblemLog>,
    /// Starts the reflectors and the handlers.
    pub(super) spawner: OnceLock<Spawner>,
    /// Spawned the informer's own task, unless the user runs it.
    pub(super) starter: OnceLock<Spawner>,
}

/// The parts of an informer.
pub(super) struct InformerParts<K: Object> {
    pub(super) name: String,
    pub(super) resource: Option<ResourceType>,
    pub(super) lazy: Option<Arc<LazyCounters>>,
    pub(super) writer: DeltaWriter<K>,
    pub(super) template: MemberTemplate<K>,
    pub(super) sources: Vec<Arc<dyn ListerWatcher<K>>>,
    pub(super) shard: Option<Shard>,
    pub(super) scope_is_fixed: bool,
    pub(super) default_resync: Option<Duration>,
}

/// What is changed under one lock.
pub(super) struct Core<K: Object> {
    /// The write side of the store.
    writer: DeltaWriter<K>,
    /// The handlers, and what each of them has yet to receive.
    pub(super) dispatcher: Dispatcher<K>,
    /// Whether the store has held the initial lists of all members at once. Never reset.
    synced: bool,
    /// The counters of all changes.
    totals: Totals,
    /// Builds new members. Dropped when the informer stops: it holds a client and closures of the user.
    pub(super) template: Option<MemberTemplate<K>>,
    /// The shard of all members.
    pub(super) shard: Option<Shard>,
    /// Members that the process loop has not started yet.
    added: Vec<MemberTask<K>>,
    /// Ids of removed members whose process loops have ended.
    free_ids: Vec<usize>,
    /// The id of the next member, if none is free.
    next_id: usize,
}

/// The lifecycle of the informer. Flags are never reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lifecycle {
    /// Its task runs.
    pub(super) started: bool,
    /// All initial lists are in the store.
    pub(super) synced: bool,
    /// Its task has ended, or never will run.
    pub(super) stopped: bool,
}

impl<K: Object> InformerInner<K> {
    pub(super) fn new(parts: InformerParts<K>) -> Arc<Self> {
        let InformerParts {
            name,
            resource,
            lazy,
            mut writer,
            template,
            sources,
            shard,
            scope_is_fixed,
            default_resync,
        } = parts;
        let stop = CancellationToken::new();
        let drain = stop.child_token();
        let added: Vec<MemberTask<K>> = (sources.into_iter().enumerate())
            .map(|(id, source)| {
                writer.add_member(id);
                template.build(id, source, shard.clone(), drain.child_token())
            })
            .collect();
        let has_namespaces = template.list_watch.is_some();
        let members: Arc<[_]> = added.iter().map(|task| task.member.clone()).collect();
        Arc::new(Self {
            problem_log: Mutex::new(ProblemLog::new(name.clone())),
            name,
            resource,
            lazy,
            store: writer.store(),
            core: Mutex::new(Core {
                writer,
                dispatcher: Dispatcher::default(),
                synced: false,
                totals: Totals::default(),
                template: Some(template),
                shard,
                next_id: members.len(),
                added,
                free_ids: Vec::new(),
            }),
            members: RwLock::new(members),
            has_namespaces,
            members_added: Notify::new(),
            drain,
            stop,
            life: watch::Sender::new(Lifecycle::default()),
            applied: watch::Sender::new(0),
            default_resync,
            scope_is_fixed,
            resyncs_changed: Notify::new(),
            spawner: OnceLock::new(),
            starter: OnceLock::new(),
        })
    }

    /// Its watches.
    pub(super) fn members(&self) -> Arc<[Arc<Member<K>>]> {
        self.members.read().clone()
    }

    pub(super) fn add_handler(
        &self,
        mut options: HandlerOptions,
        handler: ErasedHandler<K>,
        now: Instant,
    ) -> Result<Registration, StoppedError> {
        options.resync = options.resync.or(self.default_resync);
        let mut core = self.core.lock();
        let synced = core.synced;
        let added = core
            .dispatcher
            .add(&options, handler, now, self.store.list(), synced);
        drop(core);
        self.resyncs_changed.notify_one();
        added.map_err(|name| self.stopped_error().with_handler(name))
    }

    pub(super) fn subscribe(&self, mut options: HandlerOptions, now: Instant) -> Subscription<K> {
        options.resync = options.resync.or(self.default_resync);
        let mut core = self.core.lock();
        let synced = core.synced;
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
        let members = self.members();
        let shards: Vec<_> = members.iter().map(|member| member.shard.applied()).collect();
        drop(core);
        InformerStats {
            objects: self.store.len(),
            quarantined: self.store.quarantine_len(),
            access_errors: self.lazy.as_ref().map_or(0, |lazy| lazy.access_errors()),
            memory: MemoryStats::of(&self.store, self.lazy.as_deref(), backlog),
            totals,
            handlers,
            members: (members.iter().zip(shards))
                .map(|(member, shard)| self.member_stats(member, shard))
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
        for member in self.members().iter() {
            member.queue.close();
        }
        let mut core = self.core.lock();
        let handlers = core.dispatcher.close(false);
        let leftovers = (handlers, std::mem::take(&mut core.added), core.template.take());
        drop(core);
        // Handlers, sources and closures are dropped here, outside the lock: they are user code.
        drop(leftovers);
        self.life
            .send_if_modified(|life| !std::mem::replace(&mut life.stopped, true));
    }

    /// Starts the members and applies the batches of their queues until the informer is stopped or drained. Runs the
    /// resyncs of handlers.
    pub(super) async fn process(&self, spawner: &Spawner) {
        let mut running = FuturesUnordered::new();
        let mut resyncs = pin!(self.resyncs());
        self.note_complete();
        loop {
            let added = std::mem::take(&mut self.core.lock().added);
            running.extend(added.into_iter().map(|task| self.run_member(task, spawner)));
            if running.is_empty() && self.drain.is_cancelled() {
                return;
            }
            // All branches are cancel-safe: a dropped pop has removed nothing, a batch is applied without awaiting, and
            // `Notify` keeps a permit.
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                Some(ended) = running.next() => self.forget(&ended),
                () = self.members_added.notified() => {}
                () = self.drain.cancelled(), if running.is_empty() => {}
                () = &mut resyncs => {}
            }
        }
    }

    /// Runs one member until its queue is closed and empty.
    async fn run_member(&self, task: MemberTask<K>, spawner: &Spawner) -> Arc<Member<K>> {
        let (member, auditor, reflect) = task.split();
        spawner.spawn(format!("reflect {}", self.name), reflect);
        // Both are cancel-safe, and the audit never ends.
        tokio::select! {
            biased;
            () = self.process_member(&member) => {}
            () = auditor.run(self) => {}
        }
        member
    }

    /// The process loop of a member has ended: no batch of it can arrive any more.
    fn forget(&self, ended: &Member<K>) {
        if ended.is_removed() {
            self.core.lock().free_ids.push(ended.id);
        }
    }

    async fn process_member(&self, member: &Arc<Member<K>>) {
        let queue = &member.queue;
        let mut waits_for_sync = true;
        loop {
            // Both are cancel-safe: a dropped pop has removed nothing.
            let batch = tokio::select! {
                biased;
                batch = queue.pop_batch(DEFAULT_BATCH) => batch,
                Ok(()) = queue.synced(), if waits_for_sync => {
                    // An empty initial list may leave nothing to apply.
                    waits_for_sync = false;
                    self.note_synced(member);
                    continue;
                }
            };
            let Some(batch) = batch else { break };
            let is_small = batch.deltas.len() < SMALL_BATCH;
            self.apply(member, batch);
            // A busy informer must not starve other tasks of the runtime. But yielding makes the worker poll for I/O, which
            // costs more than applying an event.
            if is_small {
                coop::consume_budget().await;
            } else {
                yield_now().await;
            }
        }
    }

    /// Applies a batch to the store and dispatches its events.
    fn apply(&self, member: &Member<K>, mut batch: Batch<K>) {
        let deltas = std::mem::take(&mut batch.deltas);
        let observer = BatchObserver::before(member, &deltas);
        let listed = deltas.iter().find_map(|delta| match delta {
            Delta::ReplacedAll(list) => Some(list.shard.clone()),
            _ => None,
        });
        let origin = Origin {
            member: member.id,
            initial: batch.initial,
        };
        // Index functions are user code: they run here, before any lock is taken.
        let prepared = Prepared::new(&self.store, origin, deltas);

        let mut core = self.core.lock();
        // The member may have been removed since these deltas were read, and even since they were prepared. Its objects
        // have left the store and must not return.
        if member.is_removed() {
            drop(core);
            batch.done();
            return;
        }
        // Likewise the shard may have been moved.
        let shard = member.shard.apply(listed.as_ref().map(Option::as_ref));
        let applied = core.deliver(|writer, events| writer.apply(prepared.restrict_to(shard), events));
        // The batch counts as processed only now. The synced notice goes behind its last event, before anything else
        // can be dispatched.
        batch.done();
        let newly_synced = self.member_synced(&mut core, member);
        drop(core);

        observer.after(member);
        self.problem_log.lock().report(&self.store, &applied.problems);
        self.announce(newly_synced);
    }

    /// Records that a member is synced when there was nothing to apply.
    fn note_synced(&self, member: &Member<K>) {
        let newly_synced = self.member_synced(&mut self.core.lock(), member);
        self.announce(newly_synced);
    }

    /// Records that an informer without watches is synced.
    fn note_complete(&self) {
        let newly_synced = self.complete(&mut self.core.lock());
        self.announce(newly_synced);
    }

    /// Records that a member is synced, if it is. Returns whether that makes the informer synced.
    fn member_synced(&self, core: &mut Core<K>, member: &Member<K>) -> bool {
        if member.is_synced() || !member.queue.has_synced() {
            return false;
        }
        member.set_synced();
        self.complete(core)
    }

    /// Records that the informer is synced, if all members are. Returns whether it was not before; the handlers then get a
    /// synced notice behind their queued events.
    fn complete(&self, core: &mut Core<K>) -> bool {
        if core.synced || !self.members().iter().all(|member| member.is_synced()) {
            return false;
        }
        core.synced = true;
        core.dispatcher.synced();
        true
    }

    /// Returns when the events of all changes that are visible in the store are in the backlogs of the handlers. A batch is
    /// applied and dispatched under one lock.
    pub(super) fn wait_for_dispatch(&self) {
        drop(self.core.lock());
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
    pub(super) fn set_shard(&self, shard: &Shard) -> Result<(), ScopeError> {
        let mut core = self.core.lock();
        if self.stop.is_cancelled() {
            return Err(ScopeError::Stopped(self.stopped_error()));
        }
        // Under the lock, so that the reflectors see moves in the order in which the store does. All trackers have the
        // same field, so either all of them move or none.
        if let Some(current) = &core.shard {
            // Also where there is no member.
            current.intersection(shard)?;
        }
        for member in self.members().iter() {
            member.shard.move_to(shard)?;
            member.tracking.disturb();
        }
        core.shard = Some(shard.clone());
        let applied = core.deliver(|writer, events| writer.evict_outside(shard, events));
        drop(core);
        debug!(informer = %self.name, %shard, left = applied.deleted, "the shard has moved");
        self.announce(false);
        Ok(())
    }

    /// The shard to keep, and whether the store has all of it.
    pub(super) fn shard(&self) -> (Option<Shard>, bool) {
        let core = self.core.lock();
        let settled = core.synced
            && self
                .members()
                .iter()
                .all(|member| member.is_synced() && member.shard.is_settled());
        (core.shard.clone(), settled)
    }

    /// The source of which the members are parts; `None` after the stop.
    pub(super) fn list_watch(&self) -> Option<ListWatch<K>> {
        self.core.lock().template.as_ref()?.list_watch.clone()
    }

    /// Replaces the members: evicts the objects of `removed`, and has `added` started.
    ///
    /// `choose` decides under the lock, so that the last of several calls wins.
    pub(super) fn change_members(
        &self,
        choose: impl FnOnce(&[Arc<Member<K>>]) -> MemberChange<K>,
    ) -> Result<(), StoppedError> {
        let mut core = self.core.lock();
        if self.drain.is_cancelled() {
            return Err(self.stopped_error());
        }
        let before = self.members();
        let MemberChange { kept, removed, added } = choose(&before);
        let mut members = kept;
        let mut dropped = Vec::new();
        for member in removed {
            member.remove();
            core.deliver(|writer, events| writer.evict_member(member.id, events));
            let waiting = (core.added.iter()).position(|task| Arc::ptr_eq(&task.member, &member));
            if let Some(position) = waiting {
                // It was never started.
                dropped.push(core.added.remove(position));
                core.free_ids.push(member.id);
            }
        }
        for source in added {
            let id = core.new_id();
            core.writer.add_member(id);
            let stop = self.drain.child_token();
            let shard = core.shard.clone();
            // It is there until the informer has stopped.
            let Some(template) = &core.template else { break };
            let task = template.build(id, source, shard, stop);
            members.push(task.member.clone());
            core.added.push(task);
        }
        members.sort_by(|left, right| left.namespace.cmp(&right.namespace));
        *self.members.write() = members.into();
        // The member that the others waited for may be gone.
        let newly_synced = self.life.borrow().started && self.complete(&mut core);
        drop(core);
        drop(dropped);
        self.members_added.notify_one();
        self.announce(newly_synced);
        Ok(())
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
    /// Changes the store, and puts the events of the change behind those that the handlers have yet to receive.
    fn deliver(&mut self, write: impl FnOnce(&mut DeltaWriter<K>, &mut Vec<Event<K>>) -> Applied) -> Applied {
        let mut events = Vec::new();
        let applied = write(&mut self.writer, &mut events);
        self.totals.add(&applied);
        self.dispatcher.dispatch(events);
        applied
    }

    /// An id for a new member.
    fn new_id(&mut self) -> usize {
        self.free_ids.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id - 1
        })
    }
}

/// What observes a batch on its way from the queue to the store: the audit, and the freshness of the cache.
struct BatchObserver {
    /// Whether the audit has recorded what the batch changes.
    recorded: bool,
    /// The proof that the reflector is current, if the batch is the last one that was queued.
    proof: Option<Instant>,
}

impl BatchObserver {
    /// A batch is about to be applied.
    fn before<K: Object>(member: &Member<K>, deltas: &[Delta<K>]) -> Self {
        Self {
            // Read before the batch is applied: a newer proof may belong to a delta that is queued in between.
            proof: member.reflector.last_proof().filter(|_| member.queue.is_empty()),
            recorded: member.tracking.record(deltas),
        }
    }

    /// The batch is in the store.
    fn after<K: Object>(self, member: &Member<K>) {
        member.tracking.applied(self.recorded);
        member.note_proof(self.proof);
    }
}

/// Another set of members.
pub(super) struct MemberChange<K> {
    pub(super) kept: Vec<Arc<Member<K>>>,
    pub(super) removed: Vec<Arc<Member<K>>>,
    pub(super) added: Vec<Arc<dyn ListerWatcher<K>>>,
}
