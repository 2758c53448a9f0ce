//! One run: the shipping stages between the model of the server and modelled handlers, on one thread, in virtual time.
//!
//! ```text
//!  model of the server ─▶ Reflector ─▶ queue ─▶ DeltaWriter ─▶ Dispatcher ─▶ modelled handlers
//!                          polled by     pop and apply are         receive when
//!                          the world     entries of the tape       the tape says so
//! ```

mod end;
mod shards;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kube_informers::Store;
use kube_informers::handler::Backlog;
use kube_informers::handler::HandlerOptions;
use kube_informers::queue::{Batch, InOrderQueue};
use kube_informers::reflector::{
    InitialList, Jitter, Reflector, ReflectorConfig, ReflectorHandle, ReflectorState,
};
use kube_informers::sim::{DeltaWriter, Dispatcher, Origin, Prepared, follow_shard, start};
use kube_informers::store::Index;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::shards::Shards;
use crate::handlers::SimHandler;
use crate::invariants::{
    CacheModel, Check, HandlerModel, Violation, c5_c6_watches, h6_index_is_not_older,
    i1_index_equals_rebuild, i3_late_index_equals_early, l1_l2_requests, violated,
};
use crate::leases;
use crate::object::Thing;
use crate::server::{Fault, ModelSource, On, RequestFault, Server, SharedServer};
use crate::tape::{Kind, Op, Tape};

/// The most handlers at a time.
const MAX_HANDLERS: usize = 5;

/// A run that violated an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The entry of the tape after which it was violated; the length of the tape if it was while healing.
    pub step: usize,
    /// What was violated.
    pub violation: Violation,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// A hash of everything that was observed.
    pub hash: u64,
    /// What was violated.
    pub failure: Option<Failure>,
    /// The faults that occurred, with the state in which they did.
    pub coverage: BTreeSet<(ReflectorPhase, Kind)>,
    /// The number of requests.
    pub requests: usize,
    /// What happened, one line per step, if it was requested.
    pub journal: Vec<String>,
}

/// The state of the reflector, for the coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReflectorPhase {
    /// Nothing was requested yet.
    Starting,
    /// The initial list is being fetched.
    FirstList,
    /// The collection is being fetched again.
    Relisting,
    /// Watching.
    Watching,
    /// Waiting before the first list.
    WaitingToList,
    /// Waiting with a cache.
    WaitingToResume,
    /// The shard is empty.
    Resting,
}

impl ReflectorPhase {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Starting,
        Self::FirstList,
        Self::Relisting,
        Self::Watching,
        Self::WaitingToList,
        Self::WaitingToResume,
        Self::Resting,
    ];
}

/// Runs a tape: that of an informer, of an election or of a shard group.
pub fn run(tape: &Tape, with_journal: bool) -> Outcome {
    match tape.settings.subject {
        1 => leases::election::run(tape, with_journal),
        2 => leases::group::run(tape, with_journal),
        _ => run_informer(tape, with_journal),
    }
}

fn run_informer(tape: &Tape, with_journal: bool) -> Outcome {
    let before = Thing::in_memory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can always be built");
    let mut outcome = runtime.block_on(async {
        let mut world = World::new(tape, with_journal);
        let failure = world.play(tape).await.err();
        Outcome {
            hash: world.trace.finish(),
            failure,
            requests: world.server.lock().requests.len(),
            coverage: std::mem::take(&mut world.coverage),
            journal: std::mem::take(&mut world.journal),
        }
    });
    drop(runtime);
    if Thing::in_memory() != before && outcome.failure.is_none() {
        let violation = violated("C12", "objects are in memory after everything was dropped").err();
        let step = tape.ops.len();
        outcome.failure = violation.map(|violation| Failure { step, violation });
    }
    outcome
}

struct World {
    start: Instant,
    server: SharedServer,
    reflector: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    handle: ReflectorHandle,
    stop: CancellationToken,
    queue: Arc<InOrderQueue<Thing>>,
    batch: Option<Batch<Thing>>,
    writer: DeltaWriter<Thing>,
    store: Store<Thing>,
    dispatcher: Dispatcher<Thing>,
    running: Box<dyn Fn() -> usize>,
    synced: bool,
    /// The queue was synced before the store had the first list.
    synced_early: bool,
    /// The reflector has started.
    started: bool,
    handlers: Vec<SimHandler>,
    shards: Shards,
    /// The store or the history may have changed in a way that the cache has not been checked against.
    is_unchecked: bool,
    /// The number of requests that have been checked.
    requests_checked: usize,
    early: Index<Thing>,
    late: Vec<Index<Thing>>,
    cache: CacheModel,
    trace: DefaultHasher,
    coverage: BTreeSet<(ReflectorPhase, Kind)>,
    journal: Vec<String>,
    with_journal: bool,
    /// The number of events that handlers received.
    received: u64,
}

