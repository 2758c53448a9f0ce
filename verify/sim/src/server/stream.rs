//! One response of the server, item by item.

use std::collections::VecDeque;
use std::time::Duration;

use kube_informers::ObjectKey;
use kube_informers::quarantine::{BadObject, Problem};
use kube_informers::source::{ApiError, ListItem, ListMeta, SourceError, WatchItem};
use tokio::time::Instant;

use super::{ChangeKind, Fault, Server, Stored, fault};
use crate::object::{Key, Thing, name, namespace, uid_text};
use crate::shards::Part;

/// Why a request is not served.
#[derive(Clone, Debug)]
pub(super) enum Rejection {
    Api(ApiError),
    Transport,
}

impl Rejection {
    fn error(&self) -> SourceError {
        match self {
            Self::Api(error) => SourceError::Api(error.clone()),
            Self::Transport => transport(),
        }
    }
}

fn transport() -> SourceError {
    SourceError::Transport {
        context: "connecting to the model".to_owned(),
        refused: true,
        source: "a fault of the model".into(),
    }
}

/// One item of a response.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Progress,
    Listed(Key, Stored),
    PageEnd {
        version: u64,
        token: Option<String>,
        /// The version is that of the listed objects, and one that was allowed.
        is_true: bool,
    },
    Initial(Key, Stored),
    InitialEnd(u64),
    /// A change, sent in order.
    Change(ChangeKind, Key, Stored),
    /// A change, sent again.
    Repeated(ChangeKind, Key, Stored),
    Bookmark(u64),
    OldBookmark(Option<u64>),
    Error(u16),
}

/// A response that is being sent.
#[derive(Debug)]
pub(super) struct Stream {
    /// Sent before anything else.
    items: VecDeque<Item>,
    /// For watches: changes after this version follow.
    position: Option<u64>,
    replica: usize,
    pub(super) epoch: usize,
    rejection: Option<Rejection>,
    pub(super) ends_at: Option<Instant>,
    /// The items until the connection breaks (`true`) or ends.
    cut: Option<(u32, bool)>,
    broken: bool,
    closed: bool,
    silent: bool,
    bookmark_due: bool,
    closes_after_bookmark: bool,
    /// The initial events have ended, or there were none.
    live: bool,
    /// The shard that was requested.
    pub(super) part: Option<Part>,
}

impl Stream {
    fn new(items: VecDeque<Item>) -> Self {
        Self {
            items,
            position: None,
            replica: 0,
            epoch: 0,
            rejection: None,
            ends_at: None,
            cut: None,
            broken: false,
            closed: false,
            silent: false,
            bookmark_due: false,
            closes_after_bookmark: false,
            live: false,
            part: None,
        }
    }

    pub(super) fn rejected(rejection: Rejection) -> Self {
        Self {
            rejection: Some(rejection),
            ..Self::new(VecDeque::new())
        }
    }

    pub(super) fn list(items: VecDeque<Item>, part: Option<Part>) -> Self {
        Self {
            part,
            ..Self::new(items)
        }
    }

    pub(super) fn watch(items: VecDeque<Item>, position: u64, replica: usize) -> Self {
        Self {
            position: Some(position),
            replica,
            live: items.len() == 1,
            ..Self::new(items)
        }
    }

    pub(super) fn apply(&mut self, fault: Option<Fault>) {
        match fault {
            Some(Fault::Hang) => self.silent = true,
            Some(Fault::Flap) => {
                self.bookmark_due = true;
                self.closes_after_bookmark = true;
            }
            Some(Fault::CutAfter(items)) => self.cut = Some((items + 1, true)),
            Some(Fault::EndAfter(items)) => self.cut = Some((items + 1, false)),
            _ => {}
        }
    }
}

/// What a response yields next.
pub(super) enum Yield {
    Pending,
    Item(Item),
    Failed(SourceError),
    Ended,
}

impl Server {
    /// All connections break.
    pub fn break_streams(&mut self) {
        self.streams.values_mut().for_each(|stream| stream.broken = true);
    }

    /// All watches are closed.
    pub fn close_watches(&mut self) {
        let watches = self
            .streams
            .values_mut()
            .filter(|stream| stream.position.is_some());
        watches.for_each(|stream| stream.closed = true);
    }

