//! `Assignment`: which part of the collection a reflector is to keep its target up with, and which part it does.
//!
//! Set by whoever moves shards, read by the driver. Plain bookkeeping: no I/O, no task, no clock.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::shard::Shard;

/// A shard that can be moved while the reflector runs. Clones are the same assignment.
///
/// All shards given to one assignment hash the same field; whoever moves it sees to that.
#[derive(Clone, Default)]
pub(crate) struct Assignment {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// `None`: everything, and nobody ever asked for less.
    parts: Mutex<Option<Parts>>,
    changed: Notify,
}

struct Parts {
    /// What is wanted.
    target: Shard,
    /// What the target of the reflector has been given a list of, and watches since. Never more than `target`.
    covered: Shard,
    /// The same from a moment earlier, before the list is handed over: a consumer that sees the objects of a list one
    /// by one must not take them for strangers. Never more than `target`.
    admitted: Shard,
}

impl Assignment {
    /// Moves to another shard. What is given up is given up now; what is new is fetched.
    pub(crate) fn set(&self, target: Shard) {
        {
            let mut parts = self.shared.parts.lock();
            let field = target.field();
            let before = parts.take().unwrap_or_else(|| Parts {
                target: Shard::everything(field),
                covered: Shard::everything(field),
                admitted: Shard::everything(field),
            });
            *parts = Some(Parts {
                covered: common(&before.covered, &target),
                admitted: common(&before.admitted, &target),
                target,
            });
        }
        self.shared.changed.notify_one();
    }

    /// Begins with a shard of which nothing has been fetched yet.
    pub(crate) fn begin(&self, target: Shard) {
        let nothing = Shard::nothing(target.field());
        *self.shared.parts.lock() = Some(Parts {
            covered: nothing.clone(),
            admitted: nothing,
            target,
        });
    }

    /// Waits until it has been set since the last wait. Cancel-safe.
    pub(crate) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// What is wanted; `None` for everything.
    pub(crate) fn target(&self) -> Option<Shard> {
        self.with(|parts| parts.target.clone())
    }

    /// What is fetched and watched; `None` for everything.
    pub(crate) fn covered(&self) -> Option<Shard> {
        self.with(|parts| parts.covered.clone())
    }

    /// What a consumer may keep that gets the objects of a list one by one.
    pub(crate) fn admitted(&self) -> Option<Shard> {
        self.with(|parts| parts.admitted.clone())
    }

    fn with<T>(&self, read: impl FnOnce(&Parts) -> T) -> Option<T> {
        self.shared.parts.lock().as_ref().map(read)
    }

    /// Whether nothing is wanted at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|parts| parts.target.is_empty()).unwrap_or(false)
    }

    /// Whether everything wanted is part of what was asked for.
    pub(crate) fn is_within(&self, asked: Option<&Shard>) -> bool {
        match asked {
            None => true,
            Some(asked) => self.with(|parts| is_part(&parts.target, asked)).unwrap_or(false),
        }
    }

    /// Whether something is wanted that has not been fetched.
    pub(crate) fn lacks_something(&self) -> bool {
        self.with(|parts| !is_part(&parts.target, &parts.covered))
            .unwrap_or(false)
    }

    /// A list of what was asked for is about to be handed over.
    pub(crate) fn admit(&self, asked: Option<&Shard>) {
        if let Some(parts) = &mut *self.shared.parts.lock() {
            let more = match asked {
                None => Ok(parts.target.clone()),
                Some(asked) => parts.admitted.union(asked),
            };
            parts.admitted = more.map_or_else(|_| parts.covered.clone(), |more| common(&more, &parts.target));
        }
    }

    /// A list of what was asked for has been handed over.
    pub(crate) fn cover(&self, asked: Option<&Shard>) {
        if let Some(parts) = &mut *self.shared.parts.lock() {
            parts.covered = match asked {
                None => parts.target.clone(),
                Some(asked) => common(asked, &parts.target),
            };
            parts.admitted = parts.covered.clone();
        }
    }
}

/// What two shards have in common. They hash the same field; if not, nothing can be said to be in both.
fn common(one: &Shard, other: &Shard) -> Shard {
    one.intersection(other)
        .unwrap_or_else(|_| Shard::nothing(other.field()))
}

/// Whether one shard lies within the other.
fn is_part(part: &Shard, whole: &Shard) -> bool {
    part.difference(whole).is_ok_and(|rest| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{ShardField, ShardRange};

    /// Of four quarters, these.
    fn quarters(numbers: &[usize]) -> Shard {
        let quarters = ShardRange::ALL.split(4);
        Shard::new(ShardField::Uid, numbers.iter().map(|number| quarters[*number]))
    }

    #[test]
    fn without_a_shard_everything_is_wanted_and_nothing_lacks() {
        let assignment = Assignment::default();

        assert_eq!((assignment.target(), assignment.covered()), (None, None));
        assert!(!assignment.lacks_something() && !assignment.is_empty() && assignment.is_within(None));
    }

    #[test]
    fn what_is_given_up_is_covered_no_longer_even_if_it_comes_back_at_once() {
        let assignment = Assignment::default();
        assignment.begin(quarters(&[0, 1]));
        assert!(assignment.lacks_something());
        assignment.admit(Some(&quarters(&[0, 1])));
        assignment.cover(Some(&quarters(&[0, 1])));
        assert!(!assignment.lacks_something());

        assignment.set(quarters(&[0]));
        assert!(!assignment.lacks_something());
        assignment.set(quarters(&[0, 1]));

        assert!(assignment.lacks_something());
        assert_eq!(assignment.covered(), Some(quarters(&[0])));
    }

    #[test]
    fn a_list_covers_what_of_it_is_still_wanted() {
        let assignment = Assignment::default();
        assignment.begin(quarters(&[0, 1]));
        assignment.set(quarters(&[1, 2]));

        assert!(!assignment.is_within(Some(&quarters(&[0, 1]))));
        assignment.cover(Some(&quarters(&[0, 1])));

        assert_eq!(assignment.covered(), Some(quarters(&[1])));
        assert!(assignment.lacks_something());
    }

    #[test]
    fn an_unsharded_reflector_narrows_without_a_list() {
        let assignment = Assignment::default();
        assignment.set(quarters(&[3]));

        assert!(!assignment.lacks_something());
        assert_eq!(assignment.covered(), Some(quarters(&[3])));
    }
}
