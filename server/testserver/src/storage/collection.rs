//! The objects of one resource and the history of their changes.
//! Returns views of the collection at a revision. Independent of HTTP and selectors.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kube_api_protocol::negotiation::Encoding;

use super::object::Stored;

/// A change of one object. Shared by all watches, so that it is encoded once and not once per watch.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) old: Option<Arc<Stored>>,
    pub(crate) new: Option<Arc<Stored>>,
    last_known: OnceLock<Option<Arc<Stored>>>,
    frame: OnceLock<Bytes>,
    protobuf_frame: OnceLock<Bytes>,
}

impl Change {
    fn new(revision: u64, old: Option<Arc<Stored>>, new: Option<Arc<Stored>>) -> Change {
        Change {
            revision,
            old,
            new,
            last_known: OnceLock::new(),
            frame: OnceLock::new(),
            protobuf_frame: OnceLock::new(),
        }
    }

    /// The creation of an object that is already stored.
    pub(crate) fn created(object: Arc<Stored>) -> Arc<Change> {
        Arc::new(Change::new(object.revision, None, Some(object)))
    }

    /// The key of the changed object.
    pub(crate) fn key(&self) -> &Arc<str> {
        static NONE: OnceLock<Arc<str>> = OnceLock::new();
        match self.new.as_ref().or(self.old.as_ref()) {
            Some(object) => &object.key,
            // A change always has an object on at least one side.
            None => NONE.get_or_init(|| "".into()),
        }
    }

    /// The previous object at the revision of this change: the payload of a DELETED event, whether the object was
    /// deleted or left a selection.
    pub(crate) fn last_known(&self) -> Option<&Arc<Stored>> {
        self.last_known
            .get_or_init(|| {
                self.old
                    .as_ref()
                    .map(|old| Arc::new(old.at_revision(self.revision)))
            })
            .as_ref()
    }

    /// The frame of this change for watches without a selector, encoded by the first of them.
    pub(crate) fn shared_frame(&self, encoding: Encoding, encode: impl FnOnce() -> Bytes) -> Bytes {
        let frame = match encoding {
            Encoding::Protobuf => &self.protobuf_frame,
            Encoding::Json | Encoding::Yaml => &self.frame,
        };
        frame.get_or_init(encode).clone()
    }
}

/// The requested revision is no longer in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The oldest revision that can still be read.
    pub(crate) oldest: u64,
}

/// Current objects by key, and their recent changes within the window.
#[derive(Debug)]
pub(crate) struct Collection {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    history: VecDeque<Arc<Change>>,
    /// Changes up to and including this revision have been dropped.
    floor: u64,
    window: usize,
}

impl Collection {
    pub(crate) fn new(floor: u64, window: usize) -> Collection {
        Collection {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            floor,
            window: window.max(1),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// Adds an object to the initial state.
    pub(crate) fn adopt(&mut self, object: Arc<Stored>) {
        self.objects.insert(object.key.clone(), object);
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    /// The objects whose key starts with `prefix`.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Stored>> {
        let from = self
            .objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn put(&mut self, object: Arc<Stored>) -> Arc<Change> {
        let old = self.objects.insert(object.key.clone(), object.clone());
        self.remember(Change::new(object.revision, old, Some(object)))
    }

    pub(crate) fn remove(&mut self, key: &str, revision: u64) -> Option<Arc<Change>> {
        let old = self.objects.remove(key)?;
        Some(self.remember(Change::new(revision, Some(old), None)))
    }

    fn remember(&mut self, change: Change) -> Arc<Change> {
        let change = Arc::new(change);
        self.history.push_back(change.clone());
        self.trim();
        change
    }

    fn trim(&mut self) {
        while self.history.len() > self.window
            && let Some(forgotten) = self.history.pop_front()
        {
            self.floor = self.floor.max(forgotten.revision);
        }
    }

    /// Drops the changes up to and including `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
        while self
            .history
            .front()
            .is_some_and(|change| change.revision <= revision)
        {
            self.history.pop_front();
        }
    }

    /// Sets the number of changes kept; a smaller window is applied at once.
    pub(crate) fn set_window(&mut self, window: usize) {
        self.window = window.max(1);
        self.trim();
    }

    /// The changes after `revision`, oldest first. The caller has checked `revision` against [`Self::floor`].
    pub(crate) fn changes_after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let start = self.history.partition_point(|change| change.revision <= revision);
        self.history.range(start..)
    }

    /// The number of changes after one revision and up to another.
    pub(crate) fn count_changes(&self, after: u64, until: u64) -> usize {
        let position = |revision: u64| self.history.partition_point(|change| change.revision <= revision);
        position(until).saturating_sub(position(after))
    }

    /// The collection as it was at `revision`.
    pub(crate) fn view(&self, revision: u64) -> Result<View<'_>, TooOld> {
        if revision < self.floor {
            return Err(TooOld { oldest: self.floor });
        }
        // Undone from newest to oldest, so that the oldest change after `revision` wins.
        let mut undone = BTreeMap::new();
        for change in self.changes_after(revision).rev() {
            undone.insert(change.key().clone(), change.old.clone());
        }
        Ok(View {
            objects: &self.objects,
            undone,
        })
    }

