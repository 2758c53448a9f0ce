//! The live collection of a script: objects, integer versions, a history that can be lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::stream;

use super::{ListAnswer, Script, Shared};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::source::error::{ApiError, SourceError, StatusCause};
use crate::source::{Fetched, WatchItem, WatchRequest, WatchStream};

pub(super) struct Live<K> {
    objects: BTreeMap<ObjectKey, K>,
    version: u64,
    log: Vec<Change<K>>,
    /// Versions up to this one are no longer in the log.
    forgotten: u64,
    /// Counts the times all watches were closed.
    epoch: u64,
    /// How to copy an object; known since somebody put one in.
    copy: fn(&K) -> K,
}

struct Change<K> {
    version: u64,
    what: What,
    /// `None` for a bookmark.
    object: Option<K>,
    /// Whether the watches that were open heard of it.
    told: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
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
            forgotten: 0,
            epoch: 0,
            copy,
        }
    }

    pub(super) fn list(&self) -> ListAnswer<K> {
        ListAnswer::page(self.objects.values().map(self.copy), &self.version.to_string())
    }

    fn item(&self, change: &Change<K>) -> WatchItem<K> {
        let object = change.object.as_ref().map(self.copy).map(Fetched::New);
        match (change.what, object) {
            (What::Added, Some(object)) => WatchItem::Added(object),
            (What::Modified, Some(object)) => WatchItem::Modified(object),
            (What::Deleted, Some(object)) => WatchItem::Deleted(object),
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

/// The live collection. Each change has a version of its own, counted from 1, which is returned.
impl<K: kube::Resource + Object + Clone> Script<K> {
    /// Adds an object and tells the open watches.
    pub fn add(&self, object: K) -> u64 {
        self.record(What::Added, object, true)
    }

    /// Adds an object, and no open watch hears of it. One opened later at an earlier version does.
    #[doc(alias = "AddDropWatch")]
    pub fn add_drop_watch(&self, object: K) -> u64 {
        self.record(What::Added, object, false)
    }

    /// Changes an object and tells the open watches.
    pub fn modify(&self, object: K) -> u64 {
        self.record(What::Modified, object, true)
    }

    /// Changes an object, and no open watch hears of it.
    #[doc(alias = "ModifyDropWatch")]
    pub fn modify_drop_watch(&self, object: K) -> u64 {
        self.record(What::Modified, object, false)
    }

    /// Deletes an object and tells the open watches, which are given the object as it is here.
    pub fn delete(&self, object: K) -> u64 {
        self.record(What::Deleted, object, true)
    }

    /// Deletes an object, and no open watch hears of it.
    #[doc(alias = "DeleteDropWatch")]
    pub fn delete_drop_watch(&self, object: K) -> u64 {
        self.record(What::Deleted, object, false)
    }

    /// Tells the open watches how far they are.
    pub fn send_bookmark(&self) {
        self.live(|live| {
            live.log.push(Change {
                version: live.version,
                what: What::Bookmark,
                object: None,
                told: true,
            });
        });
    }

    /// Ends all watches and forgets the history: to watch from an earlier version is no longer possible.
    #[doc(alias = "ResetWatch")]
    pub fn reset_watch(&self) {
        self.live(|live| {
            live.epoch += 1;
            live.log.clear();
            live.forgotten = live.version;
        });
    }

    fn record(&self, what: What, mut object: K, told: bool) -> u64 {
        self.live(|live| {
            live.version += 1;
            object.meta_mut().resource_version = Some(live.version.to_string());
            let key = ObjectKey::of(&object);
            match what {
                What::Deleted => live.objects.remove(&key),
                _ => live.objects.insert(key, object.clone()),
            };
            live.log.push(Change {
                version: live.version,
                what,
                object: Some(object),
                told,
            });
            live.version
        })
    }

    fn live<T>(&self, change: impl FnOnce(&mut Live<K>) -> T) -> T {
        self.shared
            .change(|state| change(state.live.get_or_insert_with(|| Live::new(K::clone))))
    }
}

/// A watch of the live collection; `None` when there is no such collection.
pub(super) fn watch<K: Send + Sync + 'static>(
    shared: &Arc<Shared<K>>,
    request: &WatchRequest,
) -> Option<WatchStream<K>> {
    let state = shared.state.lock();
    let live = state.live.as_ref()?;
    let mut first = VecDeque::from([WatchItem::Progress { bytes: 0 }]);
    let from = if request.initial_events && state.watch_list {
        first.extend(
            live.objects
                .values()
                .map(|o| WatchItem::Added(Fetched::New((live.copy)(o)))),
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
        shared: Arc::clone(shared),
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
    /// Where in the log a watch begins.
    fn position(&self, request: &WatchRequest) -> Result<usize, ApiError> {
        if request.initial_events {
            let text = "sendInitialEvents is forbidden for watch: the script does not serve it";
            return Err(ApiError::new(422, "Invalid", text));
        }
        let version = request.resource_version.as_deref().unwrap_or_default();
        let Ok(version) = version.parse::<u64>() else {
            let text = format!("invalid resource version {version:?}");
            return Err(ApiError::new(400, "BadRequest", &text));
        };
        if version < self.forgotten {
            let text = format!("too old resource version: {version} ({})", self.forgotten);
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
    shared: Arc<Shared<K>>,
    first: VecDeque<WatchItem<K>>,
    /// The next change to look at.
    next: usize,
    /// Changes before this one were history when the watch was opened.
    opened: usize,
    epoch: u64,
}

impl<K> Reader<K> {
    /// What happens next; `None` at the end of the watch.
    async fn next(&mut self) -> Option<WatchItem<K>> {
        if let Some(item) = self.first.pop_front() {
            return Some(item);
        }
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            {
                let state = self.shared.state.lock();
                let live = state.live.as_ref().filter(|live| live.epoch == self.epoch)?;
                while let Some(change) = live.log.get(self.next) {
                    let was_history = self.next < self.opened;
                    self.next += 1;
                    if change.told && !was_history || was_history && change.what != What::Bookmark {
                        return Some(live.item(change));
                    }
                }
            }
            // The sender is in `self.shared` and cannot go away.
            let _ = changes.changed().await;
        }
    }
}
