//! The thin shell around the machine: performs its actions, waits for what it waits for, tells it what came.

mod shards;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, info, trace, warn};

use super::config::Dice;
use super::gather::Gathered;
use super::machine::{Action, Disposition, EventKind, Input, Machine, Next, Report};
use super::report::{Complaint, Operation, Resume, StreamEnd};
use super::shared::Shared;
use super::steps::Steps;
use super::transform::{Transformed, transformed};
use super::{Parts, consistency};
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::shard::Shard;
use crate::source::{Fetched, ListItem, ListStream, SourceError, WatchItem, WatchStream};

enum Io<K> {
    Closed,
    List(ListStream<K>),
    Watch(WatchStream<K>),
}

/// What came out of the open stream.
enum Read<K> {
    List(Option<Result<ListItem<K>, SourceError>>),
    Watch(Option<Result<WatchItem<K>, SourceError>>),
}

pub(super) struct Driver<K> {
    parts: Parts<K>,
    shared: Arc<Shared>,
    machine: Machine,
    dice: Dice,
    io: Io<K>,
    gathered: Gathered<K>,
    resource: String,
    /// Whether lists say which shard they were narrowed to, if they were.
    echoes_shard: bool,
    /// The shard of the collection that is being fetched, or was last.
    asked: Option<Shard>,
    /// When the target is next told to go through everything again.
    resync_at: Option<Instant>,
    synced: bool,
    /// Something failed, and there was no progress since.
    failing: bool,
    /// What the last watch-list delivered, while it waits to be checked.
    delivered: Option<consistency::Contents>,
    steps: Steps,
}

impl<K: Object> Driver<K> {
    pub(super) fn new(parts: Parts<K>, shared: Arc<Shared>, watch_list: bool) -> Self {
        Self {
            machine: Machine::new(parts.config.clone(), watch_list),
            dice: Dice::new(parts.config.jitter),
            resource: parts.source.describe(),
            echoes_shard: (parts.source.resource()).is_some_and(|resource| !resource.is_metadata_only()),
            asked: None,
            parts,
            shared,
            io: Io::Closed,
            gathered: Gathered::new(),
            resync_at: None,
            synced: false,
            failing: false,
            delivered: None,
            steps: Steps::default(),
        }
    }

