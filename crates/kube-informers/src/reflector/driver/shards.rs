//! Following a shard that moves, and finding out what the server makes of it.

use super::Driver;
use crate::delta::{Delta, Replacement};
use crate::object::Object;
use crate::reflector::machine::{EventKind, Input};
use crate::reflector::status::ShardSupport;
use crate::shard::Shard;
use crate::wire::ListMeta;

impl<K: Object> Driver<K> {
    /// The assignment has changed. What was given up is no business of ours: the open watch tells too much until its
    /// time is up, and whoever gave it up does not look at that. Only what is new must be asked for.
    pub(super) async fn shard_changed(&mut self) {
        let assignment = &self.parts.assignment;
        if assignment.is_empty() {
            return self.rest().await;
        }
        let is_underway = self.machine.is_fetching() && assignment.is_within(self.requested.as_ref());
        if assignment.lacks_something() && !is_underway {
            self.step(Input::ShardMoved, None).await;
        }
    }

    /// There is nothing to reflect. A target that still waits for its first list gets it: it is empty.
    pub(super) async fn rest(&mut self) {
        self.step(Input::ShardEmpty, None).await;
        if !self.synced {
            let nothing = Replacement {
                objects: Vec::new(),
                unreadable: Vec::new(),
                resource_version: None,
                shard: self.parts.assignment.target(),
            };
            self.offer(Delta::ReplacedAll(nothing));
            self.synced = true;
        }
    }

    /// The server sent an object that was not asked for.
    pub(super) fn outside(&self) {
        self.status.count(|stats| {
            stats.outside += 1;
            stats.shard_support = ShardSupport::Ignored;
        });
    }

    /// The same inside a watch. It says nothing about our objects, but how far the collection has come.
    pub(super) fn outside_event(&mut self, version: Option<String>, added: bool) {
        self.outside();
        let kind = if added {
            EventKind::Added
        } else {
            EventKind::Modified
        };
        if !self.is_forwarded(kind, version.as_deref()) {
            return;
        }
        self.status.event(self.machine.last_version());
        if let Some(resource_version) = version
            && self.machine.last_version() == Some(&resource_version)
        {
            self.offer(Delta::Bookmark { resource_version });
        }
    }

    /// What a list says about the shard it was to be narrowed to.
    pub(super) fn judge_shard(&self, meta: &ListMeta) {
        let Some(selector) = self.requested.as_ref().and_then(Shard::selector) else {
            return;
        };
        let support = match &meta.shard_selector {
            Some(echo) if *echo == selector => ShardSupport::Honoured,
            None if self.echoes_shard => ShardSupport::Ignored,
            _ => return,
        };
        self.status.count(|stats| stats.shard_support = support);
    }
}
