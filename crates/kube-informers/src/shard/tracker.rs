//! `ShardTracker`: which part of a collection one watch is to have, and which part it has, in three stages.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Shard, ShardFieldError};

/// The shard of one watch, which can be moved while its reflector runs.
///
/// The informer moves it and records what the store holds; the reflector reads what to fetch and records what it has
/// handed over. Clones share the state. No I/O, no task, no clock.
#[derive(Clone)]
pub(crate) struct ShardTracker {
    shared: Arc<TrackerState>,
}

struct TrackerState {
    /// `None` while the watch covers the whole collection and was never restricted.
    stages: Mutex<Option<Stages>>,
    moved: Notify,
}

/// All of the same field, and none larger than `target`. A range that leaves the target leaves every stage at once, so a
/// range that is given up and regained in quick succession is fetched again.
struct Stages {
    target: Shard,
    /// Lists of this were handed over to the queue, or are being handed over. A queue that splits a list into its
    /// objects delivers them before the handover is complete.
    admitted: Shard,
    /// A list of this was handed over to the queue, and the watch continues it.
    fetched: Shard,
    /// A list of this was applied to the store. Deltas for the rest of the target are ignored until its list is applied.
    applied: Shard,
}

impl ShardTracker {
    /// Tracks a shard of which nothing has been fetched, or the whole collection.
    pub(crate) fn new(target: Option<Shard>) -> Self {
        let stages = target.map(|target| {
            let nothing = Shard::nothing(target.field());
            Stages {
                admitted: nothing.clone(),
                fetched: nothing.clone(),
                applied: nothing,
                target,
            }
        });
        Self {
            shared: Arc::new(TrackerState {
                stages: Mutex::new(stages),
                moved: Notify::new(),
            }),
        }
    }

    /// Changes the target and wakes the reflector.
    ///
    /// # Errors
    ///
    /// The current target is by another field. Nothing changes.
    pub(crate) fn move_to(&self, target: &Shard) -> Result<(), ShardFieldError> {
        {
            let mut stages = self.shared.stages.lock();
            let restrict = |stage: Option<&Shard>| match stage {
                // Everything was fetched, or the list that is in flight is of everything.
                None => Ok(target.clone()),
                Some(stage) => stage.intersection(target),
            };
            let before = stages.as_ref();
            *stages = Some(Stages {
                admitted: restrict(before.map(|before| &before.admitted))?,
                fetched: restrict(before.map(|before| &before.fetched))?,
                applied: restrict(before.map(|before| &before.applied))?,
                target: target.clone(),
            });
        }
        self.shared.moved.notify_one();
        Ok(())
    }

    /// Waits until the target has changed since the last call. Cancel-safe.
    pub(crate) async fn moved(&self) {
        self.shared.moved.notified().await;
    }

    /// The shard to fetch and keep; `None` for the whole collection.
    pub(crate) fn target(&self) -> Option<Shard> {
        self.read(|stages| stages.target.clone())
    }

    /// The part of the target that was fetched and is being watched; `None` for the whole collection.
    pub(crate) fn fetched(&self) -> Option<Shard> {
        self.read(|stages| stages.fetched.clone())
    }

    /// The part of the target that is in the store; `None` for the whole collection.
    pub(crate) fn applied(&self) -> Option<Shard> {
        self.read(|stages| stages.applied.clone())
    }

    /// Whether the target is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.read(|stages| stages.target.is_empty()).unwrap_or(false)
    }

    /// Whether a list of `requested` includes the whole target.
    pub(crate) fn is_covered_by(&self, requested: Option<&Shard>) -> bool {
        match requested {
            None => true,
            Some(requested) => self
                .read(|stages| includes(requested, &stages.target))
                .unwrap_or(false),
        }
    }

    /// Whether some of the target must be fetched.
    pub(crate) fn needs_fetch(&self) -> bool {
        self.read(|stages| !includes(&stages.fetched, &stages.target))
            .unwrap_or(false)
    }

    /// Whether the store has the whole target.
    pub(crate) fn is_settled(&self) -> bool {
        self.read(|stages| stages.applied == stages.target)
            .unwrap_or(true)
    }

    /// A list of `requested` is about to be handed over.
    pub(crate) fn admit(&self, requested: Option<&Shard>) {
        self.update(|stages| {
            let listed = common(requested, &stages.target);
            if let Ok(admitted) = stages.admitted.union(&listed) {
                stages.admitted = admitted;
            }
        });
    }

    /// A list of `requested` was handed over.
    pub(crate) fn mark_fetched(&self, requested: Option<&Shard>) {
        self.update(|stages| {
            stages.fetched = common(requested, &stages.target);
            stages.admitted = stages.fetched.clone();
        });
    }

    /// Returns the shard to restrict a batch of deltas to; `None` for no restriction. If the batch contains a list,
    /// `listed` is what the list is of, and the store has that from now on.
    pub(crate) fn apply(&self, listed: Option<Option<&Shard>>) -> Option<Shard> {
        self.update(|stages| {
            if let Some(listed) = listed {
                stages.applied = common(listed, &stages.target);
            }
            stages.applied.clone()
        })
    }

    /// The same for a queue that splits lists into their objects.
    pub(crate) fn apply_split_lists(&self) -> Option<Shard> {
        self.update(|stages| {
            stages.applied = stages.admitted.clone();
            stages.applied.clone()
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Stages) -> T) -> Option<T> {
        self.shared.stages.lock().as_ref().map(read)
    }

    fn update<T>(&self, update: impl FnOnce(&mut Stages) -> T) -> Option<T> {
        self.shared.stages.lock().as_mut().map(update)
    }
}

