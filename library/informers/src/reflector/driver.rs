//! Runs the machine: performs its actions, waits for what it waits for, and reports each input to it.

mod loading;
mod outbox;
mod recovery;
mod resync;
mod shards;

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use super::ReflectorParts;
use super::config::JitterRng;
use super::gather::Gathered;
use super::load::Load;
use super::machine::{Action, Context, EventKind, Input, Machine, Next, Report};
use super::recovery::{GroupMember, Turn};
use super::report::{Operation, RelistReason, Resume, StreamEnd, Violation};
use super::status::ReflectorStatus;
use super::trace::{ListTrace, Received};
use super::transform::{Transformed, transformed};
use crate::delta::Delta;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::shard::Shard;
use crate::source::{ListStream, WatchStream};
use crate::time::after;
use crate::wire::{Fetched, ListItem, SourceError, WatchItem};
use outbox::Outbox;

enum OpenStream<K> {
    Closed,
    List(ListStream<K>),
    Watch(WatchStream<K>),
}

/// The result of reading the open stream.
enum Read<K> {
    List(Option<Result<ListItem<K>, SourceError>>),
    Watch(Option<Result<WatchItem<K>, SourceError>>),
}

/// Why the driver stopped waiting for the open stream.
enum Woken<K> {
    ShardMoved,
    RelistRequested(RelistReason, SourceError),
    Read(Result<Read<K>, Elapsed>),
}

pub(super) struct Driver<K> {
    parts: ReflectorParts<K>,
    status: Arc<ReflectorStatus>,
    machine: Machine,
    jitter: JitterRng,
    stream: OpenStream<K>,
    gathered: Gathered<K>,
    outbox: Outbox<K>,
    /// The cost of the current fetch.
    load: Load,
    resource: String,
    /// The only namespace of the source, if there is one.
    namespace: Option<String>,
    /// Whether lists report the shard selector they applied.
    echoes_shard: bool,
    /// The shard of the current or last fetch.
    requested: Option<Shard>,
    /// The time of the next resync.
    resync_at: Option<Instant>,
    synced: bool,
    /// There was no progress since the last failure.
    failing: bool,
    trace: ListTrace,
    /// No object of the current page has been received.
    page_starts: bool,
    group: GroupMember,
    /// Held while the collection is being loaded.
    turn: Option<Turn>,
    /// The last attempt did not reach the server.
    unreachable: bool,
}

/// A load that has received nothing for this long gives up its turn.
const LOAD_QUIET: Duration = Duration::from_secs(2);

impl<K: Object> Driver<K> {
    pub(super) fn new(parts: ReflectorParts<K>, status: Arc<ReflectorStatus>, watch_list: bool) -> Self {
        let group = parts.config.recovery.clone().unwrap_or_default().member();
        Self {
            machine: Machine::new(parts.config.clone(), watch_list),
            jitter: JitterRng::new(parts.config.jitter),
            resource: parts.source.describe(),
            namespace: parts.source.namespace(),
            echoes_shard: (parts.source.resource()).is_some_and(|resource| !resource.is_metadata_only()),
            requested: None,
            parts,
            status,
            stream: OpenStream::Closed,
            gathered: Gathered::new(),
            outbox: Outbox::new(),
            load: Load::default(),
            resync_at: None,
            synced: false,
            failing: false,
            trace: ListTrace::default(),
            page_starts: true,
            group,
            turn: None,
            unreachable: false,
        }
    }