    /// All connections go silent and stay so.
    pub fn silence(&mut self) {
        self.streams.values_mut().for_each(|stream| stream.silent = true);
    }

    /// A bookmark follows what is being sent.
    pub fn send_bookmarks(&mut self) {
        self.streams
            .values_mut()
            .for_each(|stream| stream.bookmark_due = true);
    }

    /// A bookmark that goes back, or has no version.
    pub fn send_old_bookmark(&mut self, back: u32) {
        for stream in self.streams.values_mut() {
            if let Some(position) = stream.position.filter(|_| stream.live) {
                let version = (back > 0).then(|| position.saturating_sub(u64::from(back)));
                stream.items.push_front(Item::OldBookmark(version));
            }
        }
    }

    /// An `ERROR` event, after which the watch ends.
    pub fn send_error(&mut self, code: u16) {
        for stream in self
            .streams
            .values_mut()
            .filter(|stream| stream.position.is_some())
        {
            stream.items.push_front(Item::Error(code));
        }
    }

    /// Sends the last events again.
    pub fn replay(&mut self, count: u32, skip: u32) {
        let changes = &self.epochs[self.epochs.len() - 1].changes;
        for stream in self.streams.values_mut().filter(|stream| stream.live) {
            let Some(position) = stream.position else { continue };
            let sent = changes.iter().rev().filter(|change| change.version <= position);
            for change in sent.skip(skip as usize).take(count as usize) {
                let item = Item::Repeated(change.kind, change.key, change.object);
                stream.items.push_front(item);
            }
        }
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.streams.remove(&id);
    }

    pub(super) fn poll(&mut self, id: u64) -> Yield {
        let Some(stream) = self.streams.get(&id) else {
            return Yield::Ended;
        };
        if stream.silent && !stream.broken {
            return Yield::Pending;
        }
        let is_over = stream.ends_at.is_some_and(|at| at <= Instant::now());
        if self.credit == 0 && !is_over {
            return Yield::Pending;
        }
        let item = self.next_item(id, is_over);
        if !matches!(item, Yield::Pending) {
            self.credit = self.credit.saturating_sub(1);
        }
        if let Yield::Item(item) = &item {
            self.note_delivered(id, item);
        }
        item
    }

    fn next_item(&mut self, id: u64, is_over: bool) -> Yield {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Yield::Ended;
        };
        if let Some(rejection) = stream.rejection.take() {
            let error = rejection.error();
            if let Some(delay) = error.api().and_then(|error| error.retry_after) {
                self.delivered.not_before = Some(Instant::now() + delay);
            }
            return Yield::Failed(error);
        }
        match &mut stream.cut {
            Some((0, true)) => stream.broken = true,
            Some((0, false)) => stream.closed = true,
            Some((items, _)) => *items -= 1,
            None => {}
        }
        if stream.broken {
            return Yield::Failed(transport());
        }
        if stream.closed || is_over {
            return Yield::Ended;
        }
        if let Some(item) = stream.items.pop_front() {
            return Yield::Item(item);
        }
        let Some(position) = stream.position else {
            return Yield::Ended;
        };
        let (replica, epoch, bookmark_due) = (stream.replica, stream.epoch, stream.bookmark_due);
        let part = stream.part.filter(|_| self.settings.sharding == 1);
        let applied = self.applied(replica);
        let changes = &self.epochs[epoch].changes;
        let first = changes.partition_point(|change| change.version <= position);
        let next = (changes[first..].iter())
            .take_while(|change| change.version <= applied)
            .find(|change| part.is_none_or(|part| part.contains(change.key, &change.object)))
            .copied();
        let Some(stream) = self.streams.get_mut(&id) else {
            return Yield::Ended;
        };
        match next {
            Some(change) => {
                stream.position = Some(change.version);
                Yield::Item(Item::Change(change.kind, change.key, change.object))
            }
            None if bookmark_due && stream.live => {
                stream.bookmark_due = false;
                stream.closed |= stream.closes_after_bookmark;
                let version = position.max(applied);
                stream.position = Some(version);
                Yield::Item(Item::Bookmark(version))
            }
            None => Yield::Pending,
        }
    }

    fn note_delivered(&mut self, id: u64, item: &Item) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let (epoch, part) = (stream.epoch, stream.part);
        let ends_list = matches!(item, Item::InitialEnd(_) | Item::PageEnd { .. });
        let version = match item {
            Item::InitialEnd(version) => {
                stream.live = true;
                *version
            }
            Item::PageEnd {
                version,
                token: None,
                is_true: true,
            } => *version,
            Item::Change(_, _, object) if stream.live => object.version,
            Item::Bookmark(version) => *version,
            Item::Error(code) => {
                stream.closed = true;
                if *code == 429 {
                    self.delivered.not_before = Some(Instant::now() + Duration::from_secs(1));
                }
                return;
            }
            _ => return,
        };
        if ends_list {
            self.delivered.part = part;
        }
        self.delivered.complete = match self.delivered.complete {
            Some((known, complete)) if known == epoch => Some((epoch, complete.max(version))),
            _ => Some((epoch, version)),
        };
    }
}