    /// Restores the collection at `revision` and drops later changes, like a restored backup.
    pub(crate) fn rewind(&mut self, revision: u64) -> Result<(), TooOld> {
        let undone = self.view(revision)?.undone;
        for (key, old) in undone {
            match old {
                Some(object) => self.objects.insert(key, object),
                None => self.objects.remove(&key),
            };
        }
        while self
            .history
            .back()
            .is_some_and(|change| change.revision > revision)
        {
            self.history.pop_back();
        }
        Ok(())
    }
}

/// A collection at one revision: the current objects, overlaid with the differences at that revision.
#[derive(Debug)]
pub(crate) struct View<'a> {
    objects: &'a BTreeMap<Arc<str>, Arc<Stored>>,
    undone: BTreeMap<Arc<str>, Option<Arc<Stored>>>,
}

impl View<'_> {
    /// Overlays one more difference; `None` means that the object did not exist.
    pub(crate) fn overlay(&mut self, key: Arc<str>, object: Option<Arc<Stored>>) {
        self.undone.insert(key, object);
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        match self.undone.get(key) {
            Some(then) => then.as_ref(),
            None => self.objects.get(key),
        }
    }

    /// The number of objects that [`Self::range`] returns.
    pub(crate) fn count(&self, prefix: &str, from: &str) -> usize {
        if self.undone.is_empty() && prefix.is_empty() && from.is_empty() {
            return self.objects.len();
        }
        self.range(prefix, from).count()
    }

    /// The objects whose key starts with `prefix`, starting at the key `from`, sorted by key.
    pub(crate) fn range<'v>(
        &'v self,
        prefix: &'v str,
        from: &'v str,
    ) -> Box<dyn Iterator<Item = &'v Arc<Stored>> + 'v> {
        let start = Bound::Included(if from > prefix { from } else { prefix });
        let current = self.objects.range::<str, _>((start, Bound::Unbounded));
        if self.undone.is_empty() {
            let objects = current.map(|(_, object)| object);
            return Box::new(objects.take_while(move |object| object.key.starts_with(prefix)));
        }
        let undone = self.undone.range::<str, _>((start, Bound::Unbounded));
        let merged = Merged {
            current: current.peekable(),
            undone: undone.peekable(),
        };
        Box::new(merged.take_while(move |object| object.key.starts_with(prefix)))
    }
}

type Objects<'v> = btree_map::Range<'v, Arc<str>, Arc<Stored>>;
type Differences<'v> = btree_map::Range<'v, Arc<str>, Option<Arc<Stored>>>;

/// Current objects merged with the overlay, sorted by key.
struct Merged<'v> {
    current: Peekable<Objects<'v>>,
    undone: Peekable<Differences<'v>>,
}

impl<'v> Iterator for Merged<'v> {
    type Item = &'v Arc<Stored>;

    fn next(&mut self) -> Option<&'v Arc<Stored>> {
        loop {
            let now = self.current.peek().map(|(key, _)| &***key);
            let then = self.undone.peek().map(|(key, _)| &***key);
            match (now, then) {
                (None, None) => return None,
                (Some(key), other) if other.is_none_or(|other| key < other) => {
                    return self.current.next().map(|(_, object)| object);
                }
                _ => {
                    if now == then {
                        self.current.next();
                    }
                    if let Some(object) = self.undone.next().and_then(|(_, then)| then.as_ref()) {
                        return Some(object);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, revision: u64) -> Arc<Stored> {
        let value = json!({"metadata": {"namespace": "shop", "name": name}});
        let object = value.as_object().expect("an object");
        Arc::new(Stored::encode("v1", "Pod", object, revision))
    }

    fn seen(collection: &Collection, revision: u64) -> Vec<String> {
        let view = collection.view(revision).expect("within the window");
        view.range("", "")
            .map(|object| format!("{}@{}", object.key, object.revision))
            .collect()
    }

    #[test]
    fn view_shows_the_collection_at_its_revision() {
        let mut collection = Collection::new(0, 100);
        collection.put(pod("b", 1));
        collection.put(pod("d", 2));
        collection.put(pod("a", 3));
        collection.put(pod("b", 4));
        collection.remove("shop/d", 5);
        collection.put(pod("d", 6));

        assert_eq!(seen(&collection, 0), Vec::<String>::new());
        assert_eq!(seen(&collection, 2), ["shop/b@1", "shop/d@2"]);
        assert_eq!(seen(&collection, 4), ["shop/a@3", "shop/b@4", "shop/d@2"]);
        assert_eq!(seen(&collection, 5), ["shop/a@3", "shop/b@4"]);
        assert_eq!(seen(&collection, 6), ["shop/a@3", "shop/b@4", "shop/d@6"]);
    }

    #[test]
    fn window_drops_the_oldest_changes() {
        let mut collection = Collection::new(0, 2);
        for revision in 1..=4 {
            collection.put(pod("a", revision));
        }

        assert_eq!(collection.floor(), 2);
        assert_eq!(collection.view(1).map(|_| ()), Err(TooOld { oldest: 2 }));
        assert_eq!(seen(&collection, 2), ["shop/a@2"]);
    }

    #[test]
    fn rewind_restores_the_state_and_drops_later_changes() {
        let mut collection = Collection::new(0, 100);
        collection.put(pod("a", 1));
        collection.put(pod("b", 2));
        collection.remove("shop/a", 3);

        collection.rewind(1).expect("within the window");

        assert_eq!(seen(&collection, 1), ["shop/a@1"]);
        assert_eq!(collection.changes_after(0).count(), 1);
    }
}
