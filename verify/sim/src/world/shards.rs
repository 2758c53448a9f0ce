//! The shard of the informer: moved by the tape, as `Informer::set_shard` does.

use kube_informers::delta::Delta;
use kube_informers::shard::Shard;
use kube_informers::sim::ShardTracker;
use tokio::time::Instant;

use super::World;
use crate::object::Thing;
use crate::shards::{Extent, Part};
use crate::tape::Settings;

/// The shard of the informer, and what the model knows about it.
pub(super) struct Shards {
    pub(super) tracker: ShardTracker,
    settings: Settings,
    /// What the informer is to have; none if it has no shard.
    pub(super) target: Option<Part>,
    /// It was empty once: then the cache may be synced without a list.
    pub(super) was_empty: bool,
    /// When it was moved.
    pub(super) moves: Vec<Instant>,
}

impl Shards {
    pub(super) fn new(settings: &Settings) -> Self {
        let target = (settings.sharding > 0).then(|| Part::new(settings.shard, settings));
        Self {
            tracker: ShardTracker::new(target.map(Part::shard)),
            settings: settings.clone(),
            target,
            was_empty: target.is_some_and(Part::is_empty),
            moves: Vec::new(),
        }
    }

    /// The part of the collection that the cache must equal: what the informer says that it has. In the end that is all of the
    /// target.
    pub(super) fn extent(&self) -> Extent {
        match self.tracker.applied() {
            Some(applied) => Extent::Part(Part::requested(Some(&applied), &self.settings)),
            None => Extent::All,
        }
    }

    /// These deltas are about to be applied. Returns what to restrict them to.
    pub(super) fn apply(&self, deltas: &[Delta<Thing>]) -> Option<Shard> {
        let listed = deltas.iter().find_map(|delta| match delta {
            Delta::ReplacedAll(list) => Some(list.shard.as_ref()),
            _ => None,
        });
        self.tracker.apply(listed)
    }
}

impl World {
    /// What is given up leaves at once.
    pub(super) fn move_shard(&mut self, pieces: u32) {
        let shards = &mut self.shards;
        let Some(target) = &mut shards.target else {
            return;
        };
        target.pieces = pieces as u8;
        shards.was_empty |= target.is_empty();
        shards.moves.push(Instant::now());
        let shard = target.shard();
        if shards.tracker.move_to(&shard).is_ok() {
            let mut events = Vec::new();
            self.writer.evict_outside(&shard, &mut events);
            self.dispatch(events);
        }
    }
}
