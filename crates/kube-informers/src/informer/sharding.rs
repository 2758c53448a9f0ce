//! A shard that moves: what an informer is asked for, what it has, and the calls that change it.
//!
//! What is given up leaves at once. What is gained arrives with a list of its member watch, and counts from then on:
//! between the two, deltas about it are strangers.

use super::Informer;
use super::errors::{SetShardError, StoppedError};
use crate::object::Object;
use crate::shard::{FieldsDiffer, Shard};

/// The bookkeeping of an informer's shard. Pure.
pub(super) struct Sharding {
    /// What is wanted; `None` for everything.
    target: Option<Shard>,
    /// What of it each member has in the store. Never more than the target.
    covered: Vec<Option<Shard>>,
}

/// What a batch says about what its member has from now on.
pub(super) enum Covered {
    /// It is a list of this; `None` for everything.
    List(Option<Shard>),
    /// It is part of lists taken apart, which together are of this.
    Admitted(Option<Shard>),
}

impl Sharding {
    pub(super) fn new(target: Option<Shard>, members: usize) -> Self {
        let nothing = target.as_ref().map(|target| Shard::nothing(target.field()));
        Self {
            covered: vec![nothing; members],
            target,
        }
    }

    pub(super) fn target(&self) -> Option<Shard> {
        self.target.clone()
    }

    pub(super) fn covered(&self) -> Vec<Option<Shard>> {
        self.covered.clone()
    }

    /// Moves to another shard. What is not in it is not covered any more.
    pub(super) fn set(&mut self, target: &Shard) -> Result<(), FieldsDiffer> {
        if let Some(before) = &self.target {
            before.union(target)?;
        }
        for covered in &mut self.covered {
            *covered = Some(match covered.take() {
                None => target.clone(),
                Some(covered) => covered.intersection(target)?,
            });
        }
        self.target = Some(target.clone());
        Ok(())
    }

    /// What of a batch counts; `None` for everything.
    pub(super) fn narrow(&mut self, member: usize, covered: Option<Covered>) -> Option<Shard> {
        let target = self.target.as_ref()?;
        let present = self.covered.get_mut(member)?;
        match covered {
            None => {}
            Some(Covered::List(None) | Covered::Admitted(None)) => *present = Some(target.clone()),
            Some(Covered::List(Some(list)) | Covered::Admitted(Some(list))) => {
                let common = list.intersection(target);
                *present = Some(common.unwrap_or_else(|_| Shard::nothing(target.field())));
            }
        }
        present.clone()
    }

    /// Whether everything wanted is there.
    pub(super) fn is_settled(&self) -> bool {
        self.covered.iter().all(|covered| *covered == self.target)
    }

    /// Which members have nothing to have.
    pub(super) fn empty_members(&self) -> Vec<bool> {
        let is_empty = self.target.as_ref().is_some_and(Shard::is_empty);
        vec![is_empty; self.covered.len()]
    }
}

/// Moving between shards.
impl<K: Object> Informer<K> {
    /// Moves to another shard of the collection.
    ///
    /// What is given up is gone when this returns: the cache holds nothing outside the new shard any more, every
    /// handler has the notice, [`Cause::LeftScope`](crate::Cause::LeftScope), in its queue, and nothing was asked of the
    /// server. Only the difference is told: an object that stays is not announced again.
    ///
    /// What is gained is fetched meanwhile; [`shard_settled`](Self::shard_settled) waits for it. It arrives as one step,
    /// as a list does, and a list that finds what is cached unchanged tells nobody. Until then the cache is exact for
    /// what it has, at the version it reports. Objects that stay are not forgotten meanwhile, but their changes wait for
    /// the list, which is never older than what was told before.
    ///
    /// May be called at any time and from any thread; of several calls the last one counts. An empty shard makes the
    /// informer rest: it asks nothing of the server. [`has_synced`](Self::has_synced) never turns back;
    /// [`wait_for`](Self::wait_for) needs the version of what the cache has, gained ranges included as soon as they are
    /// there, and nothing at all of an empty shard.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_informers::shard::{ShardField, ShardRange};
    /// use kube_informers::{Informer, Scope, Shard};
    ///
    /// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let halves = ShardRange::ALL.split(2);
    /// let low = Shard::new(ShardField::Uid, [halves[0]]);
    /// let pods = Informer::<Pod>::scoped(client, Scope::all().shard(low)).start();
    /// pods.synced().await?;
    ///
    /// // The replica that looked after the other half is gone.
    /// pods.set_shard(Shard::everything(ShardField::Uid))?;
    /// pods.shard_settled().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The informer has stopped, is shared by all who ask a factory for the same scope, or has a shard that goes by
    /// another field.
    pub fn set_shard(&self, shard: Shard) -> Result<(), SetShardError> {
        if self.shared.shard_is_fixed {
            return Err(SetShardError::Shared {
                informer: self.name().to_owned(),
            });
        }
        self.shared.set_shard(&shard)
    }

