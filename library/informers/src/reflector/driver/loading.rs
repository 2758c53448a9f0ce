//! Fetching a whole collection: gathers its objects and enforces the limits.

use tracing::{debug, trace};

use super::Driver;
use crate::delta::Delta;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::reflector::machine::{EventKind, Input};
use crate::reflector::transform::{Transformed, transformed};
use crate::wire::{Fetched, SourceError};

impl<K: Object> Driver<K> {
    pub(super) async fn progress(&mut self, bytes: usize) {
        self.status.count(|stats| stats.bytes += bytes as u64);
        self.load.received(bytes);
        self.step(Input::Progress { bytes }, None).await;
    }

    /// Ends a fetch that exceeds a limit.
    pub(super) async fn enforce_limits(&mut self) {
        if !self.machine.is_fetching() {
            return;
        }
        let limits = &self.parts.config.limits;
        if let Some(limit) = self.load.exceeded(limits, self.gathered.len()) {
            self.failed(SourceError::Limit(limit)).await;
        }
    }

    /// Fails if the collection has items and none of them has a readable name. Items with a name are quarantined by key;
    /// a response without a single one is not a collection, and must not empty the cache.
    pub(super) fn check_readable(&mut self) -> Result<(), SourceError> {
        let (count, keys) = (self.gathered.nameless(), self.gathered.len());
        let Some(first) = self.gathered.first_nameless().filter(|_| keys == 0) else {
            return Ok(());
        };
        let error = SourceError::Malformed(format!(
            "none of the {count} items of the list is an object with a name; the first {}",
            first.problem
        ));
        self.gathered.clear();
        Err(error)
    }

    /// Adds an object to the incomplete collection, or changes it there.
    pub(super) fn gather(&mut self, kind: EventKind, fetched: Fetched<K>) {
        let reused = matches!(fetched, Fetched::Unchanged(_));
        self.status.item(reused);
        match transformed(self.parts.transform.as_ref(), fetched) {
            Transformed::Object(object) if kind == EventKind::Deleted => {
                self.gathered.remove(&ObjectKey::of(&*object));
                self.count_item(false);
            }
            Transformed::Object(object) => {
                trace!(resource = %self.resource, key = %ObjectKey::of(&*object), version = object.object_version(), reused, "decoded");
                let is_new = self.gathered.put(object);
                self.count_item(is_new);
            }
            Transformed::Dropped { key, .. } => {
                self.status.count(|stats| stats.dropped += 1);
                self.gathered.remove(&key);
                self.load.object(true);
            }
            Transformed::Bad(bad) if kind == EventKind::Deleted => {
                if let Some(key) = &bad.key {
                    self.gathered.remove(key);
                }
            }
            Transformed::Bad(bad) => {
                self.unreadable(&bad);
                self.gather_unreadable(bad);
            }
        }
    }

    /// Keeps the identity of an unreadable object of the incomplete collection.
    pub(super) fn gather_unreadable(&mut self, bad: BadObject) {
        let size = bad.size;
        let is_kept = self.gathered.put_unreadable(bad);
        self.load.unreadable(size, is_kept);
    }

    fn count_item(&mut self, is_new: bool) {
        self.load.object(is_new);
        if !is_new {
            self.status.count(|stats| stats.repeated += 1);
        }
    }

    /// Handles an unreadable event. A deletion counts whatever the object claims to be, because it came on this watch.
    pub(super) fn unreadable_event(&mut self, deleted: bool, bad: BadObject) {
        let kind = if deleted {
            EventKind::Deleted
        } else {
            EventKind::Modified
        };
        let version = bad.resource_version.clone();
        self.unreadable(&bad);
        match (self.is_forwarded(kind, version.as_deref()), deleted) {
            (true, true) => self.forward(Delta::DeletedUnreadable(bad)),
            (true, false) => self.forward(Delta::Unreadable(bad)),
            (false, true) => {
                if let Some(key) = &bad.key {
                    self.gathered.remove(key);
                }
            }
            (false, false) => self.gather_unreadable(bad),
        }
    }

    /// Counts an unreadable object. The target receives and reports it, once per version.
    pub(super) fn unreadable(&self, bad: &BadObject) {
        self.status.count(|stats| stats.unreadable += 1);
        debug!(resource = %self.resource, "{bad}");
    }

    /// Whether an object is outside the namespace of the source. A type without namespaces cannot be checked.
    pub(super) fn is_foreign(&self, namespace: Option<&str>) -> bool {
        match (&self.namespace, namespace) {
            (Some(own), Some(namespace)) => own != namespace,
            _ => false,
        }
    }

    /// Ignores an object of another namespace.
    pub(super) fn foreign(&mut self) {
        self.load.object(false);
        self.status.count(|stats| stats.foreign += 1);
    }

    /// Ignores an event of another namespace. Its version counts: the server has sent everything before it.
    pub(super) fn foreign_event(&mut self, kind: EventKind, fetched: &Fetched<K>) {
        let version = fetched.object().object_version().map(str::to_owned);
        if !self.is_forwarded(kind, version.as_deref()) {
            return self.foreign();
        }
        self.status.count(|stats| stats.foreign += 1);
        self.status.event(self.machine.last_version(), self.proof());
        if let Some(resource_version) = version
            && self.machine.last_version() == Some(&resource_version)
        {
            self.offer(Delta::Bookmark { resource_version });
        }
    }
}