    /// Runs until the future is dropped.
    pub(super) async fn drive(&mut self) {
        if self.parts.shard.is_empty() {
            self.rest().await;
        } else {
            self.step(Input::Start, None).await;
        }
        loop {
            if self.failing && self.machine.attempts() == 0 {
                self.failing = false;
                self.status.recovered();
            }
            match self.machine.next(Instant::now()) {
                Next::Sleep { until } => {
                    self.flush();
                    // Between two pages it is still listing.
                    if !self.machine.is_fetching() {
                        self.status.backing_off(Instant::now(), until);
                    }
                    // All are cancel-safe: the time does not change, the tracker and the group keep their notifications,
                    // and a request to retry is meant for a pause.
                    tokio::select! {
                        biased;
                        () = self.parts.shard.moved() => self.shard_changed().await,
                        () = self.status.retry_requested() => self.step(Input::RetryNow, None).await,
                        () = self.group.reached() => self.step(Input::ServerReached, None).await,
                        () = sleep_until(until) => self.step(Input::Woken, None).await,
                    }
                }
                Next::Rest => {
                    self.flush();
                    self.status.resting();
                    self.parts.shard.moved().await;
                    self.shard_changed().await;
                }
                Next::Read { mut deadline } => {
                    // A full target stops the reading, so that the server holds the data back.
                    if !self.parts.target.has_room() {
                        self.flush();
                        // Others may load meanwhile.
                        self.turn = None;
                        tokio::select! {
                            biased;
                            () = self.parts.shard.moved() => {
                                self.shard_changed().await;
                                continue;
                            }
                            () = self.parts.target.room() => {}
                        }
                        self.step(Input::TargetWasFull, None).await;
                        if let Next::Read { deadline: new } = self.machine.next(Instant::now()) {
                            deadline = new;
                        }
                    }
                    self.read(deadline).await;
                }
            }
        }
    }

    async fn read(&mut self, deadline: Instant) {
        let resync_at = self.resync_at.filter(|_| self.synced);
        let until = resync_at.map_or(deadline, |at| at.min(deadline));
        let until = match self.turn {
            Some(_) => until.min(Instant::now() + LOAD_QUIET),
            None => until,
        };
        let (stream, outbox) = (&mut self.stream, &mut self.outbox);
        let proof = (!self.machine.receives_older_events()).then_some(self.trace.last_data);
        let woken = {
            let mut next = pin!(async {
                match stream {
                    OpenStream::List(stream) => timeout_at(until, stream.next()).await.map(Read::List),
                    OpenStream::Watch(stream) => timeout_at(until, stream.next()).await.map(Read::Watch),
                    OpenStream::Closed => Ok(Read::Watch(None)),
                }
            });
            let next = poll_fn(|cx| {
                let read = next.as_mut().poll(cx);
                if read.is_pending() {
                    let version = self.machine.last_version();
                    outbox.flush(&*self.parts.target, &self.status, &self.resource, version, proof);
                }
                read
            });
            // Cancel-safe: `next` loses nothing if it is dropped before it is ready.
            tokio::select! {
                biased;
                () = self.parts.shard.moved() => Woken::ShardMoved,
                (reason, error) = self.status.oversight.relist_requested(), if self.machine.is_watching() => {
                    Woken::RelistRequested(reason, error)
                }
                read = next => Woken::Read(read),
            }
        };
        let read = match woken {
            Woken::ShardMoved => return self.shard_changed().await,
            Woken::RelistRequested(reason, error) => {
                self.flush();
                return self.step(Input::RelistRequested(reason), Some(error)).await;
            }
            Woken::Read(read) => read,
        };
        match read {
            Ok(Read::List(item)) => self.list_item(item).await,
            Ok(Read::Watch(item)) => self.watch_item(item).await,
            Err(_) if resync_at.is_some_and(|at| at <= Instant::now()) => self.resync().await,
            Err(_) if Instant::now() < deadline => self.turn = None,
            Err(_) => {
                let silence = deadline.saturating_duration_since(self.trace.last_data);
                let error = self.machine.overdue(Instant::now(), silence);
                self.step(Input::DeadlinePassed, Some(error)).await;
            }
        }
    }