    /// The shard that is wanted; `None` if it never had one. What of it each member watch has is in
    /// [`MemberStats`](crate::stats::MemberStats).
    pub fn shard(&self) -> Option<Shard> {
        self.shared.shard().0
    }

    /// Whether all of the shard is in the cache, as far as it was moved up to now.
    pub fn has_settled(&self) -> bool {
        self.shared.shard().1
    }

    /// Waits until all of the shard is in the cache, through all errors. If the shard is moved again meanwhile, the new
    /// one is waited for.
    ///
    /// # Errors
    ///
    /// The informer stopped before that.
    pub async fn shard_settled(&self) -> Result<(), StoppedError> {
        let mut applied = self.shared.applied.subscribe();
        let mut life = self.shared.life.subscribe();
        loop {
            applied.borrow_and_update();
            if self.has_settled() {
                return Ok(());
            }
            if life.borrow_and_update().stopped {
                return Err(self.shared.stopped_error());
            }
            // Both branches are cancel-safe: a change that comes meanwhile is still there at the next turn.
            tokio::select! {
                _ = applied.changed() => {}
                _ = life.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{ShardField, ShardRange};

    /// Of eight pieces, those of the range.
    fn eighths(range: std::ops::Range<usize>) -> Shard {
        Shard::new(ShardField::Uid, ShardRange::ALL.split(8)[range].to_vec())
    }

    fn listed(shard: Shard) -> Option<Covered> {
        Some(Covered::List(Some(shard)))
    }

    #[test]
    fn what_comes_back_is_strange_until_a_list_of_it_is_applied() {
        let mut sharding = Sharding::new(Some(eighths(0..4)), 1);
        assert_eq!(
            sharding.narrow(0, None),
            Some(eighths(0..0)),
            "nothing is there yet"
        );
        assert_eq!(sharding.narrow(0, listed(eighths(0..4))), Some(eighths(0..4)));
        assert!(sharding.is_settled());

        sharding.set(&eighths(0..2)).unwrap();
        assert!(sharding.is_settled(), "giving up is done at once");
        assert_eq!(sharding.narrow(0, None), Some(eighths(0..2)));
        sharding.set(&eighths(0..4)).unwrap();

        // Deltas that were read before: they are older than the list to come.
        assert_eq!(sharding.narrow(0, None), Some(eighths(0..2)));
        assert!(!sharding.is_settled());
        assert_eq!(sharding.narrow(0, listed(eighths(0..4))), Some(eighths(0..4)));
        assert!(sharding.is_settled());
    }

    #[test]
    fn of_a_list_only_what_is_still_wanted_counts() {
        let mut sharding = Sharding::new(Some(eighths(0..6)), 2);
        sharding.set(&eighths(4..8)).unwrap();

        assert_eq!(sharding.narrow(0, listed(eighths(0..6))), Some(eighths(4..6)));
        assert_eq!(sharding.narrow(1, listed(eighths(4..8))), Some(eighths(4..8)));
        assert!(!sharding.is_settled(), "one member lacks something");
        assert_eq!(sharding.narrow(0, listed(eighths(4..8))), Some(eighths(4..8)));
        assert!(sharding.is_settled());
    }

    #[test]
    fn without_a_shard_everything_counts_until_there_is_one() {
        let mut sharding = Sharding::new(None, 1);
        assert_eq!(sharding.narrow(0, Some(Covered::List(None))), None);

        sharding.set(&eighths(1..2)).unwrap();

        assert!(sharding.is_settled(), "it had everything");
        assert_eq!(sharding.narrow(0, None), Some(eighths(1..2)));
    }

    #[test]
    fn a_refused_move_changes_nothing() {
        let mut sharding = Sharding::new(Some(eighths(0..4)), 1);
        sharding.narrow(0, listed(eighths(0..4)));

        assert!(sharding.set(&Shard::nothing(ShardField::Namespace)).is_err());

        assert_eq!(sharding.target(), Some(eighths(0..4)));
        assert_eq!(sharding.covered(), [Some(eighths(0..4))]);
    }
}
