//! A model of the API server: one collection with its history, replicas that lag, and faults.
//!
//! Plain data without a clock of its own and without randomness. It is independent of the code under test: the
//! invariants compare the client with it.

mod fault;
mod history;
mod source;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube_informers::shard::Shard;
use kube_informers::source::{ListRequest, VersionMatch, WatchRequest};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::object::Key;
use crate::shards::Part;
use crate::tape::Settings;
pub use fault::{Fault, On, RequestFault};
pub use history::{Change, ChangeKind, CollectionState, Epoch, Stored};
pub use source::ModelSource;
use stream::{Item, Stream};

/// The server as the source and the world share it.
pub type SharedServer = Arc<Mutex<Server>>;

/// A request, for the invariants about load and resuming.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it was sent.
    pub at: Instant,
    /// What was requested.
    pub what: Requested,
}

/// What a client requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    /// The first page of a list.
    List,
    /// A later page of a list.
    Page,
    /// A watch with initial events.
    WatchList,
    /// A watch from a version.
    Watch(u64),
}

/// What the client must have received, from what was delivered to it.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// Everything up to this version of this epoch was delivered without a gap.
    pub complete: Option<(usize, u64)>,
    /// The shard of which it was.
    pub part: Option<Part>,
    /// The earliest time of the next request, by the last Retry-After.
    pub not_before: Option<Instant>,
}

/// One collection, its history and its replicas.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    /// All lines of versions; the last one is current.
    pub epochs: Vec<Epoch>,
    /// Versions before this one are gone.
    compacted: u64,
    /// The version of each backup that was restored.
    restored_at: Vec<u64>,
    /// The version up to which each replica has caught up, if it is frozen.
    replicas: Vec<Option<u64>>,
    route: usize,
    uids: u64,
    streams: BTreeMap<u64, Stream>,
    next_stream: u64,
    faults: VecDeque<RequestFault>,
    /// The number of items that may still be delivered.
    credit: u32,
    /// All requests, oldest first.
    pub requests: Vec<Request>,
    /// The number of violations of the request ceiling or of a Retry-After, with an explanation of the first.
    pub too_early: Option<String>,
    /// A watch that resumes after a version that was not delivered.
    pub skipped: Option<String>,
    /// A watch that resumes before one that was opened earlier.
    pub went_back: Option<String>,
    /// The epoch and version of the last watch.
    resumed: Option<(usize, u64)>,
    /// The version below which the first list is stale, unless any version was requested.
    pub first_version: Option<u64>,
    /// What was delivered.
    pub delivered: Delivered,
}

impl Server {
    /// An empty collection.
    pub fn new(settings: &Settings) -> Self {
        Self {
            epochs: vec![Epoch::new()],
            compacted: 0,
            restored_at: Vec::new(),
            replicas: vec![None; settings.replicas.max(1) as usize],
            route: 0,
            uids: 0,
            streams: BTreeMap::new(),
            next_stream: 0,
            faults: VecDeque::new(),
            credit: 0,
            requests: Vec::new(),
            too_early: None,
            skipped: None,
            went_back: None,
            resumed: None,
            first_version: None,
            delivered: Delivered::default(),
            settings: settings.clone(),
        }
    }

    /// The current history.
    pub fn epoch(&self) -> &Epoch {
        &self.epochs[self.epochs.len() - 1]
    }

    /// The newest version.
    pub fn head(&self) -> u64 {
        self.epoch().head
    }

    /// The selected collection as it is now.
    pub fn now(&self) -> Arc<CollectionState> {
        self.epoch().at(self.head())
    }

    /// The number of open responses.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The version up to which a replica has caught up.
    fn applied(&self, replica: usize) -> u64 {
        let frozen = self.replicas.get(replica).copied().flatten();
        frozen.map_or(self.head(), |version| version.min(self.head()))
    }

    // Writes.

    fn write(&mut self, key: Key, object: Option<Stored>) {
        let selects_all = self.settings.selector == 0;
        let Some((epoch, lost)) = self.epochs.split_last_mut() else {
            return;
        };
        // Two states of one object with one version cannot be distinguished by any client. A server that uses versions a second
        // time makes such a pair only if it writes the same object at the same version.
        while lost.iter().any(|lost| lost.has_version(key, epoch.head + 1)) {
            epoch.head += 1;
        }
        epoch.write(key, object, |object| {
            selects_all || object.label.is_multiple_of(2)
        });
    }

