//! How current the cache is, and waiting for a version of one watch.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Informer;
use super::member::Member;
use super::process::InformerInner;
use super::stats::MemberStats;
use crate::object::Object;
use crate::shard::Shard;
use crate::version::ResourceVersion;

impl<K: Object> Informer<K> {
    /// The age of the last proof that the cache is current; `None` before the initial list is in the cache.
    ///
    /// A proof is a complete list, or an event or bookmark on the watch that is not older than the cache, once the cache
    /// holds it. Servers send a bookmark about once a minute, so a healthy informer stays below about 90 s, however quiet
    /// its collection is; on a server without bookmarks the watch reconnects after 90 s of silence. With several watches,
    /// the age of the oldest of their proofs; `None` while a namespace that was [added](Self::set_namespaces) is not in
    /// the cache.
    ///
    /// [`has_synced`](Self::has_synced) stays true once it is true, so it does not show whether the cache is current.
    /// [`Readiness`](crate::readiness::Readiness) combines both for all informers of a process.
    pub fn freshness(&self) -> Option<Duration> {
        self.shared.freshness()
    }
}

impl<K: Object> InformerInner<K> {
    pub(super) fn freshness(&self) -> Option<Duration> {
        // An empty shard is the same at every version.
        let members = self.members();
        let watched = members.iter().filter(|member| !member.shard.is_empty());
        let ages: Option<Vec<Duration>> = watched.map(|member| member.freshness()).collect();
        ages.map(|ages| ages.into_iter().max().unwrap_or_default())
            .filter(|_| self.life.borrow().synced)
    }

    /// Counters and state of a watch.
    pub(super) fn member_stats(&self, member: &Member<K>, shard: Option<Shard>) -> MemberStats {
        MemberStats {
            namespace: member.namespace.clone(),
            state: member.reflector.state(),
            shard,
            resource_version: self.store.version_of(member.id),
            queue: member.queue.stats(),
            reflector: member.reflector.stats(),
            audit: member.audit.lock().clone(),
            freshness: member.freshness(),
        }
    }

    /// Waits until a watch has reached a version.
    pub(super) async fn reaches(&self, member: &Member<K>, version: &str, within: Duration) -> bool {
        let has_reached = || {
            let present = self.store.version_of(member.id);
            present.is_some_and(|present| {
                present == version
                    || ResourceVersion::compare(&present, version).is_some_and(|order| order.is_gt())
            })
        };
        let mut applied = self.applied.subscribe();
        let reached = async {
            while !has_reached() {
                if applied.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        timeout(within, reached).await.unwrap_or(false)
    }
}

impl<K: Object> Member<K> {
    /// The age of the last proof that the store is as current as the server, for this watch.
    pub(super) fn freshness(&self) -> Option<Duration> {
        // Read first: if everything is applied after that, so is what the proof is of.
        let latest = self.reflector.last_proof();
        let proof = if self.queue.stats().is_idle() {
            latest
        } else {
            *self.proof.lock()
        };
        proof.map(|proof| Instant::now().saturating_duration_since(proof))
    }

    /// The store has caught up with a proof.
    pub(super) fn note_proof(&self, proof: Option<Instant>) {
        if proof.is_some() {
            *self.proof.lock() = proof;
        }
    }
}
