//! Moving an informer to another shard. The state of each watch is its [`ShardTracker`](crate::shard::ShardTracker).

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Informer;
use super::errors::{ScopeError, WaitError};
use crate::errors::StoppedError;
use crate::object::Object;
use crate::shard::Shard;
use crate::time::after;

/// Shards.
impl<K: Object> Informer<K> {
    /// Moves the informer to another shard of the collection.
    ///
    /// When this returns, the cache holds no object outside the new shard, and every handler has a
    /// [`Cause::LeftScope`](crate::Cause::LeftScope) deletion for each evicted object in its backlog. No request is
    /// made for this. Objects that belong to both shards cause no event.
    ///
    /// Gained ranges are fetched in the background; [`settled`](Self::settled) waits for them. Their objects become
    /// visible all at once, when their list is applied. Until then the cache is exact for the ranges it has, at the
    /// version it reports. Objects of kept ranges remain in the cache meanwhile; their changes arrive with the list,
    /// which is never older than what was delivered before.
    ///
    /// May be called at any time and from any thread; the last call wins. With an empty shard the informer makes no
    /// requests. [`has_synced`](Self::has_synced) never reverts to false. [`wait_for`](Self::wait_for) waits for the
    /// version of the ranges in the cache, including gained ranges once they are applied, and returns at once for an
    /// empty shard.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_informers::shard::{ShardField, ShardRange};
    /// use kube_informers::shard::Shard;
    /// use kube_informers::{Informer, Scope};
    ///
    /// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let halves = ShardRange::ALL.split(2);
    /// let low = Shard::new(ShardField::Uid, [halves[0]]);
    /// let pods = Informer::<Pod>::scoped(client, Scope::all().shard(low)).start();
    /// pods.synced().await?;
    ///
    /// // The replica that owned the other half is gone.
    /// pods.set_shard(Shard::everything(ShardField::Uid))?;
    /// pods.settled().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The informer has stopped, is shared through a factory, or has a shard by another field.
    pub fn set_shard(&self, shard: Shard) -> Result<(), ScopeError> {
        if self.shared.scope_is_fixed {
            return Err(ScopeError::Shared {
                informer: self.name().to_owned(),
                part: "shard",
            });
        }
        self.shared.set_shard(&shard)
    }

    /// The shard the informer was last moved to; `None` if it has none. [`MemberStats`](crate::stats::MemberStats)
    /// shows which part of it each watch has in the cache.
    pub fn shard(&self) -> Option<Shard> {
        self.shared.shard().0
    }

    /// Whether everything in the scope is in the cache: the whole shard, in all namespaces. Unlike
    /// [`has_synced`](Self::has_synced), it becomes false while an added range or namespace is being fetched.
    pub fn has_settled(&self) -> bool {
        self.shared.shard().1
    }

    /// Waits until everything in the scope [is in the cache](Self::has_settled), however often requests fail. If the shard
    /// or the namespaces change meanwhile, waits for the new ones.
    ///
    /// # Errors
    ///
    /// The informer stopped first.
    pub async fn settled(&self) -> Result<(), StoppedError> {
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
            // Both branches are cancel-safe: a change between two iterations is not lost.
            tokio::select! {
                _ = applied.changed() => {}
                _ = life.changed() => {}
            }
        }
    }

    /// The same for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The same, or the timeout elapsed.
    pub async fn settled_within(&self, timeout: Duration) -> Result<(), WaitError> {
        let deadline = after(Instant::now(), timeout);
        let settled = timeout_at(deadline, self.settled()).await;
        let settled = settled.map_err(|_| WaitError::Settled {
            informer: self.shared.name.clone(),
            state: self.state(),
            after: timeout,
        })?;
        Ok(settled?)
    }
}