    async fn list_item(&mut self, item: Option<Result<ListItem<K>, SourceError>>) {
        self.answered(item.as_ref().and_then(|item| item.as_ref().err()));
        let received = match &item {
            Some(Ok(ListItem::Progress { .. })) => Received::Bytes,
            _ => Received::Item,
        };
        self.trace.received(Instant::now(), received);
        match item {
            Some(Ok(ListItem::Progress { bytes })) => self.progress(bytes).await,
            Some(Ok(ListItem::Object(fetched))) => {
                let object = fetched.object();
                self.listed(Some((object.object_namespace(), object.object_name())));
                if self.is_foreign(object.object_namespace()) {
                    self.foreign();
                } else {
                    self.gather(EventKind::Added, fetched);
                }
            }
            Some(Ok(ListItem::Unreadable(bad))) => {
                let key = bad.key.as_ref();
                self.listed(key.map(|key| (key.namespace(), key.name())));
                self.unreadable(&bad);
                self.gather_unreadable(bad);
            }
            Some(Ok(ListItem::Outside)) => {
                self.listed(None::<()>);
                self.load.object(true);
                self.outside();
            }
            Some(Ok(ListItem::End(meta))) => {
                self.judge_shard(&meta);
                self.status.page(meta.remaining);
                self.step(Input::PageEnd(&meta), None).await;
                let paced = self.machine.paced_pages();
                self.status.count(|stats| stats.paced_pages = paced);
            }
            Some(Err(error)) => self.failed(error).await,
            None => self.step(Input::Ended, None).await,
        }
        self.enforce_limits().await;
    }

    async fn watch_item(&mut self, item: Option<Result<WatchItem<K>, SourceError>>) {
        self.answered(item.as_ref().and_then(|item| item.as_ref().err()));
        let received = match &item {
            Some(Ok(WatchItem::Progress { .. })) => Received::Bytes,
            _ => Received::Item,
        };
        self.trace.received(Instant::now(), received);
        match item {
            Some(Ok(WatchItem::Progress { bytes })) => self.progress(bytes).await,
            Some(Ok(WatchItem::Added(fetched))) => self.event(EventKind::Added, fetched),
            Some(Ok(WatchItem::Modified(fetched))) => self.event(EventKind::Modified, fetched),
            Some(Ok(WatchItem::Deleted(fetched))) => self.event(EventKind::Deleted, fetched),
            Some(Ok(WatchItem::Unreadable { deleted, object })) => self.unreadable_event(deleted, object),
            Some(Ok(WatchItem::Outside {
                resource_version,
                added,
            })) => self.outside_event(resource_version, added),
            Some(Ok(WatchItem::Bookmark {
                resource_version,
                initial_events_end,
            })) => {
                self.status.count(|stats| stats.bookmarks += 1);
                let resource_version = resource_version.as_deref();
                self.step(
                    Input::Bookmark {
                        resource_version,
                        initial_events_end,
                    },
                    None,
                )
                .await;
                let ignored = self.machine.ignored_bookmarks();
                self.status.count(|stats| stats.ignored_bookmarks = ignored);
            }
            Some(Ok(WatchItem::Error(error))) => {
                let input_error = error.clone();
                self.step(Input::ErrorEvent(&input_error), Some(SourceError::Api(error)))
                    .await;
            }
            Some(Err(error)) => self.failed(error).await,
            None => self.step(Input::Ended, None).await,
        }
        self.enforce_limits().await;
    }