    /// Runs until the future is dropped.
    pub(super) async fn drive(&mut self) {
        if self.parts.shard.is_empty() {
            self.rest().await;
        } else {
            self.tell(Input::Start, None).await;
        }
        loop {
            if self.failing && self.machine.attempts() == 0 {
                self.failing = false;
                self.shared.recovered();
            }
            match self.machine.next(Instant::now()) {
                Next::Sleep { until } => {
                    self.shared.backing_off(Instant::now(), until);
                    // Cancel-safe both: the time is the same at the next turn, and the tracker keeps the notification.
                    tokio::select! {
                        biased;
                        () = self.parts.shard.moved() => self.shard_changed().await,
                        () = sleep_until(until) => self.tell(Input::Woken, None).await,
                    }
                }
                Next::Rest => {
                    self.shared.resting();
                    self.parts.shard.moved().await;
                    self.shard_changed().await;
                }
                Next::Read { mut deadline } => {
                    // A full target stops the reading, so that what is not read waits at the server.
                    if !self.parts.target.has_room() {
                        tokio::select! {
                            biased;
                            () = self.parts.shard.moved() => {
                                self.shard_changed().await;
                                continue;
                            }
                            () = self.parts.target.room() => {}
                        }
                        self.machine.held_up(Instant::now());
                        if let Next::Read { deadline: anew } = self.machine.next(Instant::now()) {
                            deadline = anew;
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
        let io = &mut self.io;
        let next = async {
            match io {
                Io::List(stream) => timeout_at(until, stream.next()).await.map(Read::List),
                Io::Watch(stream) => timeout_at(until, stream.next()).await.map(Read::Watch),
                Io::Closed => Ok(Read::Watch(None)),
            }
        };
        // Cancel-safe: a stream's `next` loses nothing when it is dropped before it is ready.
        let read = tokio::select! {
            biased;
            () = self.parts.shard.moved() => return self.shard_changed().await,
            read = next => read,
        };
        match read {
            Ok(Read::List(item)) => self.list_item(item).await,
            Ok(Read::Watch(item)) => self.watch_item(item).await,
            Err(_) if resync_at.is_some_and(|at| at <= Instant::now()) => self.resync().await,
            Err(_) => {
                let error = SourceError::Deadline {
                    what: self.machine.awaited(),
                    after: deadline.saturating_duration_since(self.steps.last_sign),
                };
                self.tell(Input::DeadlinePassed, Some(error)).await;
            }
        }
    }

    async fn list_item(&mut self, item: Option<Result<ListItem<K>, SourceError>>) {
        self.steps.last_sign = Instant::now();
        match item {
            Some(Ok(ListItem::Progress { bytes })) => self.progress(bytes).await,
            Some(Ok(ListItem::Object(fetched))) => {
                self.machine.listed(Instant::now());
                self.gather(EventKind::Added, fetched);
            }
            Some(Ok(ListItem::Unreadable(bad))) => {
                self.machine.listed(Instant::now());
                self.unreadable(&bad);
                self.gathered.put_unreadable(bad);
            }
            Some(Ok(ListItem::Outside)) => {
                self.machine.listed(Instant::now());
                self.outside();
            }
            Some(Ok(ListItem::End(meta))) => {
                self.judge_shard(&meta);
                self.shared.page(meta.remaining);
                self.steps.note("page");
                self.tell(Input::PageEnd(&meta), None).await;
            }
            Some(Err(error)) => self.failed(error).await,
            None => self.tell(Input::Ended, None).await,
        }
    }

    async fn watch_item(&mut self, item: Option<Result<WatchItem<K>, SourceError>>) {
        self.steps.last_sign = Instant::now();
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
                self.shared.count(|stats| stats.bookmarks += 1);
                let resource_version = resource_version.as_deref();
                self.tell(
                    Input::Bookmark {
                        resource_version,
                        initial_events_end,
                    },
                    None,
                )
                .await;
                let ignored = self.machine.ignored_bookmarks();
                self.shared.count(|stats| stats.ignored_bookmarks = ignored);
            }
            Some(Ok(WatchItem::Error(error))) => {
                let input_error = error.clone();
                self.tell(Input::ErrorEvent(&input_error), Some(SourceError::Api(error)))
                    .await;
            }
            Some(Err(error)) => self.failed(error).await,
            None => self.tell(Input::Ended, None).await,
        }
    }

    async fn progress(&mut self, bytes: usize) {
        self.shared.count(|stats| stats.bytes += bytes as u64);
        self.tell(Input::Progress, None).await;
    }

    async fn failed(&mut self, error: SourceError) {
        let error = Arc::new(error);
        let actions = self
            .machine
            .step(Instant::now(), self.dice.roll(), Input::Failed(&error));
        self.perform(actions, Some(error)).await;
    }

    /// Tells the machine what happened and does what it says.
    async fn tell(&mut self, input: Input<'_>, error: Option<SourceError>) {
        let actions = self.machine.step(Instant::now(), self.dice.roll(), input);
        if !actions.is_empty() {
            self.perform(actions, error.map(Arc::new)).await;
        }
    }

    async fn perform(&mut self, actions: Vec<Action>, error: Option<Arc<SourceError>>) {
        let now = Instant::now();
        let mut commit = None;
        for action in actions {
            match action {
                Action::List(mut request) => {
                    if request.continue_token.is_none() {
                        self.asked = self.parts.shard.target();
                    }
                    request.shard = self.asked.clone();
                    debug!(resource = %self.resource, ?request, "listing");
                    self.shared.listing(now);
                    self.steps.begin(now, &self.resource, "list");
                    self.io = Io::List(self.parts.source.list(request, self.parts.known.clone()));
                }
                Action::Watch(mut request) => {
                    if request.initial_events {
                        self.asked = self.parts.shard.target();
                        request.shard = self.asked.clone();
                    } else {
                        request.shard = self.parts.shard.fetched();
                    }
                    debug!(resource = %self.resource, ?request, "watching");
                    self.shared.watch_opened(now);
                    if request.initial_events {
                        self.shared.listing(now);
                        self.steps.begin(now, &self.resource, "watch-list");
                    } else {
                        self.shared.watching(now);
                    }
                    self.steps.last_sign = now;
                    self.io = Io::Watch(self.parts.source.watch(request, self.parts.known.clone()));
                }
                Action::Discard => {
                    self.gathered.clear();
                    self.shared.discarded();
                }
                Action::Commit { resource_version, by } => {
                    if !self.commit(resource_version.clone(), by) {
                        // Nothing that was planned to follow the commit may happen.
                        let refused = self.machine.step(now, self.dice.roll(), Input::CommitRefused(by));
                        let error = SourceError::Malformed("the target did not take the list".to_owned());
                        Box::pin(self.perform(refused, Some(Arc::new(error)))).await;
                        return;
                    }
                    self.machine.commit_taken();
                    commit = Some((resource_version, by));
                }
                Action::Bookmark { resource_version } => {
                    self.shared.version(Some(&resource_version));
                    self.offer(Delta::Bookmark { resource_version });
                }
                Action::Report(report) => self.report(now, report, error.as_ref()),
            }
        }
        if let Some((Some(version), Operation::WatchList)) = commit
            && self.parts.config.consistency_check
        {
            self.check_consistency(&version).await;
        }
    }

    fn report(&mut self, now: Instant, report: Report, error: Option<&Arc<SourceError>>) {
        let complaint = report.complaint.map(|complaint| Arc::new(complaint.into_error()));
        let error = complaint.as_ref().or(error);
        let rewinds = self.machine.rewinds();
        self.shared.count(|stats| stats.rewinds = rewinds);
        // A stream that follows is opened by a later action: until then nothing is open.
        if report.complaint != Some(Complaint::Rewind) {
            self.io = Io::Closed;
            self.shared.ended(now, report.resume, report.attempts, error);
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
        // Said once per trouble and then rarely: a resource that cannot be listed must not fill a log. Many servers do
        // not know watch-lists, and there is a way without.
        if report.resume == Resume::ListInstead {
            info!(resource = %self.resource, "{end}");
        } else if error.is_some() && report.attempts.is_power_of_two() {
            warn!(resource = %self.resource, attempts = report.attempts, "{end}");
        } else {
            debug!(resource = %self.resource, attempts = report.attempts, "{end}");
        }
        if let Some(hook) = &self.parts.on_stream_end
            && catch_unwind(AssertUnwindSafe(|| hook(&end))).is_err()
        {
            warn!(resource = %self.resource, "the hook for ended streams panicked");
        }
    }

    /// Hands the gathered collection to the target; `false` if it was refused.
    fn commit(&mut self, resource_version: Option<String>, by: Operation) -> bool {
        let now = Instant::now();
        let replacement = self.gathered.take(resource_version.clone(), self.asked.clone());
        let objects = replacement.objects.len();
        if self.parts.config.consistency_check && by == Operation::WatchList {
            self.delivered = Some(consistency::contents(&replacement.objects));
        }
        self.steps.note("decoded");
        self.parts.shard.admit(self.asked.as_ref());
        if let Err(error) = self.parts.target.accept(Delta::ReplacedAll(replacement)) {
            self.shared.count(|stats| stats.target_errors += 1);
            warn!(resource = %self.resource, objects, %error, "the target did not take the list");
            return false;
        }
        self.parts.shard.mark_fetched(self.asked.as_ref());
        self.steps.note("handed over");
        self.synced = true;
        self.resync_at = self.parts.config.resync.map(|period| now + period);
        let took = self.steps.finish(&self.resource, objects);
        self.shared.version(resource_version.as_deref());
        self.shared.count(|stats| {
            stats.lists += 1;
            stats.watch_lists += u64::from(by == Operation::WatchList);
            stats.list_duration += took;
            stats.last_list_duration = took;
        });
        self.shared.watching(now);
        debug!(resource = %self.resource, objects, version = resource_version, by = %by, "collection is complete");
        true
    }

    async fn resync(&mut self) {
        self.resync_at = self.parts.config.resync.map(|period| Instant::now() + period);
        if let Err(error) = self.parts.target.accept(Delta::SyncAll) {
            self.shared.count(|stats| stats.target_errors += 1);
            let error = SourceError::Malformed(format!("the target did not take a resync: {error}"));
            self.tell(Input::ResyncRefused, Some(error)).await;
        }
    }

    fn gather(&mut self, kind: EventKind, fetched: Fetched<K>) {
        let reused = matches!(fetched, Fetched::Unchanged(_));
        self.shared.item(reused);
        match transformed(self.parts.transform.as_ref(), fetched) {
            Transformed::Object(object) if kind == EventKind::Deleted => {
                self.gathered.remove(&ObjectKey::of(&*object));
            }
            Transformed::Object(object) => {
                trace!(resource = %self.resource, key = %ObjectKey::of(&*object), version = object.object_version(), reused, "decoded");
                if kind == EventKind::Modified {
                    // Its earlier state came as part of the same watch-list.
                    self.gathered.remove(&ObjectKey::of(&*object));
                }
                self.gathered.put(object);
            }
            Transformed::Dropped { key, .. } => {
                self.shared.count(|stats| stats.dropped += 1);
                self.gathered.remove(&key);
            }
            Transformed::Bad(bad) if kind == EventKind::Deleted => {
                if let Some(key) = &bad.key {
                    self.gathered.remove(key);
                }
            }
            Transformed::Bad(bad) => {
                self.unreadable(&bad);
                self.gathered.put_unreadable(bad);
            }
        }
    }

    fn event(&mut self, kind: EventKind, fetched: Fetched<K>) {
        let version = fetched.object().object_version().map(str::to_owned);
        let disposition = self.machine.event(Instant::now(), kind, version.as_deref());
        if disposition == Disposition::Gather {
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
                // It is gone, and if an earlier state of it was kept, that must go too.
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
                self.shared.count(|stats| stats.dropped += 1);
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

    /// What is said on this watch is about this collection, whatever the object calls itself: a deletion counts.
    fn unreadable_event(&mut self, deleted: bool, bad: BadObject) {
        let kind = if deleted {
            EventKind::Deleted
        } else {
            EventKind::Modified
        };
        let version = bad.resource_version.clone();
        self.unreadable(&bad);
        match (
            self.machine.event(Instant::now(), kind, version.as_deref()),
            deleted,
        ) {
            (Disposition::Forward, true) => self.forward(Delta::DeletedUnreadable(bad)),
            (Disposition::Forward, false) => self.forward(Delta::Unreadable(bad)),
            (Disposition::Gather, true) => {
                if let Some(key) = &bad.key {
                    self.gathered.remove(key);
                }
            }
            (Disposition::Gather, false) => self.gathered.put_unreadable(bad),
        }
    }

    fn unreadable(&self, bad: &BadObject) {
        self.shared.count(|stats| stats.unreadable += 1);
        warn!(resource = %self.resource, "{bad}; it is left out");
    }

    fn forward(&mut self, delta: Delta<K>) {
        if tracing::enabled!(tracing::Level::TRACE)
            && let Some(key) = delta.key()
        {
            let version = delta.object().and_then(|object| object.object_version());
            trace!(resource = %self.resource, %key, version, delta = delta.name(), "received");
        }
        self.shared.event(self.machine.last_version());
        self.offer(delta);
    }

    fn offer(&mut self, delta: Delta<K>) {
        if let Err(error) = self.parts.target.accept(delta) {
            self.shared.count(|stats| stats.target_errors += 1);
            warn!(resource = %self.resource, %error, "the target did not take a delta");
        }
    }

    async fn check_consistency(&mut self, version: &str) {
        let Some(delivered) = self.delivered.take() else {
            return;
        };
        let transform = self.parts.transform.as_ref();
        let shard = self.asked.clone();
        match consistency::check(&*self.parts.source, version, shard, transform, &delivered).await {
            Ok(difference) if difference.is_empty() => {
                debug!(resource = %self.resource, version, "the watch-list agrees with a list");
            }
            Ok(difference) => {
                self.shared.count(|stats| stats.inconsistencies += 1);
                warn!(resource = %self.resource, version, "the watch-list differs from a list: {difference}");
            }
            Err(error) => {
                warn!(resource = %self.resource, version, %error, "the watch-list could not be checked");
            }
        }
    }
}
