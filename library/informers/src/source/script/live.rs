//! The live collection of a script: objects, integer versions, and a history that can be dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::stream;

use super::{ListAnswer, Script, ScriptInner};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::source::{WatchRequest, WatchStream};
use crate::wire::{ApiError, Fetched, SourceError, StatusCause, WatchItem};

pub(super) struct Live<K> {
    objects: BTreeMap<ObjectKey, K>,
    version: u64,
    log: Vec<Change<K>>,
    /// Versions up to this one are no longer in the log.
    compacted: u64,
    /// The number of times all watches were closed.
    epoch: u64,
    /// Clones an object. A function pointer, because `ListerWatcher` has no `Clone` bound.
    copy: fn(&K) -> K,
}

struct Change<K> {
    version: u64,
    kind: ChangeKind,
    /// `None` for a bookmark.
    object: Option<K>,
    /// Whether watches that were open at the time received it.
    delivered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

impl<K> Live<K> {
    fn new(copy: fn(&K) -> K) -> Self {
        Self {
            objects: BTreeMap::new(),
            version: 0,
            log: Vec::new(),
            compacted: 0,
            epoch: 0,
            copy,
        }
    }

    pub(super) fn list(&self) -> ListAnswer<K> {
        ListAnswer::page(self.objects.values().map(self.copy), &self.version.to_string())
    }

    fn item(&self, change: &Change<K>) -> WatchItem<K> {
        let object = change.object.as_ref().map(self.copy).map(Fetched::from);
        match (change.kind, object) {
            (ChangeKind::Added, Some(object)) => WatchItem::Added(object),
            (ChangeKind::Modified, Some(object)) => WatchItem::Modified(object),
            (ChangeKind::Deleted, Some(object)) => WatchItem::Deleted(object),
            _ => bookmark(change.version, false),
        }
    }
}

fn bookmark<K>(version: u64, initial_events_end: bool) -> WatchItem<K> {
    WatchItem::Bookmark {
        resource_version: Some(version.to_string()),
        initial_events_end,
    }
}

/// The live collection. Each change returns its version. Versions start at 1.
impl<K: kube::Resource + Object + Clone> Script<K> {
    /// Adds an object and sends it to the open watches.
    pub fn add(&self, object: K) -> u64 {
        self.record(ChangeKind::Added, object, true)
    }

    /// Adds an object without sending it to the open watches. A watch opened later at an earlier version receives it.
    #[doc(alias = "AddDropWatch")]
    pub fn add_drop_watch(&self, object: K) -> u64 {
        self.record(ChangeKind::Added, object, false)
    }

    /// Changes an object and sends it to the open watches.
    pub fn modify(&self, object: K) -> u64 {
        self.record(ChangeKind::Modified, object, true)
    }

    /// Changes an object without sending it to the open watches.
    #[doc(alias = "ModifyDropWatch")]
    pub fn modify_drop_watch(&self, object: K) -> u64 {
        self.record(ChangeKind::Modified, object, false)
    }

    /// Deletes an object and sends the given state to the open watches.
    pub fn delete(&self, object: K) -> u64 {
        self.record(ChangeKind::Deleted, object, true)
    }

    /// Deletes an object without sending it to the open watches.
    #[doc(alias = "DeleteDropWatch")]
    pub fn delete_drop_watch(&self, object: K) -> u64 {
        self.record(ChangeKind::Deleted, object, false)
    }

    /// Sends a bookmark to the open watches.
    pub fn send_bookmark(&self) {
        self.live(|live| {
            live.log.push(Change {
                version: live.version,
                kind: ChangeKind::Bookmark,
                object: None,
                delivered: true,
            });
        });
    }

    /// Ends all watches and drops the history: a watch from an earlier version fails as expired.
    #[doc(alias = "ResetWatch")]
    pub fn reset_watch(&self) {
        self.live(|live| {
            live.epoch += 1;
            live.log.clear();
            live.compacted = live.version;
        });
    }

