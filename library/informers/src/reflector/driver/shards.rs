//! Following a shard that moves, and finding out how the server handles it.

use super::Driver;
use crate::delta::{Delta, Replacement};
use crate::object::Object;
use crate::reflector::machine::{EventKind, Input};
use crate::reflector::status::ShardSupport;
use crate::shard::Shard;
use crate::wire::ListMeta;

impl<K: Object> Driver<K> {
    /// The shard was moved. Ranges that were given up need no action: the open watch keeps sending their events, and the
    /// informer ignores them. Only gained ranges must be fetched.
    pub(super) async fn shard_changed(&mut self) {
        let shard = &self.parts.shard;
        if shard.is_empty() {
            return self.rest().await;
        }
        let is_underway = self.machine.is_fetching() && shard.is_covered_by(self.requested.as_ref());
        if shard.needs_fetch() && !is_underway {
            self.step(Input::ShardMoved, None).await;
        }
    }

    /// The shard is empty. A target that still waits for its initial list receives an empty one.
    pub(super) async fn rest(&mut self) {
        self.step(Input::ShardEmpty, None).await;
        if !self.synced {
            let nothing = Replacement {
                objects: Vec::new(),
                unreadable: Vec::new(),
                resource_version: None,
                shard: self.parts.shard.target(),
            };
            self.parts.shard.admit();
            self.offer(Delta::ReplacedAll(nothing));
            self.flush();
            self.synced = true;
            self.status.synced();
        }
    }

    /// The server sent an object outside the requested shard.
    pub(super) fn outside(&self) {
        self.status.count(|stats| {
            stats.outside += 1;
            stats.shard_support = ShardSupport::Ignored;
        });
    }

    /// A watch event about an object outside the requested shard. Only its version matters.
    pub(super) fn outside_event(&mut self, version: Option<String>, added: bool) {
        self.load.object(true);
        self.outside();
        let kind = if added {
            EventKind::Added
        } else {
            EventKind::Modified
        };
        if !self.is_forwarded(kind, version.as_deref()) {
            return;
        }
        self.status.event(self.machine.last_version(), self.proof());
        if let Some(resource_version) = version
            && self.machine.last_version() == Some(&resource_version)
        {
            self.offer(Delta::Bookmark { resource_version });
        }
    }

    /// Learns from the metadata of a list whether the server honoured the selector.
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
