//! `ShardTracker`: which part of a collection one watch is to have, and which part it has, in three stages.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Shard, ShardFieldError};

/// The shard of one watch, which can be moved while its reflector runs.
///
/// The informer moves it and records what the store holds; the reflector reads what to fetch and records what it has
/// handed over. Clones share the state. No I/O, no task, no clock.
#[derive(Clone)]
pub struct ShardTracker {
    shared: Arc<TrackerState>,
}

impl fmt::Debug for ShardTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShardTracker").field(&self.target()).finish()
    }
}

struct TrackerState {
    tracked: Mutex<Tracked>,
    moved: Notify,
}

struct Tracked {
    /// `None` while the watch covers the whole collection and was never restricted.
    stages: Option<Stages>,
    lists: QueuedLists,
}

/// Which lists wait in the queue, and what they do not count for any more.
///
/// A list is queued, a range of it is given up, the watch continues without that range, and the range is regained: the list
/// has the objects of the range, but the events that follow it in the queue do not. It must not count for the range when it
/// is applied, which is fetched again anyway.
#[derive(Default)]
struct QueuedLists {
    /// Lists that were handed over, or are being handed over.
    handed_over: u64,
    /// Lists that were applied, in the order of their handover.
    applied: u64,
    /// Ranges outside the target when a list was handed over, or since then, with the number of the last list that this
    /// concerns.
    given_up: Vec<(u64, Shard)>,
}

impl QueuedLists {
    /// All lists that are queued do not count for these ranges.
    fn give_up(&mut self, ranges: Shard) {
        if self.handed_over == self.applied || ranges.is_empty() {
            return;
        }
        match self.given_up.last_mut() {
            Some((last, same)) if *same == ranges => *last = self.handed_over,
            _ => self.given_up.push((self.handed_over, ranges)),
        }
    }

    /// The part of `listed` that list number `number` still counts for.
    fn restrict(&self, number: u64, listed: Shard) -> Shard {
        let given_up = self.given_up.iter();
        let given_up = given_up.filter(|(last, _)| *last >= number);
        given_up.fold(listed, |listed, (_, ranges)| {
            listed.difference(ranges).unwrap_or(listed)
        })
    }

    /// The next list is applied. Returns what it counts for.
    fn apply(&mut self, listed: Shard) -> Shard {
        let listed = self.restrict(self.applied + 1, listed);
        self.note_applied(self.applied + 1);
        listed
    }

    fn note_applied(&mut self, number: u64) {
        self.applied = number;
        self.given_up.retain(|(last, _)| *last > number);
    }
}

/// All of the same field, and none larger than `target`. A range that leaves the target leaves every stage at once, so a
/// range that is given up and regained in quick succession is fetched again.
struct Stages {
    target: Shard,
    /// A list of this was handed over to the queue, and the watch continues it.
    fetched: Shard,
    /// A list of this was applied to the store. Deltas for the rest of the target are ignored until its list is applied.
    applied: Shard,
}

impl ShardTracker {
    /// Tracks a shard of which nothing has been fetched, or the whole collection.
    pub fn new(target: Option<Shard>) -> Self {
        let stages = target.map(|target| {
            let nothing = Shard::nothing(target.field());
            Stages {
                fetched: nothing.clone(),
                applied: nothing,
                target,
            }
        });
        Self {
            shared: Arc::new(TrackerState {
                tracked: Mutex::new(Tracked {
                    stages,
                    lists: QueuedLists::default(),
                }),
                moved: Notify::new(),
            }),
        }
    }