    fn record(&self, kind: ChangeKind, mut object: K, delivered: bool) -> u64 {
        self.live(|live| {
            live.version += 1;
            object.meta_mut().resource_version = Some(live.version.to_string());
            let key = ObjectKey::of(&object);
            match kind {
                ChangeKind::Deleted => live.objects.remove(&key),
                _ => live.objects.insert(key, object.clone()),
            };
            live.log.push(Change {
                version: live.version,
                kind,
                object: Some(object),
                delivered,
            });
            live.version
        })
    }

    fn live<T>(&self, change: impl FnOnce(&mut Live<K>) -> T) -> T {
        self.inner
            .change(|state| change(state.live.get_or_insert_with(|| Live::new(K::clone))))
    }
}

/// A watch of the live collection; `None` if there is none.
pub(super) fn watch<K: Send + Sync + 'static>(
    inner: &Arc<ScriptInner<K>>,
    request: &WatchRequest,
) -> Option<WatchStream<K>> {
    let state = inner.state.lock();
    let live = state.live.as_ref()?;
    let mut first = VecDeque::from([WatchItem::Progress { bytes: 0 }]);
    let from = if request.initial_events && state.watch_list {
        first.extend(
            live.objects
                .values()
                .map(|o| WatchItem::Added((live.copy)(o).into())),
        );
        first.push_back(bookmark(live.version, true));
        Ok(live.log.len())
    } else {
        live.position(request)
    };
    let next = match from {
        Ok(next) => next,
        Err(error) => return Some(Box::pin(stream::iter([Err(SourceError::Api(error))]))),
    };
    let begin = Reader {
        inner: Arc::clone(inner),
        first,
        next,
        opened: live.log.len(),
        epoch: live.epoch,
    };
    Some(Box::pin(stream::unfold(begin, |mut reader| async move {
        Some((Ok(reader.next().await?), reader))
    })))
}

impl<K> Live<K> {
    /// The position in the log at which a watch starts.
    fn position(&self, request: &WatchRequest) -> Result<usize, ApiError> {
        if request.initial_events {
            let text = "sendInitialEvents is forbidden for watch: the script does not support it";
            return Err(ApiError::new(422, "Invalid", text));
        }
        let version = request.resource_version.as_deref().unwrap_or_default();
        let Ok(version) = version.parse::<u64>() else {
            let text = format!("invalid resource version {version:?}");
            return Err(ApiError::new(400, "BadRequest", &text));
        };
        if version < self.compacted {
            let text = format!("too old resource version: {version} ({})", self.compacted);
            return Err(ApiError::new(410, "Expired", &text));
        }
        if version > self.version {
            let text = format!("Too large resource version: {version}, current: {}", self.version);
            return Err(ApiError {
                causes: vec![StatusCause {
                    reason: "ResourceVersionTooLarge".to_owned(),
                    message: "Too large resource version".to_owned(),
                }],
                ..ApiError::new(504, "Timeout", &text)
            });
        }
        let later = |change: &Change<K>| change.version > version;
        Ok(self.log.iter().position(later).unwrap_or(self.log.len()))
    }
}

/// One open watch.
struct Reader<K> {
    inner: Arc<ScriptInner<K>>,
    first: VecDeque<WatchItem<K>>,
    /// The position in the log.
    next: usize,
    /// The length of the log when the watch was opened.
    opened: usize,
    epoch: u64,
}

impl<K> Reader<K> {
    /// Waits for the next item; `None` at the end of the watch.
    async fn next(&mut self) -> Option<WatchItem<K>> {
        if let Some(item) = self.first.pop_front() {
            return Some(item);
        }
        let mut changes = self.inner.changes.subscribe();
        loop {
            changes.borrow_and_update();
            {
                let state = self.inner.state.lock();
                let live = state.live.as_ref().filter(|live| live.epoch == self.epoch)?;
                while let Some(change) = live.log.get(self.next) {
                    let was_history = self.next < self.opened;
                    self.next += 1;
                    if change.delivered && !was_history || was_history && change.kind != ChangeKind::Bookmark
                    {
                        return Some(live.item(change));
                    }
                }
            }
            // Cannot fail: `self.inner` owns the sender.
            let _ = changes.changed().await;
        }
    }
}