    /// Creates an object, if it does not exist.
    pub fn create(&mut self, key: Key, label: u32) {
        if self.epoch().get(key).is_none() {
            self.uids += 1;
            let object = Stored {
                uid: self.uids,
                version: 0,
                label,
                poisoned: false,
            };
            self.write(key, Some(object));
        }
    }

    /// Updates an object, if it exists.
    pub fn update(&mut self, key: Key, label: u32, poisoned: bool) {
        if let Some(object) = self.epoch().get(key).copied() {
            self.write(
                key,
                Some(Stored {
                    label,
                    poisoned,
                    ..object
                }),
            );
        }
    }

    /// Deletes an object, if it exists.
    pub fn delete(&mut self, key: Key) {
        if self.epoch().get(key).is_some() {
            self.write(key, None);
        }
    }

    /// Writes to other collections: only the version advances.
    pub fn write_elsewhere(&mut self, count: u32) {
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.head += u64::from(count);
        }
    }

    // Replicas and history.

    /// A replica stays at its version.
    pub fn freeze(&mut self, replica: u32) {
        let replica = replica as usize % self.replicas.len();
        // The one that serves consistent reads always keeps up, as etcd does.
        let version = self.applied(replica);
        if let Some(frozen) = self.replicas.get_mut(replica) {
            frozen.get_or_insert(version);
        }
    }

    /// A replica catches up.
    pub fn catch_up(&mut self, replica: u32) {
        let replica = replica as usize % self.replicas.len();
        if let Some(frozen) = self.replicas.get_mut(replica) {
            *frozen = None;
        }
    }

    /// New connections reach this replica.
    pub fn route(&mut self, replica: u32) {
        self.route = replica as usize % self.replicas.len();
    }

    /// Forgets all versions but the last `keep`.
    pub fn compact(&mut self, keep: u32) {
        let floor = self.head().saturating_sub(u64::from(keep));
        self.compacted = self.compacted.max(floor);
    }

    /// Restores a backup taken `back` versions ago. If `bumped`, its versions continue above those that were lost, as with
    /// `etcdutl snapshot restore --bump-revision --mark-compacted`. Otherwise they are used a second time, and the server
    /// rejects versions that it knows to be lost.
    pub fn restore(&mut self, back: u32, bumped: bool) {
        let current = self.epoch();
        let version = current.head.saturating_sub(u64::from(back)).max(current.start());
        if version >= current.head {
            return;
        }
        // With a selector, what is not selected is part of the backup too; the model keeps it as it is now.
        let mut all = CollectionState::clone(&current.at(version));
        if self.settings.selector == 1 {
            for (key, object) in self.unselected() {
                all.entry(key).or_insert(object);
            }
        }
        let mut restored = self.epoch().restored(version, all);
        if bumped {
            restored.head = self.head() + 100;
        }
        self.compacted = restored.head;
        self.restored_at.push(version);
        self.epochs.push(restored);
        self.replicas.iter_mut().for_each(|frozen| *frozen = None);
        self.break_streams();
    }

    fn unselected(&self) -> Vec<(Key, Stored)> {
        let keys = 0..self.settings.keys;
        let objects = keys.filter_map(|key| self.epoch().get(key).map(|object| (key, *object)));
        objects
            .filter(|(_, object)| !object.label.is_multiple_of(2))
            .collect()
    }

    /// Ends all faults. Connections that went silent stay so: only the client can notice that.
    pub fn heal(&mut self) {
        self.faults.clear();
        self.replicas.iter_mut().for_each(|frozen| *frozen = None);
        self.credit = u32::MAX;
    }

    /// Lets up to `items` items arrive.
    pub fn pump(&mut self, items: u32) {
        self.credit = self.credit.saturating_add(items);
    }

    /// Nothing more arrives until the next [`pump`](Self::pump).
    pub fn hold(&mut self) {
        self.credit = 0;
    }

    /// Adds a fault to the next matching requests.
    pub fn fault(&mut self, fault: RequestFault) {
        self.faults.push_back(fault);
    }

    // Requests.

    fn record(&mut self, what: Requested) {
        let at = Instant::now();
        if let Some(not_before) = self.delivered.not_before.take()
            && at < not_before
        {
            let early = not_before - at;
            self.too_early
                .get_or_insert_with(|| format!("a request came {early:?} before the Retry-After"));
        }
        if self.settings.any_cached == 0 && self.requests.is_empty() {
            self.first_version = Some(self.head());
        }
        self.requests.push(Request { at, what });
    }

    fn open(&mut self, mut stream: Stream) -> u64 {
        stream.epoch = self.epochs.len() - 1;
        self.next_stream += 1;
        self.streams.insert(self.next_stream, stream);
        self.next_stream
    }

    fn take_fault(&mut self, on: On) -> Option<Fault> {
        let position = self.faults.iter().position(|fault| fault.on.matches(on))?;
        let fault = self.faults.get_mut(position)?;
        fault.times = fault.times.saturating_sub(1);
        let what = fault.what;
        if fault.times == 0 {
            self.faults.remove(position);
        }
        Some(what)
    }

    fn list(&mut self, request: &ListRequest) -> u64 {
        let is_continued = request.continue_token.is_some();
        self.record(if is_continued {
            Requested::Page
        } else {
            Requested::List
        });
        let on = if is_continued { On::Page } else { On::List };
        let fault = self.take_fault(on);
        let stream = match fault.and_then(Fault::rejection) {
            Some(rejection) => Stream::rejected(rejection),
            None => self.list_response(request, fault),
        };
        self.open(stream)
    }

    fn list_response(&mut self, request: &ListRequest, fault: Option<Fault>) -> Stream {
        let (epoch, version, offset) = match &request.continue_token {
            Some(token) => {
                let mut numbers = token.split('.').map(|number| number.parse::<u64>().unwrap_or(0));
                let mut next = || numbers.next().unwrap_or_default();
                (next() as usize, next(), next() as usize)
            }
            None => match self.list_version(request, fault == Some(Fault::StaleList)) {
                Ok(version) => (self.epochs.len() - 1, version, 0),
                Err(rejection) => return Stream::rejected(rejection),
            },
        };
        let is_gone = version < self.compacted || epoch + 1 != self.epochs.len();
        if request.continue_token.is_some() && (is_gone || fault == Some(Fault::ExpireToken)) {
            return Stream::rejected(fault::expired());
        }
        let shown = match fault {
            Some(Fault::PagesDiffer) if self.head() > version => self.head(),
            Some(Fault::PagesDiffer) => (version - 1).max(self.epoch().start()),
            _ => version,
        };
        let part = self.part(request.shard.as_ref());
        let mut state = self.epoch().at(shown);
        if let Some(part) = part.filter(|_| self.honours_shards()) {
            let own = state.iter().filter(|(key, object)| part.contains(**key, object));
            state = Arc::new(own.map(|(key, object)| (*key, *object)).collect());
        }
        let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut items: VecDeque<Item> = VecDeque::from([Item::Progress]);
        items.extend(
            state
                .iter()
                .skip(offset)
                .take(limit)
                .map(|(key, object)| Item::Listed(*key, *object)),
        );
        let next = offset.saturating_add(limit);
        let token = (next < state.len()).then(|| match fault {
            Some(Fault::RepeatToken) => format!("{epoch}.{version}.0"),
            _ => format!("{epoch}.{version}.{next}"),
        });
        let requested = request.resource_version.as_deref();
        let requested: u64 = requested.and_then(|version| version.parse().ok()).unwrap_or(0);
        items.push_back(Item::PageEnd {
            version: shown,
            token,
            is_true: shown == version && version >= requested,
        });
        let mut stream = Stream::list(items, part);
        stream.apply(fault);
        stream
    }

    /// The part that a request asks for; none if the informer has no shard.
    fn part(&self, shard: Option<&Shard>) -> Option<Part> {
        (self.settings.sharding > 0).then(|| Part::requested(shard, &self.settings))
    }

    fn honours_shards(&self) -> bool {
        self.settings.sharding == 1
    }

    /// The version of a list, or why there is none.
    fn list_version(&self, request: &ListRequest, stale: bool) -> Result<u64, stream::Rejection> {
        let Some(requested) = request.resource_version.as_deref() else {
            return Ok(self.head());
        };
        let requested: u64 = requested.parse().unwrap_or(0);
        let applied = self.applied(self.route);
        if stale {
            let oldest = self.epochs[0].start();
            return Ok(applied.min(requested.saturating_sub(2)).max(oldest));
        }
        if requested == 0 {
            return Ok(applied);
        }
        let is_exact = request.version_match == Some(VersionMatch::Exact);
        if is_exact && requested < self.compacted {
            return Err(fault::expired());
        }
        if requested > applied {
            return Err(fault::too_large());
        }
        Ok(if is_exact { requested } else { applied })
    }

    fn watch(&mut self, request: &WatchRequest) -> u64 {
        let requested: Option<u64> = request.resource_version.as_deref().and_then(|v| v.parse().ok());
        self.record(match (request.initial_events, requested) {
            (true, _) => Requested::WatchList,
            (false, version) => Requested::Watch(version.unwrap_or(0)),
        });
        let part = self.part(request.shard.as_ref());
        if !request.initial_events {
            self.check_resume(requested.unwrap_or(0), part);
        }
        let on = if request.initial_events {
            On::WatchList
        } else {
            On::Watch
        };
        let fault = self.take_fault(on);
        let mut stream = match fault.and_then(Fault::rejection) {
            Some(rejection) => Stream::rejected(rejection),
            None if request.initial_events => self.watch_list_response(requested, fault, part),
            None => self.watch_response(requested.unwrap_or(0)),
        };
        stream.apply(fault);
        stream.part = part;
        stream.ends_at = Some(Instant::now() + request.timeout.max(Duration::from_secs(1)));
        self.open(stream)
    }

    fn watch_list_response(
        &self,
        requested: Option<u64>,
        fault: Option<Fault>,
        part: Option<Part>,
    ) -> Stream {
        let applied = self.applied(self.route);
        let version = match requested {
            // A consistent read waits until the replica has caught up.
            None => self.head(),
            Some(requested) if requested > applied => return Stream::rejected(fault::too_large()),
            Some(_) => applied,
        };
        let state = self.epoch().at(version);
        let mut items: VecDeque<Item> = VecDeque::from([Item::Progress]);
        // Not in the order of their versions.
        let own = part.filter(|_| self.honours_shards());
        items.extend(
            state
                .iter()
                .rev()
                .filter(|(key, object)| own.is_none_or(|part| part.contains(**key, object)))
                .map(|(key, object)| Item::Initial(*key, *object)),
        );
        if fault != Some(Fault::NoEndMarker) {
            items.push_back(Item::InitialEnd(version));
        }
        Stream::watch(items, version, self.route)
    }

    /// Whether the client is at a version that a restore has lost.
    fn is_lost(&self, version: u64) -> bool {
        let known = self
            .delivered
            .complete
            .map_or(self.epochs.len(), |(epoch, _)| epoch);
        let since = self.restored_at.iter().skip(known);
        since.min().is_some_and(|kept| version > *kept)
    }

    fn watch_response(&self, version: u64) -> Stream {
        if self.is_lost(version) && version > self.head() {
            return Stream::rejected(fault::too_large());
        }
        if version < self.compacted || self.is_lost(version) {
            if self.settings.expired_in_band == 1 {
                let items = VecDeque::from([Item::Progress, Item::Error(410)]);
                return Stream::watch(items, version, self.route);
            }
            return Stream::rejected(fault::expired());
        }
        Stream::watch(VecDeque::from([Item::Progress]), version, self.route)
    }

    /// A watch must resume where the delivered data ends, or before it: otherwise it skips events.
    fn check_resume(&mut self, version: u64, part: Option<Part>) {
        if let (Some(part), Some(delivered)) = (part, self.delivered.part)
            && !delivered.includes(part)
        {
            self.skipped.get_or_insert_with(|| {
                format!("a watch of the pieces {part:?} continues a list of {delivered:?}")
            });
        }
        let current = self.epochs.len() - 1;
        let epoch = self.delivered.complete.map_or(current, |(epoch, _)| epoch);
        if let Some((_, last)) = self
            .resumed
            .replace((epoch, version))
            .filter(|(of, _)| *of == epoch)
            && version < last
        {
            self.went_back.get_or_insert_with(|| {
                format!("a watch starts after {version}, an earlier one after {last}")
            });
        }
        let skips = match self.delivered.complete {
            None => true,
            // After a restore the client may still be at the end of the old line of versions.
            Some((epoch, complete)) => epoch == current && version > complete,
        };
        if skips {
            let complete = self.delivered.complete;
            self.skipped.get_or_insert_with(|| {
                format!(
                    "a watch starts after {version}, but only {complete:?} (epoch, version) was delivered"
                )
            });
        }
    }
}