fn bad(key: Key, object: &Stored) -> BadObject {
    BadObject {
        key: Some(ObjectKey::namespaced(namespace(key), &name(key))),
        uid: Some(uid_text(object.uid)),
        resource_version: Some(object.version.to_string()),
        problem: Problem::Decode("a fault of the model".to_owned()),
        size: 1,
    }
}

impl Item {
    /// As an item of a list. What is outside the shard is not decoded.
    pub(super) fn listed(self, part: Option<Part>) -> ListItem<Thing> {
        match self {
            Self::Listed(key, object) if is_outside(part, key, &object) => ListItem::Outside,
            Self::Listed(key, object) if object.poisoned => ListItem::Unreadable(bad(key, &object)),
            Self::Listed(key, object) => ListItem::Object(object.thing(key).into()),
            Self::PageEnd { version, token, .. } => ListItem::End(ListMeta {
                resource_version: Some(version.to_string()),
                continue_token: token,
                ..ListMeta::default()
            }),
            _ => ListItem::Progress { bytes: 100 },
        }
    }

    /// As an event of a watch.
    pub(super) fn watched(self, part: Option<Part>) -> WatchItem<Thing> {
        match self {
            Self::Initial(key, object) if is_outside(part, key, &object) => {
                outside(ChangeKind::Added, &object)
            }
            Self::Change(kind, key, object) | Self::Repeated(kind, key, object)
                if is_outside(part, key, &object) =>
            {
                outside(kind, &object)
            }
            Self::Initial(key, object) => event(ChangeKind::Added, key, &object),
            Self::Change(kind, key, object) | Self::Repeated(kind, key, object) => event(kind, key, &object),
            Self::InitialEnd(version) => WatchItem::Bookmark {
                resource_version: Some(version.to_string()),
                initial_events_end: true,
            },
            Self::Bookmark(version) => WatchItem::Bookmark {
                resource_version: Some(version.to_string()),
                initial_events_end: false,
            },
            Self::OldBookmark(version) => WatchItem::Bookmark {
                resource_version: version.map(|version| version.to_string()),
                initial_events_end: false,
            },
            Self::Error(code) => {
                let retry_after = (code == 429).then_some(1);
                WatchItem::Error(fault::status(code, retry_after))
            }
            Self::Progress | Self::Listed(..) | Self::PageEnd { .. } => WatchItem::Progress { bytes: 100 },
        }
    }
}

fn is_outside(part: Option<Part>, key: Key, object: &Stored) -> bool {
    part.is_some_and(|part| !part.contains(key, object))
}

fn outside(kind: ChangeKind, object: &Stored) -> WatchItem<Thing> {
    WatchItem::Outside {
        resource_version: Some(object.version.to_string()),
        added: kind == ChangeKind::Added,
    }
}

fn event(kind: ChangeKind, key: Key, object: &Stored) -> WatchItem<Thing> {
    if object.poisoned {
        return WatchItem::Unreadable {
            deleted: kind == ChangeKind::Deleted,
            object: bad(key, object),
        };
    }
    let object = object.thing(key).into();
    match kind {
        ChangeKind::Added => WatchItem::Added(object),
        ChangeKind::Modified => WatchItem::Modified(object),
        ChangeKind::Deleted => WatchItem::Deleted(object),
    }
}