    /// Changes the target and wakes the reflector.
    ///
    /// # Errors
    ///
    /// The current target is by another field. Nothing changes.
    pub fn move_to(&self, target: &Shard) -> Result<(), ShardFieldError> {
        {
            let mut tracked = self.shared.tracked.lock();
            let Tracked { stages, lists } = &mut *tracked;
            let restrict = |stage: Option<&Shard>| match stage {
                // Everything was fetched, or the list that is in flight is of everything.
                None => Ok(target.clone()),
                Some(stage) => stage.intersection(target),
            };
            let before = stages.as_ref();
            let everything = Shard::everything(target.field());
            let given_up = before
                .map_or(&everything, |before| &before.target)
                .difference(target)?;
            lists.give_up(given_up);
            *stages = Some(Stages {
                fetched: restrict(before.map(|before| &before.fetched))?,
                applied: restrict(before.map(|before| &before.applied))?,
                target: target.clone(),
            });
        }
        self.shared.moved.notify_one();
        Ok(())
    }

    /// Waits until the target has changed since the last call. Cancel-safe.
    pub async fn moved(&self) {
        self.shared.moved.notified().await;
    }

    /// The shard to fetch and keep; `None` for the whole collection.
    pub fn target(&self) -> Option<Shard> {
        self.read(|stages| stages.target.clone())
    }

    /// The part of the target that was fetched and is being watched; `None` for the whole collection.
    pub fn fetched(&self) -> Option<Shard> {
        self.read(|stages| stages.fetched.clone())
    }

    /// The part of the target that is in the store; `None` for the whole collection.
    pub fn applied(&self) -> Option<Shard> {
        self.read(|stages| stages.applied.clone())
    }

    /// Whether the target is empty.
    pub fn is_empty(&self) -> bool {
        self.read(|stages| stages.target.is_empty()).unwrap_or(false)
    }

    /// Whether a list of `requested` includes the whole target.
    pub fn is_covered_by(&self, requested: Option<&Shard>) -> bool {
        match requested {
            None => true,
            Some(requested) => self
                .read(|stages| includes(requested, &stages.target))
                .unwrap_or(false),
        }
    }

    /// Whether some of the target must be fetched.
    pub fn needs_fetch(&self) -> bool {
        self.read(|stages| !includes(&stages.fetched, &stages.target))
            .unwrap_or(false)
    }

    /// Whether the store has the whole target.
    pub fn is_settled(&self) -> bool {
        self.read(|stages| stages.applied == stages.target)
            .unwrap_or(true)
    }

    /// A list is about to be handed over.
    pub fn admit(&self) {
        let mut tracked = self.shared.tracked.lock();
        let Tracked { stages, lists } = &mut *tracked;
        lists.handed_over += 1;
        if let Some(stages) = stages {
            // The watch that continues the list will not have what is outside, whatever the list has.
            if let Ok(outside) = Shard::everything(stages.target.field()).difference(&stages.target) {
                lists.give_up(outside);
            }
        }
    }

    /// A list of `requested` was handed over.
    pub fn mark_fetched(&self, requested: Option<&Shard>) {
        self.update(|stages, lists| {
            // The shard may have moved during the handover.
            let listed = common(requested, &stages.target);
            stages.fetched = lists.restrict(lists.handed_over, listed);
        });
    }

    /// The list that was about to be handed over was rejected.
    pub fn withdraw(&self) {
        let lists = &mut self.shared.tracked.lock().lists;
        lists.handed_over = lists.handed_over.saturating_sub(1).max(lists.applied);
    }

    /// Returns the shard to restrict a batch of deltas to; `None` for no restriction. If the batch contains a list,
    /// `listed` is what the list is of, and the store has that from now on.
    pub fn apply(&self, listed: Option<Option<&Shard>>) -> Option<Shard> {
        let mut tracked = self.shared.tracked.lock();
        let Tracked { stages, lists } = &mut *tracked;
        match (stages, listed) {
            (Some(stages), Some(listed)) => stages.applied = lists.apply(common(listed, &stages.target)),
            (None, Some(_)) => lists.note_applied(lists.applied + 1),
            (_, None) => {}
        }
        tracked.stages.as_ref().map(|stages| stages.applied.clone())
    }