impl World {
    fn new(tape: &Tape, with_journal: bool) -> Self {
        let settings = &tape.settings;
        let server = Arc::new(Mutex::new(Server::new(settings)));
        let source = ModelSource {
            server: server.clone(),
            watch_list: settings.watch_list == 1,
        };
        let writer = DeltaWriter::new();
        let store = writer.store();
        let early = store.index_or_add("early", |object: &Thing| [object.label.to_string()]);
        let capacity = settings.capacity.max(1) as usize;
        let queue = Arc::new(InOrderQueue::new().capacity(capacity));
        let mut config = ReflectorConfig {
            jitter: Jitter::Seeded(settings.jitter.into()),
            page_size: (settings.page > 0).then_some(settings.page),
            ..Default::default()
        };
        if settings.any_cached == 1 {
            config.initial_list = InitialList::AnyCached;
        }
        let shards = Shards::new(settings);
        let reflector = Reflector::new(source, queue.clone())
            .config(config)
            .known(Arc::new(store.clone()));
        let reflector = follow_shard(reflector, shards.tracker.clone());
        let handle = reflector.handle();
        let stop = CancellationToken::new();
        let mut dispatcher = Dispatcher::default();
        let running = start(&mut dispatcher);
        Self {
            start: Instant::now(),
            server,
            reflector: Some(Box::pin(reflector.run(stop.clone()))),
            handle,
            stop,
            queue,
            batch: None,
            writer,
            store,
            dispatcher,
            running: Box::new(running),
            synced: false,
            synced_early: false,
            started: false,
            handlers: Vec::new(),
            shards,
            is_unchecked: true,
            requests_checked: 0,
            early,
            late: Vec::new(),
            cache: CacheModel::default(),
            trace: DefaultHasher::new(),
            coverage: BTreeSet::new(),
            journal: Vec::new(),
            with_journal,
            received: 0,
        }
    }

    async fn play(&mut self, tape: &Tape) -> Result<(), Failure> {
        for (step, op) in tape.ops.iter().enumerate() {
            let failed = |violation| Failure { step, violation };
            if op.kind.is_fault() {
                self.coverage.insert((self.state(), op.kind));
            }
            op.hash(&mut self.trace);
            self.perform(*op, tape.settings.keys).await.map_err(failed)?;
            self.started |= step >= tape.settings.start_after as usize;
            self.settle().await;
            self.is_unchecked |= matches!(op.kind, Kind::Restore | Kind::AddIndex);
            self.check().map_err(failed)?;
            self.record(*op);
            if op.kind == Kind::Stop {
                return self.shut_down(step).await;
            }
        }
        let step = tape.ops.len();
        let failed = |violation| Failure { step, violation };
        self.heal(tape).await.map_err(failed)?;
        self.shut_down(step).await
    }

    /// The state of the reflector.
    fn state(&self) -> ReflectorPhase {
        let had_list = self.handle.stats().lists > 0;
        match self.handle.state() {
            ReflectorState::Watching { .. } => ReflectorPhase::Watching,
            ReflectorState::Listing { .. } if had_list => ReflectorPhase::Relisting,
            ReflectorState::Listing { .. } => ReflectorPhase::FirstList,
            ReflectorState::BackingOff { .. } if had_list => ReflectorPhase::WaitingToResume,
            ReflectorState::BackingOff { .. } => ReflectorPhase::WaitingToList,
            ReflectorState::Resting => ReflectorPhase::Resting,
            _ => ReflectorPhase::Starting,
        }
    }