    /// An object of a list with this key was received.
    fn listed(&mut self, key: Option<impl Hash>) {
        let first_key = key.filter(|_| self.page_starts).map(|key| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            hasher.finish()
        });
        self.page_starts = false;
        self.actions(Input::ListedObject { first_key });
    }

    async fn failed(&mut self, error: SourceError) {
        let error = Arc::new(error);
        let actions = self.actions(Input::Failed(&error));
        self.perform(actions, Some(error)).await;
    }

    /// Passes an input to the machine and returns its actions.
    fn actions(&mut self, input: Input<'_>) -> Vec<Action> {
        let now = Instant::now();
        let mut context = Context::new(now, self.jitter.next());
        context.resume_delay = self.resume_delay(&input, now);
        self.machine.step(input, &mut context);
        if let Some(doubt) = self.machine.take_doubt() {
            self.status.oversight.doubt(doubt);
        }
        context.actions
    }

    /// Whether the object of an event goes to the target, and not into an incomplete collection.
    fn is_forwarded(&mut self, kind: EventKind, version: Option<&str>) -> bool {
        self.actions(Input::Event { kind, version }) == [Action::Forward]
    }

    /// Passes an input to the machine and performs its actions.
    async fn step(&mut self, input: Input<'_>, error: Option<SourceError>) {
        let actions = self.actions(input);
        if !actions.is_empty() {
            self.perform(actions, error.map(Arc::new)).await;
        }
    }

    async fn perform(&mut self, actions: Vec<Action>, error: Option<Arc<SourceError>>) {
        // Whatever follows, the target receives the events before it first.
        self.flush();
        for action in actions {
            match action {
                Action::List(mut request) => {
                    let now = self.take_turn().await;
                    if request.continue_token.is_none() {
                        self.requested = self.parts.shard.target();
                        self.load = Load::default();
                    }
                    request.shard = self.requested.clone();
                    debug!(resource = %self.resource, ?request, "listing");
                    self.status.listing(now);
                    self.page_starts = true;
                    match request.continue_token {
                        None => self.trace.begin(now, &self.resource, "list"),
                        Some(_) => self.trace.next_request(now),
                    }
                    self.stream = OpenStream::List(self.parts.source.list(request, self.parts.known.clone()));
                }
                Action::Watch(mut request) => {
                    let now = match request.initial_events {
                        true => self.take_turn().await,
                        false => Instant::now(),
                    };
                    if request.initial_events {
                        self.load = Load::default();
                        self.requested = self.parts.shard.target();
                        request.shard = self.requested.clone();
                    } else {
                        request.shard = self.parts.shard.fetched();
                    }
                    debug!(resource = %self.resource, ?request, "watching");
                    self.status.watch_opened(now);
                    if request.initial_events {
                        self.status.listing(now);
                        self.trace.begin(now, &self.resource, "watch-list");
                    } else {
                        self.status.watching(now);
                        self.trace.last_data = now;
                    }
                    self.stream =
                        OpenStream::Watch(self.parts.source.watch(request, self.parts.known.clone()));
                }
                Action::Discard => {
                    self.gathered.clear();
                    self.status.discarded();
                }
                Action::Commit { resource_version, by } => {
                    if let Err(error) = self.commit(resource_version, by) {
                        // The remaining actions, which follow a successful commit, are dropped.
                        let actions = self.actions(Input::CommitRejected(by));
                        Box::pin(self.perform(actions, Some(Arc::new(error)))).await;
                        return;
                    }
                    self.actions(Input::Committed);
                }
                Action::Bookmark { resource_version } => {
                    self.offer(Delta::Bookmark { resource_version });
                }
                Action::Report(report) => self.report(Instant::now(), report, error.as_ref()),
                // Handled by `is_forwarded`.
                Action::Gather | Action::Forward => {}
            }
        }
        if !self.machine.is_fetching() {
            self.turn = None;
        }
    }

    fn report(&mut self, now: Instant, report: Report, error: Option<&Arc<SourceError>>) {
        let violation = report.violation.map(|violation| Arc::new(violation.into_error()));
        // The regular end of a watch is not an error, even if a deadline caused it.
        let error = violation.as_ref().or(error).filter(|_| report.attempts > 0);
        let rewinds = self.machine.rewinds();
        let endless = matches!(
            report.violation,
            Some(Violation::RepeatedToken | Violation::TooManyPages(_))
        );
        self.status.count(|stats| {
            stats.rewinds = rewinds;
            stats.endless_lists += u64::from(endless);
        });
        self.group.ignore_earlier();
        // The next stream is opened by a later action.
        if report.violation != Some(Violation::Rewind) {
            self.stream = OpenStream::Closed;
            self.status.ended(now, report.resume, report.attempts, error);
            self.failing |= report.attempts > 0;
        }
        let end = StreamEnd {
            resource: &self.resource,
            operation: report.operation,
            error: error.map(|error| &**error),
            resume: report.resume,
            pause: report.pause,
            attempts: report.attempts,
        };
        // Logged at powers of two: a resource that cannot be listed must not fill the log. Many servers do not support
        // watch-lists, so the fallback is not a warning.
        if report.resume == Resume::ListInstead && report.attempts.is_power_of_two() {
            info!(resource = %self.resource, "{end}");
        } else if report.resume != Resume::ListInstead && error.is_some() && report.attempts.is_power_of_two()
        {
            warn!(resource = %self.resource, attempts = report.attempts, "{end}");
        } else {
            debug!(resource = %self.resource, attempts = report.attempts, "{end}");
        }
        if let Some(hook) = &self.parts.config.on_stream_end
            && catch_unwind(AssertUnwindSafe(|| hook(&end))).is_err()
        {
            warn!(resource = %self.resource, "the on_stream_end hook panicked");
        }
    }

    /// Sends the gathered collection to the target.
    fn commit(&mut self, resource_version: Option<String>, by: Operation) -> Result<(), SourceError> {
        let now = Instant::now();
        self.check_readable()?;
        let replacement = self
            .gathered
            .take(resource_version.clone(), self.requested.clone());
        let objects = replacement.objects.len();
        self.flush();
        self.parts.shard.admit();
        if let Err(error) = self.parts.target.accept(Delta::ReplacedAll(replacement)) {
            self.parts.shard.withdraw();
            self.status.count(|stats| stats.target_errors += 1);
            warn!(resource = %self.resource, objects, %error, "the target rejected the list");
            return Err(SourceError::Malformed("the target rejected the list".to_owned()));
        }
        self.parts.shard.mark_fetched(self.requested.as_ref());
        let took = self.trace.complete(&self.resource, objects);
        self.synced = true;
        self.resync_at = self.parts.config.resync.map(|period| after(now, period));
        self.status.version(resource_version.as_deref(), Some(now));
        self.status.synced();
        self.status.oversight.settle();
        self.status.count(|stats| {
            stats.lists += 1;
            stats.watch_lists += u64::from(by == Operation::WatchList);
            stats.list_duration += took;
            stats.last_list_duration = took;
            stats.list_durations.observe(took);
        });
        self.status.watching(now);
        debug!(resource = %self.resource, objects, version = resource_version, by = %by, "collection is complete");
        Ok(())
    }

    fn event(&mut self, kind: EventKind, fetched: Fetched<K>) {
        if self.is_foreign(fetched.object().object_namespace()) {
            return self.foreign_event(kind, &fetched);
        }
        let version = fetched.object().object_version().map(str::to_owned);
        if !self.is_forwarded(kind, version.as_deref()) {
            return self.gather(kind, fetched);
        }
        let delta = match (transformed(self.parts.transform.as_ref(), fetched), kind) {
            (Transformed::Object(object), EventKind::Added) => Delta::Added(object),
            (Transformed::Object(object), EventKind::Modified) => Delta::Updated(object),
            (Transformed::Object(object), EventKind::Deleted) => Delta::Deleted(object),
            (
                Transformed::Dropped {
                    key,
                    resource_version,
                },
                EventKind::Deleted,
            ) => {
                // The object is deleted. If the target holds an earlier state, it must be deleted there too.
                let problem = Problem::Transform("it dropped the object".to_owned());
                Delta::DeletedUnreadable(BadObject {
                    key: Some(key),
                    uid: None,
                    resource_version,
                    problem,
                    size: 0,
                })
            }
            (
                Transformed::Dropped {
                    key,
                    resource_version,
                },
                _,
            ) => {
                self.status.count(|stats| stats.dropped += 1);
                Delta::Dropped {
                    key,
                    resource_version,
                }
            }
            (Transformed::Bad(bad), EventKind::Deleted) => Delta::DeletedUnreadable(bad),
            (Transformed::Bad(bad), _) => {
                self.unreadable(&bad);
                Delta::Unreadable(bad)
            }
        };
        self.forward(delta);
    }
}