/// The part of the target that a list of `requested` includes. If they are by different fields, nothing is known to be.
fn common(requested: Option<&Shard>, target: &Shard) -> Shard {
    let common = requested.map_or_else(|| Ok(target.clone()), |requested| requested.intersection(target));
    common.unwrap_or_else(|_| Shard::nothing(target.field()))
}

fn includes(whole: &Shard, part: &Shard) -> bool {
    part.difference(whole).is_ok_and(|rest| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{ShardField, ShardRange};

    /// The given eighths of the hash space.
    fn eighths(range: std::ops::Range<usize>) -> Shard {
        Shard::new(ShardField::Uid, ShardRange::ALL.split(8)[range].to_vec())
    }

    /// A watch that has its whole target in the store.
    fn settled(target: &Shard) -> ShardTracker {
        let tracker = ShardTracker::new(Some(target.clone()));
        tracker.admit(Some(target));
        tracker.mark_fetched(Some(target));
        tracker.apply(Some(Some(target)));
        assert!(tracker.is_settled() && !tracker.needs_fetch());
        tracker
    }

    #[test]
    fn an_unrestricted_watch_needs_no_fetch() {
        let tracker = ShardTracker::new(None);

        assert_eq!((tracker.target(), tracker.fetched()), (None, None));
        assert!(!tracker.needs_fetch() && !tracker.is_empty() && tracker.is_covered_by(None));
        assert_eq!(tracker.apply(Some(None)), None);
        assert!(tracker.is_settled());
    }

    #[test]
    fn an_unrestricted_watch_is_restricted_without_a_list() {
        let tracker = ShardTracker::new(None);

        tracker.move_to(&eighths(3..4)).unwrap();

        assert!(!tracker.needs_fetch() && tracker.is_settled());
        assert_eq!(tracker.fetched(), Some(eighths(3..4)));
        assert_eq!(tracker.apply(None), Some(eighths(3..4)));
    }

    #[test]
    fn a_range_that_is_given_up_and_regained_is_fetched_again() {
        let tracker = settled(&eighths(0..4));

        tracker.move_to(&eighths(0..2)).unwrap();
        assert!(!tracker.needs_fetch());
        tracker.move_to(&eighths(0..4)).unwrap();

        assert!(tracker.needs_fetch());
        assert_eq!(tracker.fetched(), Some(eighths(0..2)));
    }

    #[test]
    fn deltas_for_a_regained_range_are_ignored_until_its_list_is_applied() {
        let tracker = ShardTracker::new(Some(eighths(0..4)));
        assert_eq!(tracker.apply(None), Some(eighths(0..0)));
        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..4)));
        assert!(tracker.is_settled());

        tracker.move_to(&eighths(0..2)).unwrap();
        assert!(tracker.is_settled(), "giving up a range needs no list");
        assert_eq!(tracker.apply(None), Some(eighths(0..2)));
        tracker.move_to(&eighths(0..4)).unwrap();

        // These deltas were read before the move and are older than the list to come.
        assert_eq!(tracker.apply(None), Some(eighths(0..2)));
        assert!(!tracker.is_settled());
        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..4)));
        assert!(tracker.is_settled());
    }

    #[test]
    fn a_list_of_the_previous_target_counts_for_the_common_part() {
        let tracker = ShardTracker::new(Some(eighths(0..6)));
        tracker.move_to(&eighths(4..8)).unwrap();

        assert!(!tracker.is_covered_by(Some(&eighths(0..6))));
        tracker.mark_fetched(Some(&eighths(0..6)));
        assert_eq!(tracker.fetched(), Some(eighths(4..6)));
        assert!(tracker.needs_fetch());

        assert_eq!(tracker.apply(Some(Some(&eighths(0..6)))), Some(eighths(4..6)));
        assert!(!tracker.is_settled());
        assert_eq!(tracker.apply(Some(None)), Some(eighths(4..8)));
        assert!(tracker.is_settled());
    }

    #[test]
    fn objects_of_a_split_list_are_admitted_before_the_handover_is_complete() {
        let tracker = settled(&eighths(0..2));
        tracker.move_to(&eighths(0..4)).unwrap();

        assert_eq!(tracker.apply_split_lists(), Some(eighths(0..2)));
        tracker.admit(Some(&eighths(0..4)));

        assert_eq!(tracker.apply_split_lists(), Some(eighths(0..4)));
        assert!(tracker.needs_fetch());
    }

    #[test]
    fn a_move_to_another_field_changes_nothing() {
        let tracker = settled(&eighths(0..4));

        assert!(tracker.move_to(&Shard::nothing(ShardField::Namespace)).is_err());

        assert_eq!(tracker.target(), Some(eighths(0..4)));
        assert_eq!(tracker.applied(), Some(eighths(0..4)));
    }
}