    async fn perform(&mut self, op: Op, keys: u32) -> Check {
        let Op { kind, a, b } = op;
        let key = a % keys.max(1);
        let code = |a: u32| u16::try_from(a).unwrap_or(500);
        let fault = |on, what, times: u32| RequestFault {
            on,
            what,
            times: times.max(1),
        };
        let mut server = self.server.lock();
        match kind {
            Kind::Create => server.create(key, b),
            Kind::Update => server.update(key, b, false),
            Kind::Delete => server.delete(key),
            Kind::Recreate => {
                server.delete(key);
                server.create(key, b);
            }
            Kind::Poison => server.update(key, b, true),
            Kind::Elsewhere => server.write_elsewhere(a),
            Kind::Freeze => server.freeze(a),
            Kind::CatchUp => server.catch_up(a),
            Kind::Route => server.route(a),
            Kind::Compact => server.compact(a),
            Kind::Restore => server.restore(a, b == 1),
            Kind::Break => server.break_streams(),
            Kind::Close => server.close_watches(),
            Kind::Silence => server.silence(),
            Kind::Bookmark => server.send_bookmarks(),
            Kind::OldBookmark => server.send_old_bookmark(a),
            Kind::Replay => server.replay(a, b),
            Kind::Flap => server.fault(fault(On::Watch, Fault::Flap, 10 * b)),
            Kind::ErrorEvent => server.send_error(code(a)),
            Kind::Status => server.fault(fault(On::Any, Fault::Status(code(a), None), b)),
            Kind::Throttle => server.fault(fault(On::Any, Fault::Status(429, Some(a)), b)),
            Kind::ListStatus => server.fault(fault(On::Lists, Fault::Status(code(a), None), b)),
            Kind::WatchStatus => server.fault(fault(On::Watches, Fault::Status(code(a), None), b)),
            Kind::Refuse => server.fault(fault(On::Any, Fault::Refuse, b)),
            Kind::Hang => server.fault(fault(On::Any, Fault::Hang, b)),
            Kind::CutAfter => server.fault(fault(On::Any, Fault::CutAfter(a), 1)),
            Kind::EndAfter => server.fault(fault(On::Any, Fault::EndAfter(a), 1)),
            Kind::NoEndMarker => server.fault(fault(On::WatchList, Fault::NoEndMarker, 1)),
            Kind::PagesDiffer => server.fault(fault(On::Page, Fault::PagesDiffer, 1)),
            Kind::RepeatToken => server.fault(fault(On::Page, Fault::RepeatToken, 1)),
            Kind::ExpireToken => server.fault(fault(On::Page, Fault::ExpireToken, 1)),
            Kind::StaleList => server.fault(fault(On::List, Fault::StaleList, 1)),
            Kind::Pump => server.pump(a),
            Kind::Advance => {
                drop(server);
                tokio::time::advance(Duration::from_millis(a.into())).await;
            }
            Kind::Pop => {
                drop(server);
                self.pop(a.max(1) as usize);
            }
            Kind::Apply => {
                drop(server);
                self.apply();
            }
            Kind::Requeue => {
                drop(server);
                if let Some(batch) = self.batch.take() {
                    batch.requeue();
                }
            }
            Kind::Process => {
                drop(server);
                self.process();
            }
            Kind::Join => {
                drop(server);
                self.join(a, b == 1);
            }
            Kind::Leave => {
                drop(server);
                self.leave(a);
            }
            Kind::Receive => {
                drop(server);
                if let Some(handler) = self.handler(a) {
                    let events = self.handlers[handler].receive(b.max(1));
                    self.received(handler, &events)?;
                }
            }
            Kind::Panic => {
                drop(server);
                if let Some(handler) = self.handler(a) {
                    self.handlers[handler].panic_next();
                }
            }
            Kind::MoveShard => {
                drop(server);
                self.move_shard(a);
            }
            Kind::Resync => {
                drop(server);
                let snapshot = self.store.list();
                self.dispatcher.resync_due(Instant::now(), &snapshot);
            }
            Kind::AddIndex => {
                drop(server);
                let name = format!("late {}", self.late.len());
                let index = self
                    .store
                    .index_or_add(&name, |object: &Thing| [object.label.to_string()]);
                self.late.push(index);
            }
            Kind::Stop => {
                drop(server);
                self.stop.cancel();
            }
            // Of elections and groups.
            _ => {}
        }
        Ok(())
    }

    fn handler(&self, number: u32) -> Option<usize> {
        (number as usize).checked_rem(self.handlers.len())
    }

    fn join(&mut self, how: u32, on_task: bool) {
        if self.handlers.len() >= MAX_HANDLERS {
            return;
        }
        let coalesces = how & 1 == 1;
        let mut options = HandlerOptions::default();
        if coalesces {
            options = options.backlog(Backlog::CoalesceByKey);
        }
        if how & 2 == 2 {
            options = options.resync(Duration::from_secs(5));
        }
        let model = HandlerModel::new(coalesces, self.cache.held(), self.synced);
        let snapshot = self.store.list();
        let dispatcher = &mut self.dispatcher;
        let handler = SimHandler::join(dispatcher, &options, on_task, snapshot, self.synced, model);
        self.handlers.extend(handler);
    }

    fn leave(&mut self, number: u32) {
        let Some(handler) = self.handler(number) else {
            return;
        };
        self.handlers[handler].leave();
        if !self.handlers[handler].is_on_task() {
            self.handlers.remove(handler);
        }
    }