    fn read<T>(&self, read: impl FnOnce(&Stages) -> T) -> Option<T> {
        self.shared.tracked.lock().stages.as_ref().map(read)
    }

    fn update<T>(&self, update: impl FnOnce(&mut Stages, &mut QueuedLists) -> T) -> Option<T> {
        let mut tracked = self.shared.tracked.lock();
        let Tracked { stages, lists } = &mut *tracked;
        stages.as_mut().map(|stages| update(stages, lists))
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
        tracker.admit();
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

    /// The list is queued, and the watch that follows it does not have the range.
    #[test]
    fn a_queued_list_does_not_count_for_a_range_that_was_given_up_and_regained() {
        let tracker = ShardTracker::new(Some(eighths(0..4)));
        tracker.admit();
        tracker.mark_fetched(Some(&eighths(0..4)));

        tracker.move_to(&eighths(0..2)).unwrap();
        tracker.move_to(&eighths(0..4)).unwrap();
        assert!(tracker.needs_fetch());
        // The range is fetched again, and both lists are queued.
        tracker.admit();
        tracker.mark_fetched(Some(&eighths(0..4)));
        assert!(!tracker.needs_fetch());

        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..2)));
        assert!(!tracker.is_settled());
        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..4)));
        assert!(tracker.is_settled());
    }

    /// The list was requested for more than the target at its handover, and the watch that follows it is of that target.
    #[test]
    fn a_queued_list_does_not_count_for_a_range_that_was_gained_after_its_handover() {
        let tracker = ShardTracker::new(Some(eighths(0..8)));
        tracker.move_to(&eighths(0..2)).unwrap();
        tracker.admit();
        tracker.mark_fetched(Some(&eighths(0..8)));

        tracker.move_to(&eighths(0..4)).unwrap();

        assert!(tracker.needs_fetch());
        assert_eq!(tracker.apply(Some(Some(&eighths(0..8)))), Some(eighths(0..2)));
    }

    #[test]
    fn a_queued_list_of_everything_does_not_count_for_a_range_that_was_given_up_and_regained() {
        let tracker = ShardTracker::new(None);
        tracker.admit();
        tracker.mark_fetched(None);

        tracker.move_to(&eighths(0..2)).unwrap();
        tracker.move_to(&eighths(0..4)).unwrap();

        assert!(tracker.needs_fetch());
        assert_eq!(tracker.apply(Some(None)), Some(eighths(0..2)));
    }

    #[test]
    fn a_range_that_is_given_up_during_the_handover_is_fetched_again() {
        let tracker = ShardTracker::new(Some(eighths(0..4)));
        tracker.admit();
        tracker.move_to(&eighths(0..2)).unwrap();
        tracker.move_to(&eighths(0..4)).unwrap();
        tracker.mark_fetched(Some(&eighths(0..4)));

        assert!(tracker.needs_fetch());
        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..2)));
    }

    #[test]
    fn a_list_that_was_rejected_does_not_shift_the_following_ones() {
        let tracker = ShardTracker::new(Some(eighths(0..4)));
        tracker.admit();
        tracker.withdraw();
        tracker.admit();
        tracker.mark_fetched(Some(&eighths(0..4)));
        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..4)));

        // Nothing is queued any more: a move concerns no list.
        tracker.move_to(&eighths(0..2)).unwrap();
        tracker.move_to(&eighths(0..4)).unwrap();
        tracker.admit();
        tracker.mark_fetched(Some(&eighths(0..4)));
        assert_eq!(tracker.apply(Some(Some(&eighths(0..4)))), Some(eighths(0..4)));
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
    fn a_move_to_another_field_changes_nothing() {
        let tracker = settled(&eighths(0..4));

        assert!(tracker.move_to(&Shard::nothing(ShardField::Namespace)).is_err());

        assert_eq!(tracker.target(), Some(eighths(0..4)));
        assert_eq!(tracker.applied(), Some(eighths(0..4)));
    }
}