    fn pop(&mut self, max: usize) {
        if self.batch.is_none() {
            let queue = self.queue.clone();
            let mut pop = std::pin::pin!(queue.pop_batch(max));
            if let Poll::Ready(batch) = pop.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                self.batch = batch;
            }
        }
    }

    /// Applies the batch that was taken, as the process loop of an informer does.
    fn apply(&mut self) -> bool {
        let Some(mut batch) = self.batch.take() else {
            return false;
        };
        let origin = Origin {
            member: 0,
            initial: batch.initial,
        };
        let deltas = std::mem::take(&mut batch.deltas);
        let shard = self.shards.apply(&deltas);
        let prepared = Prepared::new(&self.store, origin, deltas);
        let mut events = Vec::new();
        self.writer.apply(prepared.restrict_to(shard), &mut events);
        self.dispatch(events);
        batch.done();
        self.note_synced();
        true
    }

    fn dispatch(&mut self, events: Vec<kube_informers::Event<Thing>>) {
        self.is_unchecked = true;
        for handler in self.handlers.iter_mut().filter(|handler| !handler.is_removed()) {
            handler.model.dispatched(&events);
        }
        self.dispatcher.dispatch(events);
    }

    fn process(&mut self) {
        loop {
            self.pop(1000);
            if !self.apply() {
                break;
            }
        }
        self.note_synced();
    }

    fn note_synced(&mut self) {
        if !self.synced && self.queue.has_synced() {
            self.synced = true;
            self.synced_early = self.store.resource_version().is_none() && !self.shards.was_empty;
            self.dispatcher.synced();
            for handler in &mut self.handlers {
                handler.model.synced(&self.store);
            }
        }
    }

    fn received(&mut self, handler: usize, events: &[kube_informers::Event<Thing>]) -> Check {
        let server = self.server.lock();
        for event in events {
            self.received += 1;
            handler.hash(&mut self.trace);
            std::mem::discriminant(event).hash(&mut self.trace);
            let object = event.object();
            (object.key, object.uid(), object.revision, event.is_initial()).hash(&mut self.trace);
            if self.with_journal {
                self.journal
                    .push(format!("    handler {handler} receives {event}"));
            }
            self.handlers[handler]
                .model
                .receive(event, &self.store, &server)?;
            h6_index_is_not_older(event, &self.early, &self.store)?;
        }
        Ok(())
    }

    /// Lets the reflector and the tasks of handlers run until they wait.
    async fn settle(&mut self) {
        for _ in 0..2 {
            if let Some(reflector) = self.reflector.as_mut().filter(|_| self.started) {
                let mut cx = Context::from_waker(Waker::noop());
                if reflector.as_mut().poll(&mut cx).is_ready() {
                    self.reflector = None;
                }
            }
            tokio::task::yield_now().await;
        }
        self.note_synced();
    }

    /// All invariants that hold after every step.
    fn check(&mut self) -> Check {
        if self.synced_early {
            return violated("H8", "synced before the first list was applied");
        }
        let is_unchecked = std::mem::take(&mut self.is_unchecked);
        {
            let server = self.server.lock();
            if is_unchecked {
                self.cache.check(&self.store, &server, self.shards.extent())?;
            }
            if server.requests.len() > std::mem::replace(&mut self.requests_checked, server.requests.len()) {
                l1_l2_requests(&server, self.start, &self.shards.moves)?;
                c5_c6_watches(&server)?;
            }
        }
        for handler in 0..self.handlers.len() {
            let events = self.handlers[handler].received();
            if self.handlers[handler].is_removed() {
                if !events.is_empty() {
                    return violated("H9", "a handler was called after it was removed");
                }
                continue;
            }
            self.received(handler, &events)?;
            let handler = &mut self.handlers[handler];
            if handler.overlapped() {
                return violated("H9", "two calls of one handler overlapped");
            }
            let (idle, synced, pending) = (handler.is_idle(), handler.has_synced(), handler.pending());
            (handler.model).check(&self.cache, is_unchecked, idle, synced, pending)?;
        }
        if is_unchecked {
            i1_index_equals_rebuild(&self.early, &self.store)?;
            for late in &self.late {
                i3_late_index_equals_early(&self.early, late)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, op: impl fmt::Display) {
        let version = self.store.resource_version();
        let at = self.start.elapsed().as_millis();
        version.hash(&mut self.trace);
        self.queue.len().hash(&mut self.trace);
        self.server.lock().requests.len().hash(&mut self.trace);
        at.hash(&mut self.trace);
        if self.with_journal {
            let server = self.server.lock();
            let line = format!(
                "{:<22} # {:>7.1} s  server {}  {:?}  queue {}  cache {} objects at {}",
                op.to_string(),
                at as f64 / 1000.0,
                server.head(),
                self.state(),
                self.queue.len(),
                self.store.len(),
                version.as_deref().unwrap_or("-"),
            );
            drop(server);
            self.journal.push(line);
        }
    }
}
